"""Adds security headers to all responses, and refuses writes from other sites."""

from __future__ import annotations

from functools import cache

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from squinney.http import error_responses
from squinney.http.access.permissions import SAFE_METHODS, csrf_error

POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "media-src 'self'",
        "font-src 'self'",
        "img-src 'self' data:",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    ]
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
# API responses are not shown as pages, so they need fewer headers.
API_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}
RETRY_AFTER = [(b"retry-after", str(error_responses.RETRY_AFTER_SECONDS).encode())]


class SecurityMiddleware:
    """Adds the headers, and refuses a write that a browser sends from another site, and a request without one host."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        # guard: a request names one host
        if not _has_one_host(scope):
            await _refuse_host(scope, receive, send)
            return
        if scope["type"] == "websocket":
            await self._app(scope, receive, send)
            return
        if scope["method"] not in SAFE_METHODS and _is_cross_site(Headers(scope=scope)):
            await error_responses.respond_in_middleware(scope, csrf_error())(scope, receive, send)
            return

        added = _raw_headers(scope["path"].startswith("/api/") and scope["path"] != "/api/docs")

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = list(message.get("headers", ()))
                names = {name for name, _ in given}
                wanted = [*added, *RETRY_AFTER] if message["status"] in error_responses.RETRY_LATER else added
                message["headers"] = [*given, *(pair for pair in wanted if pair[0] not in names)]
            await send(message)

        await self._app(scope, receive, send_with_headers)


def _has_one_host(scope: Scope) -> bool:
    """Return whether the request names one host, as HTTP/1.1 requires: a proxy might read another than we do."""
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    return len(hosts) == 1 or (not hosts and scope.get("http_version", "1.1") == "1.0")


async def _refuse_host(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": "one Host header is required"})
        return
    error = HTTPException(400, "a request must have exactly one Host header")
    await error_responses.respond_to_http_error(Request(scope), error)(scope, receive, send)


@cache
def _raw_headers(is_api: bool) -> list[tuple[bytes, bytes]]:
    headers = API_HEADERS if is_api else HEADERS
    return [(name.lower().encode(), value.encode()) for name, value in headers.items()]


def _is_cross_site(headers: Headers) -> bool:
    """Return whether a browser sent the request from another site. Other programs do not send these headers."""
    if headers.get("sec-fetch-site") in ("cross-site", "same-site"):
        return True
    origin = headers.get("origin")
    return origin is not None and origin.partition("://")[2] != headers.get("host")
