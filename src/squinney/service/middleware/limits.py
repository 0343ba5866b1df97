"""What a request may cost: the size of its body, the time it takes to send it, and how many may wait at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from squinney.errors import Unavailable
from squinney.http import problems
from squinney.http.options import MOST_FORM_BYTES, Options
from squinney.service.middleware.headers import header

SLOWEST_BYTES_PER_SECOND = 50_000
FORMS = ("multipart/form-data", "application/x-www-form-urlencoded")
AWAY_SECONDS = 1.0
ALWAYS = ("/healthz", "/readyz", "/metrics", "/static/")


class BodyLimit:
    """Refuses bodies that are too large or come too slowly, before they are kept anywhere."""

    def __init__(self, app: ASGIApp, *, limits: Mapping[str, int], seconds: float) -> None:
        self._app = app
        self._limits = sorted(limits.items(), key=lambda item: -len(item[0]))
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = next((size for prefix, size in self._limits if scope["path"].startswith(prefix)), 0)
        if header(scope, b"content-type").lower().startswith(FORMS):
            limit = min(limit, MOST_FORM_BYTES)
        announced = header(scope, b"content-length")
        if announced.isdecimal() and int(announced) > limit:
            await problems.answer(scope, _too_large(limit))(scope, receive, send)
            return
        await self._app(scope, self._counted(receive, limit), send)

    def _counted(self, receive: Receive, limit: int) -> Receive:
        began = time.monotonic()
        received = 0
        complete = False

        async def counted() -> Message:
            nonlocal received, complete
            if complete:  # what is left to wait for is that the caller goes away
                return await receive()
            left = began + self._seconds + received / SLOWEST_BYTES_PER_SECOND - time.monotonic()
            try:
                message = await asyncio.wait_for(receive(), max(left, 0.01))
            except TimeoutError:
                raise HTTPException(408, "the body came too slowly") from None
            received += len(message.get("body", b""))
            complete = not message.get("more_body", False)
            if received > limit:
                raise _too_large(limit)
            return message

        return counted


def _too_large(limit: int) -> HTTPException:
    return HTTPException(413, f"a body here may have at most {limit} bytes")


class Shedding:
    """Answers 503 at once when too many wait already, or when MongoDB was found away a moment ago.

    While it is away one request a second is let through to see; so callers do not queue up behind time-outs, and
    service resumes by itself.
    """

    def __init__(self, app: ASGIApp, *, options: Options) -> None:
        self._app = app
        self._most_waiting = options.most_waiting
        self._waiting = 0
        self._away = False
        self._try_again_at = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http" or scope["path"].startswith(ALWAYS):
            await self._app(scope, receive, send)
            return
        if reason := self._overload():
            await problems.answer(scope, Unavailable(reason))(scope, receive, send)
            return
        await self._let_through(scope, receive, send)

    def _overload(self) -> str:
        if self._waiting >= self._most_waiting:
            return "too many requests are waiting"
        now = time.monotonic()
        if self._away and now < self._try_again_at:
            return "MongoDB cannot be reached"
        if self._away:
            self._try_again_at = now + AWAY_SECONDS
        return ""

    async def _let_through(self, scope: Scope, receive: Receive, send: Send) -> None:
        waiting = True
        self._waiting += 1

        async def begun(message: Message) -> None:
            nonlocal waiting
            if waiting and message["type"] == "http.response.start":
                waiting = False
                self._waiting -= 1
                self._learn(scope, message["status"])
            await send(message)

        try:
            await self._app(scope, receive, begun)
        finally:
            if waiting:
                self._waiting -= 1

    def _learn(self, scope: Scope, status: int) -> None:
        away = scope.get("state", {}).get("mongodb_away", False)
        if away:
            self._try_again_at = time.monotonic() + AWAY_SECONDS
        if away or status < 400:
            self._away = away
