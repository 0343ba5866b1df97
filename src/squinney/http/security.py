"""Headers that every answer carries, that a form was sent from our own pages, and who may do what."""

from __future__ import annotations

from functools import cache
from typing import Any

from fastapi import Depends, Request
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from squinney.errors import Forbidden
from squinney.http import problems
from squinney.http.visitor import visitor_of
from squinney.roles import may_act_as

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
# What programs read is never shown as a page: less is enough.
API_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}
RETRY_AFTER = [(b"retry-after", str(problems.RETRY_AFTER_SECONDS).encode())]
SAFE_METHODS = {"GET", "HEAD", "OPTIONS"}


class SecurityMiddleware:
    """Adds the headers, and refuses a browser's write that comes from another site."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["method"] not in SAFE_METHODS and _from_elsewhere(Headers(scope=scope)):
            await problems.answer(scope, _forged())(scope, receive, send)
            return

        added = _raw_headers(scope["path"].startswith("/api/") and scope["path"] != "/api/docs")

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = list(message.get("headers", ()))
                names = {name for name, _ in given}
                wanted = [*added, *RETRY_AFTER] if message["status"] in problems.WAIT_AND_COME_AGAIN else added
                message["headers"] = [*given, *(pair for pair in wanted if pair[0] not in names)]
            await send(message)

        await self._app(scope, receive, send_with_headers)


@cache
def _raw_headers(for_programs: bool) -> list[tuple[bytes, bytes]]:
    headers = API_HEADERS if for_programs else HEADERS
    return [(name.lower().encode(), value.encode()) for name, value in headers.items()]


def _from_elsewhere(headers: Headers) -> bool:
    """Browsers say where a write comes from; programs say nothing."""
    if headers.get("sec-fetch-site") in ("cross-site", "same-site"):
        return True
    origin = headers.get("origin")
    return origin is not None and origin.partition("://")[2] != headers.get("host")


def _forged() -> Forbidden:
    return Forbidden("that form was not sent from this site, or its page is too old: load it again")


class SignInNeeded(Forbidden):
    """Somebody who has not signed in wants what needs a role."""

    code = "sign-in-needed"


async def _check_csrf(request: Request) -> None:
    """A write carries the visitor's token, in its form or, from our scripts, in a header."""
    if request.method in SAFE_METHODS:
        return
    given: object = request.headers.get("x-csrf-token")
    if given is None:
        given = (await request.form()).get("csrf")
    if not isinstance(given, str) or not visitor_of(request).may_send(given):
        raise _forged()


csrf_checked = Depends(_check_csrf)


def needs(role: str) -> Any:
    """A dependency that lets in whoever has this role or a higher one."""

    async def check(request: Request) -> None:
        _require(request, role)

    return Depends(check)


def writes_need(role: str) -> Any:
    """The same, for writes alone."""

    async def check(request: Request) -> None:
        if request.method not in SAFE_METHODS:
            _require(request, role)

    return Depends(check)


def _require(request: Request, role: str) -> None:
    visitor = visitor_of(request)
    if may_act_as(visitor.role, role):
        return
    if visitor.person is None:
        raise SignInNeeded("sign in first")
    raise Forbidden(f"this needs the role of {role}", role=role)
