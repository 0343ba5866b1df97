"""Every request gets an id, a line in the log, and its place in the metrics."""

from __future__ import annotations

import logging
import re
import secrets
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from squinney.http.headers import header
from squinney.service.logs import request_id
from squinney.service.metrics import Metrics

log = logging.getLogger("squinney.requests")

HEADER = b"x-request-id"
GIVEN = re.compile(r"[A-Za-z0-9._-]{1,64}")
QUIET = ("/healthz", "/readyz", "/metrics", "/static/")


class RequestLogMiddleware:
    """The outermost layer. The log has paths without their queries, which may hold what is nobody's business."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = header(scope, HEADER)
        identifier = given if GIVEN.fullmatch(given) else secrets.token_hex(13)
        began = time.perf_counter()

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), (HEADER, identifier.encode())]
                self._tell(scope, message["status"], time.perf_counter() - began)
            await send(message)

        token = request_id.set(identifier)
        try:
            await self._app(scope, receive, send_with_id)
        finally:
            request_id.reset(token)

    def _tell(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "unmatched")
        self._metrics.request(scope["method"], route, status, seconds)
        if scope["path"].startswith(QUIET) and status < 400:
            return
        if not log.isEnabledFor(logging.INFO):
            return
        key = scope.get("state", {}).get("key")
        fields = {"method": scope["method"], "path": scope["path"], "status": status, "ms": round(seconds * 1000, 1)}
        if key:
            fields["key"] = key["_id"]
        # Made by hand: `log.info` would search the stack for its caller.
        line = f"{scope['method']} {quoted(scope['path'])} {status}"
        record = logging.LogRecord(log.name, logging.INFO, __file__, 0, line, None, None)
        record.fields = fields
        log.handle(record)


def quoted(path: str) -> str:
    """A path that cannot break a line of the log."""
    return path.encode("unicode_escape").decode("ascii")
