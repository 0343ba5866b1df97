"""Identifies the visitor of a page from the browser's cookies."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from typing import cast

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection, cookie_parser
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from squinney.errors import SquinneyError
from squinney.http import error_responses
from squinney.http.access.visitor import ANONYMOUS, SIGNED_IN, Visitor, is_one_of, signature_of
from squinney.http.access.visitor_lookup import Visitors

COOKIE = "squinney"
FLASH_COOKIE = "squinney-flash"
# The server ends a session 14 days after its last use; its cookie lasts as long as the longest session.
KEPT_SECONDS = {SIGNED_IN: 90 * 86_400, ANONYMOUS: 14 * 86_400}
WITHOUT_VISITOR = ("/api/", "/static/", "/healthz", "/readyz", "/metrics")


class VisitorMiddleware:
    """Sets `request.state.visitor` for each page, and sets the visitor's cookies in the response."""

    def __init__(self, app: ASGIApp, *, visitors: Visitors, secrets: Sequence[bytes]) -> None:
        self._app = app
        self._visitors = visitors
        self._secret, *self._earlier = secrets

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or _is_not_a_page(scope["path"]):
            await self._app(scope, receive, send)
            return
        cookies = _cookies(scope)
        visitor = self._visitor_from(cookies)
        scope.setdefault("state", {})["visitor"] = visitor
        try:
            await self._visitors.load(HTTPConnection(scope), visitor)
        except SquinneyError as error:
            await error_responses.respond_in_middleware(scope, error)(scope, receive, send)
            return

        async def send_with_cookies(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._set_cookies(visitor, MutableHeaders(scope=message), secure=scope["scheme"] == "https")
            await send(message)

        await self._app(scope, receive, send_with_cookies)

    def _visitor_from(self, cookies: dict[str, str]) -> Visitor:
        token = cookies.get(COOKIE, "")
        known = token.startswith((ANONYMOUS, SIGNED_IN)) and len(token) < 100
        flashes = _decode_flashes((self._secret, *self._earlier), cookies.get(FLASH_COOKIE, ""))
        if known:
            return Visitor(self._secret, token, flashes=flashes, earlier_secrets=self._earlier)
        return Visitor(self._secret, is_new=True, flashes=flashes)

    def _set_cookies(self, visitor: Visitor, headers: MutableHeaders, *, secure: bool) -> None:
        attributes = "; Path=/; HttpOnly; SameSite=Lax" + ("; Secure" if secure else "")
        if visitor.is_new:
            age = KEPT_SECONDS[visitor.token[:2]]
            headers.append("set-cookie", f"{COOKIE}={visitor.token}; Max-Age={age}{attributes}")
        if visitor.flashes_changed:
            age = 60 if visitor.flashes else 0
            sealed = _encode_flashes(self._secret, visitor.flashes) if visitor.flashes else ""
            headers.append("set-cookie", f"{FLASH_COOKIE}={sealed}; Max-Age={age}{attributes}")


def _is_not_a_page(path: str) -> bool:
    return path.startswith(WITHOUT_VISITOR) and path != "/api/docs"


def _cookies(scope: Scope) -> dict[str, str]:
    """Parse the cookies; unlike `http.cookies`, a malformed cookie of another site does not hide ours."""
    return cookie_parser(Headers(scope=scope).get("cookie", ""))


def _encode_flashes(secret: bytes, flashes: list[dict[str, str]]) -> str:
    body = base64.urlsafe_b64encode(json.dumps(flashes).encode()).decode().rstrip("=")
    return f"{body}.{signature_of(secret, 'flash', body)}"


def _decode_flashes(secrets: Iterable[bytes], sealed: str) -> list[dict[str, str]]:
    body, _, signature = sealed.partition(".")
    if not body or not is_one_of(signature, [signature_of(secret, "flash", body) for secret in secrets]):
        return []
    return cast(list[dict[str, str]], json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))))
