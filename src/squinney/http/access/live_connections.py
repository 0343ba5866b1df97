"""Ends live connections (WebSockets, server-sent events) together with the sessions of the people who opened them.

A connection that stays open is checked only when it is opened. So each process asks for the sessions of all its live
connections every few seconds, in one look-up, and ends those whose person has signed out, in any process, has a new
password or another role, or is disabled.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import anyio
from starlette.requests import HTTPConnection

from squinney.errors import SquinneyError
from squinney.http.access.visitor import visitor_of
from squinney.http.access.visitor_lookup import Visitors, visitors_of

log = logging.getLogger(__name__)

CHECK_SECONDS = 2.0
MAX_UNCHECKED_SECONDS = 30.0  # while the sessions cannot be read


class LiveConnections:
    """The live connections of one process. Only the event loop uses it, so it needs no lock."""

    def __init__(self, visitors: Visitors) -> None:
        self._visitors = visitors
        self._open: dict[anyio.CancelScope, HTTPConnection] = {}
        self._checking: asyncio.Task[None] | None = None
        self._checked_at = 0.0

    @contextmanager
    def until_session_ends(self, connection: HTTPConnection) -> Iterator[anyio.CancelScope]:
        """Run the block until the visitor's session ends; then cancel it, and set `cancel_called` of what it gives."""
        with anyio.CancelScope() as scope:
            self._open[scope] = connection
            if self._checking is None or self._checking.done():
                self._checked_at = time.monotonic()
                self._checking = asyncio.get_running_loop().create_task(self._check())
            try:
                yield scope
            finally:
                del self._open[scope]

    async def _check(self) -> None:
        try:
            while self._open:
                await asyncio.sleep(CHECK_SECONDS)
                await self._end_those_without_session()
        except Exception:
            log.exception("the check of live connections failed")
        finally:
            # guard: no live connection stays open unchecked
            for scope in self._open:
                scope.cancel()

    async def _end_those_without_session(self) -> None:
        checked = list(self._open.items())
        try:
            roles = await self._visitors.roles([connection for _, connection in checked])
        except SquinneyError as error:
            log.warning("the sessions of live connections cannot be checked: %s", error.message)
            # guard: a live connection that cannot be checked for long ends
            if time.monotonic() - self._checked_at < MAX_UNCHECKED_SECONDS:
                return
            roles = [None for _ in checked]
        self._checked_at = time.monotonic()
        for (scope, connection), role in zip(checked, roles, strict=True):
            # guard: a live connection ends with its person's role
            # guard: a live connection ends with its session
            if role is None or role != visitor_of(connection).role:
                scope.cancel()


def live_connections(app: Any) -> LiveConnections:
    """Return the live connections of the process. Where nobody can sign in, each ends soon."""
    if not hasattr(app.state, "live_connections"):
        app.state.live_connections = LiveConnections(visitors_of(app))
    return cast(LiveConnections, app.state.live_connections)
