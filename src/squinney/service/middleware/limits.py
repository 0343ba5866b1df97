"""Limits on the size of bodies, the time to send them, and the number of concurrent requests."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from squinney.errors import Unavailable
from squinney.http import error_responses
from squinney.http.dependencies import client_address, header
from squinney.http.site_options import MAX_FORM_BYTES, SiteOptions
from squinney.mongo.deadlines import request_clock

SLOWEST_BYTES_PER_SECOND = 50_000
MAX_PLAIN_FORM_BYTES = 128 << 10  # parsing a form takes a second per MiB of percent-encoded characters
FORMS = ("multipart/form-data", "application/x-www-form-urlencoded")
AWAY_SECONDS = 1.0
BODILESS = ("GET", "HEAD")  # no route reads a body from these
EXEMPT = ("/healthz", "/readyz", "/metrics", "/static/")


class BodyLimitMiddleware:
    """Refuses bodies that are too large or arrive too slowly, before anything stores them."""

    def __init__(self, app: ASGIApp, *, limits: Mapping[str, int], seconds: float) -> None:
        self._app = app
        self._limits = sorted(limits.items(), key=lambda item: -len(item[0]))
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or (scope["method"] in BODILESS and not _has_body(scope)):
            await self._app(scope, receive, send)
            return
        prefix, limit = next((rule for rule in self._limits if scope["path"].startswith(rule[0])), ("/", 0))
        if header(scope, b"content-type").lower().startswith(FORMS):
            limit = min(limit, MAX_FORM_BYTES if prefix != "/" else MAX_PLAIN_FORM_BYTES)
        announced = header(scope, b"content-length")
        if announced.isdecimal() and int(announced) > limit:
            await error_responses.respond_in_middleware(scope, _too_large(limit))(scope, receive, send)
            return
        await self._app(scope, self._counted(receive, limit), send)

    def _counted(self, receive: Receive, limit: int) -> Receive:
        began = time.monotonic()
        received = 0
        complete = False

        async def counted() -> Message:
            nonlocal received, complete
            if complete:  # the only message left is the disconnect
                return await receive()
            left = began + self._seconds + received / SLOWEST_BYTES_PER_SECOND - time.monotonic()
            try:
                message = await asyncio.wait_for(receive(), max(left, 0.01))
            except TimeoutError:
                raise HTTPException(408, "the body was sent too slowly") from None
            received += len(message.get("body", b""))
            complete = not message.get("more_body", False)
            if complete:
                _restart_clock()  # the time limit does not include the time to receive the body
            if received > limit:
                raise _too_large(limit)
            return message

        return counted


def _too_large(limit: int) -> HTTPException:
    return HTTPException(413, f"the body is larger than {limit} bytes")


def _restart_clock() -> None:
    clock = request_clock.get()
    if clock is not None and clock.began is not None:
        clock.began = time.monotonic()


class SheddingMiddleware:
    """Answers 503 immediately if too many requests are in progress, or if MongoDB was just found unreachable.

    While MongoDB is unreachable, one request per second is tried. So callers do not wait for time-outs, and the service
    recovers by itself. Requests whose body is still being received are counted separately, also per address: slow
    senders must not block requests that are ready to run.
    """

    def __init__(self, app: ASGIApp, *, options: SiteOptions) -> None:
        self._app = app
        self._options = options
        self._waiting = 0
        self._sending: Counter[str] = Counter()
        self._away = False
        self._try_again_at = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith(EXEMPT):
            await self._app(scope, receive, send)
            return
        address, sending = client_address(scope), _has_body(scope)
        if reason := self._refusal_reason(address, sending=sending):
            await error_responses.respond_in_middleware(scope, Unavailable(reason))(scope, receive, send)
            return
        await self._run(address, "sending" if sending else "waiting", scope, receive, send)

    def _refusal_reason(self, address: str, *, sending: bool) -> str:
        if self._waiting >= self._options.max_waiting:
            return "too many requests are waiting"
        if sending and self._sends_too_much(address):
            return "too many bodies are being received"
        now = time.monotonic()
        if self._away and now < self._try_again_at:
            return "MongoDB cannot be reached"
        if self._away:
            self._try_again_at = now + AWAY_SECONDS
        return ""

    def _sends_too_much(self, address: str) -> bool:
        options = self._options
        return self._sending.total() >= options.max_sending or self._sending[address] >= options.max_sending_per_address

    async def _run(self, address: str, state: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Run a request and count its state: `sending` its body, `waiting` for the response, or empty after that."""

        async def counting_send(message: Message) -> None:
            nonlocal state
            if message["type"] == "http.response.start":
                self._count(address, state, -1)
                state = ""
                self._update_away(scope, message["status"])
            await send(message)

        async def counting_receive() -> Message:
            nonlocal state
            message = await receive()
            if state == "sending" and not message.get("more_body", False):
                self._count(address, "sending", -1)
                self._count(address, "waiting", 1)
                state = "waiting"
            return message

        self._count(address, state, 1)
        try:
            await self._app(scope, counting_receive, counting_send)
        finally:
            self._count(address, state, -1)

    def _count(self, address: str, state: str, change: int) -> None:
        if state == "waiting":
            self._waiting += change
        elif state == "sending":
            self._sending[address] += change
            if not self._sending[address]:
                del self._sending[address]

    def _update_away(self, scope: Scope, status: int) -> None:
        away = scope.get("state", {}).get("mongodb_away", False)
        if away:
            self._try_again_at = time.monotonic() + AWAY_SECONDS
        if away or status < 400:
            self._away = away


def _has_body(scope: Scope) -> bool:
    return header(scope, b"content-length") not in ("", "0") or bool(header(scope, b"transfer-encoding"))
