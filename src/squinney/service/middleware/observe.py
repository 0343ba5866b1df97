"""Gives each request an id, a clock, a log line and metrics, and turns unexpected exceptions into a response."""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Callable

from fastapi import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from squinney.http.access.visitor import signature_of
from squinney.http.dependencies import client_address, header
from squinney.http.site_options import SiteOptions
from squinney.mongo.deadlines import RequestClock, request_clock
from squinney.service.middleware.limits import EXEMPT
from squinney.service.observing.logs import request_id
from squinney.service.observing.metrics import Metrics
from squinney.service.observing.traces import hide_query

log = logging.getLogger("squinney.requests")
failures = logging.getLogger("squinney.failures")

HEADER = b"x-request-id"
PERSON_LENGTH = 12  # the same person has the same one in every line, until the secret changes
GIVEN = re.compile(r"[A-Za-z0-9._-]{1,64}")


class RequestLogMiddleware:
    """Logs and counts requests. The log contains paths without query strings, which may be private.

    The clock makes all operations of a request share one time limit, which starts when its body has been received.
    """

    def __init__(self, app: ASGIApp, *, metrics: Metrics, options: SiteOptions) -> None:
        self._app = app
        self._metrics = metrics
        self._options = options

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = header(scope, HEADER)
        identifier = given if GIVEN.fullmatch(given) else secrets.token_hex(13)
        began = time.monotonic()
        clock = RequestClock(began)

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                clock.began = None  # from here on each operation has its own time limit
                message["headers"] = [*message.get("headers", ()), (HEADER, identifier.encode())]
                if scope["app"].state.draining:  # a proxy sends its next request to another process
                    message["headers"].append((b"connection", b"close"))
                self._record(scope, message["status"], time.monotonic() - began)
            await send(message)

        hide_query(scope)
        tokens = request_id.set(identifier), request_clock.set(clock)
        try:
            await self._app(scope, receive, send_with_id)
        finally:
            request_id.reset(tokens[0])
            request_clock.reset(tokens[1])

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "unmatched")
        self._metrics.request(scope["method"], route, status, seconds)
        if scope["path"].startswith(EXEMPT) and status < 400:
            return
        if not log.isEnabledFor(logging.INFO):
            return
        key = scope.get("state", {}).get("key")
        fields = {"method": scope["method"], "path": scope["path"], "route": route, "status": status}
        fields["ms"] = round(seconds * 1000, 1)
        if key:
            fields["key"] = key["_id"]
        visitor = scope.get("state", {}).get("visitor")
        if visitor is not None and visitor.person:
            # guard: the log has no person's id
            fields["person"] = signature_of(self._options.secret, "log", visitor.person["_id"])[:PERSON_LENGTH]
        if self._options.log_addresses:
            fields["address"] = client_address(scope)
        # Built directly, because `log.info` would search the stack for its caller.
        line = f"{scope['method']} {quoted(scope['path'])} {status}"
        record = logging.LogRecord(log.name, logging.INFO, __file__, 0, line, None, None)
        record.fields = fields
        log.handle(record)


class FailureMiddleware:
    """Turns unexpected exceptions into responses, inside the middleware that logs and counts responses."""

    def __init__(self, app: ASGIApp, *, respond: Callable[[Request, Exception], Response]) -> None:
        self._app = app
        self._respond = respond

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def noting_send(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, noting_send)
        except Exception as error:
            if scope["type"] != "http":
                raise
            _log_failure(scope, error)
            if started:  # uvicorn closes the connection, so that the caller sees an incomplete response
                return
            await self._respond(Request(scope), error)(scope, receive, send)


def _log_failure(scope: Scope, error: Exception) -> None:
    message = f"{scope['method']} {quoted(scope['path'])} failed: {type(error).__name__}"
    route = getattr(scope.get("route"), "path", "unmatched")
    fields = {"method": scope["method"], "path": scope["path"], "route": route, "error": type(error).__name__}
    failures.error(message, exc_info=error, extra={"fields": fields})


def quoted(path: str) -> str:
    """Escape a path, so that it cannot break a log line."""
    return path.encode("unicode_escape").decode("ascii")
