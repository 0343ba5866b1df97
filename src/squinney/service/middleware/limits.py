"""What a request may cost: its body's size, the time to send it, and how many may wait at once."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from squinney.errors import Unavailable
from squinney.http import problems
from squinney.http.dependencies import address_of, header
from squinney.http.options import MOST_FORM_BYTES, Options
from squinney.mongo.connect import request_clock

SLOWEST_BYTES_PER_SECOND = 50_000
MOST_PLAIN_FORM_BYTES = 128 << 10  # taking a form apart costs a second for each MiB of escaped letters
FORMS = ("multipart/form-data", "application/x-www-form-urlencoded")
AWAY_SECONDS = 1.0
BODILESS = ("GET", "HEAD")  # no route reads a body from these
ALWAYS = ("/healthz", "/readyz", "/metrics", "/static/")


class BodyLimitMiddleware:
    """Refuses bodies that are too large or come too slowly, before they are kept anywhere."""

    def __init__(self, app: ASGIApp, *, limits: Mapping[str, int], seconds: float) -> None:
        self._app = app
        self._limits = sorted(limits.items(), key=lambda item: -len(item[0]))
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http" or (scope["method"] in BODILESS and not _has_body(scope)):
            await self._app(scope, receive, send)
            return
        prefix, limit = next((one for one in self._limits if scope["path"].startswith(one[0])), ("/", 0))
        if header(scope, b"content-type").lower().startswith(FORMS):
            limit = min(limit, MOST_FORM_BYTES if prefix != "/" else MOST_PLAIN_FORM_BYTES)
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
            if complete:
                _start_clock_again()  # the time of the caller's line is not ours
            if received > limit:
                raise _too_large(limit)
            return message

        return counted


def _too_large(limit: int) -> HTTPException:
    return HTTPException(413, f"a body here may have at most {limit} bytes")


def _start_clock_again() -> None:
    clock = request_clock.get()
    if clock is not None and clock.began is not None:
        clock.began = time.monotonic()


class SheddingMiddleware:
    """Answers 503 at once when too many wait already, or when MongoDB was found away a moment ago.

    While it is away one request a second is let through to see; so callers do not queue up behind time-outs, and
    service resumes by itself. Requests whose body is still on its way are counted apart, and by address too: those who
    send slowly must not keep out those who wait for an answer.
    """

    def __init__(self, app: ASGIApp, *, options: Options) -> None:
        self._app = app
        self._options = options
        self._waiting = 0
        self._sending: Counter[str] = Counter()
        self._away = False
        self._try_again_at = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http" or scope["path"].startswith(ALWAYS):
            await self._app(scope, receive, send)
            return
        address, sending = address_of(scope), _has_body(scope)
        if reason := self._overload(address, sending=sending):
            await problems.answer(scope, Unavailable(reason))(scope, receive, send)
            return
        await self._let_through(address, "sending" if sending else "waiting", scope, receive, send)

    def _overload(self, address: str, *, sending: bool) -> str:
        if self._waiting >= self._options.most_waiting:
            return "too many requests are waiting"
        if sending and self._sends_too_much(address):
            return "too many bodies are on their way"
        now = time.monotonic()
        if self._away and now < self._try_again_at:
            return "MongoDB cannot be reached"
        if self._away:
            self._try_again_at = now + AWAY_SECONDS
        return ""

    def _sends_too_much(self, address: str) -> bool:
        options = self._options
        return (
            self._sending.total() >= options.most_sending or self._sending[address] >= options.most_sending_per_address
        )

    async def _let_through(self, address: str, state: str, scope: Scope, receive: Receive, send: Send) -> None:
        """It is `sending` its body, `waiting` for its answer, or neither any more: the answer begins, or none comes."""

        async def begun(message: Message) -> None:
            nonlocal state
            if message["type"] == "http.response.start":
                self._count(address, state, -1)
                state = ""
                self._learn(scope, message["status"])
            await send(message)

        async def received() -> Message:
            nonlocal state
            message = await receive()
            if state == "sending" and not message.get("more_body", False):
                self._count(address, "sending", -1)
                self._count(address, "waiting", 1)
                state = "waiting"
            return message

        self._count(address, state, 1)
        try:
            await self._app(scope, received, begun)
        finally:
            self._count(address, state, -1)

    def _count(self, address: str, state: str, change: int) -> None:
        if state == "waiting":
            self._waiting += change
        elif state == "sending":
            self._sending[address] += change
            if not self._sending[address]:
                del self._sending[address]

    def _learn(self, scope: Scope, status: int) -> None:
        away = scope.get("state", {}).get("mongodb_away", False)
        if away:
            self._try_again_at = time.monotonic() + AWAY_SECONDS
        if away or status < 400:
            self._away = away


def _has_body(scope: Scope) -> bool:
    return header(scope, b"content-length") not in ("", "0") or bool(header(scope, b"transfer-encoding"))
