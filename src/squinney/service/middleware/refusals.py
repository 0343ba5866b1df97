"""Refusals leave at a steady rate once there are many of them.

Whoever is refused and comes again at once would otherwise keep the process busy with refusing: sixty such callers took
all of the interpreter, and a page beside them took ten times as long. A refusal that waits takes no thread and no place
in a queue, only its connection.
"""

from __future__ import annotations

import time
from asyncio import sleep

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from squinney.service.middleware.limits import ALWAYS

BURST_SECONDS = 0.3
MOST_SECONDS = 3.0


class Pace:
    """So many a second, and a moment's worth at once before that; used from the event loop alone."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._due_at = 0.0

    def wait_seconds(self, now: float) -> float:
        """How long the next one is to wait: what is due before it takes its time, up to `MOST_SECONDS`."""
        if not self._per_second:
            return 0.0
        due_at = max(self._due_at, now)
        wait = due_at - BURST_SECONDS - now
        if wait >= MOST_SECONDS:  # those beyond leave together: what waits stays bounded by who comes in that time
            return MOST_SECONDS
        self._due_at = due_at + 1 / self._per_second
        return max(wait, 0.0)


class RefusalMiddleware:
    """Holds back the answers 4xx and 5xx of callers without an API key. Probes are answered at once."""

    def __init__(self, app: ASGIApp, *, per_second: float) -> None:
        self._app = app
        self._pace = Pace(per_second)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http" or scope["path"].startswith(ALWAYS):
            await self._app(scope, receive, send)
            return

        async def paced(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] >= 400 and not _has_key(scope):
                await sleep(self._pace.wait_seconds(time.monotonic()))
            await send(message)

        await self._app(scope, receive, paced)


def _has_key(scope: Scope) -> bool:
    return "key" in scope.get("state", {})
