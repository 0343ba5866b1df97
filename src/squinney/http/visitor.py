"""Who looks at a page: somebody signed in, or a visitor; either way with a token of their own for forms."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import secrets
from dataclasses import dataclass, field
from typing import Protocol, TypedDict, cast

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection, cookie_parser
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from squinney.errors import SquinneyError
from squinney.http import problems

COOKIE = "squinney"
FLASH_COOKIE = "squinney-flash"
SIGNED_IN, ANONYMOUS = "s.", "v."
# A session ends on the server, 14 days after its last use; its cookie is kept as long as it can last.
KEPT_SECONDS = {SIGNED_IN: 90 * 86_400, ANONYMOUS: 14 * 86_400}
MOST_FLASHES = 5
LONGEST_FLASH = 300
WITHOUT = ("/api/", "/static/", "/healthz", "/readyz", "/metrics")


class SignedIn(TypedDict):
    """What pages know of a person who has signed in."""

    _id: str
    login: str
    name: str
    role: str


class Sessions(Protocol):
    """Who is signed in, as `identity.Sessions` knows it."""

    def person(self, token: str) -> SignedIn | None:
        """The person of a session's token."""


@dataclass
class Visitor:
    """One request's visitor. Signing in or out gives them another token, so that none can be planted beforehand."""

    secret: bytes = field(repr=False)
    token: str = field(default_factory=lambda: ANONYMOUS + secrets.token_urlsafe(32), repr=False)
    person: SignedIn | None = None
    is_new: bool = False
    flashes: list[dict[str, str]] = field(default_factory=list)
    flashes_changed: bool = False

    @property
    def role(self) -> str:
        """What the visitor may act as."""
        return self.person["role"] if self.person else "visitor"

    @property
    def csrf(self) -> str:
        """The token for forms; it cannot be made without the secret, nor used with another cookie."""
        return _signed(self.secret, "csrf", self.token)

    def may_send(self, csrf: str) -> bool:
        """Whether a form's token is this visitor's."""
        return hmac.compare_digest(csrf.encode("utf-8", "replace"), self.csrf.encode())

    def sign_in(self, person: SignedIn, session_token: str) -> None:
        """From now on the cookie is the session's."""
        self.token, self.person, self.is_new = SIGNED_IN + session_token, person, True

    def sign_out(self) -> None:
        """A stranger again."""
        self.token, self.person, self.is_new = ANONYMOUS + secrets.token_urlsafe(32), None, True

    @property
    def session_token(self) -> str:
        """The session's token; empty for a stranger."""
        return self.token.removeprefix(SIGNED_IN) if self.token.startswith(SIGNED_IN) else ""

    def flash(self, message: str, kind: str = "good") -> None:
        """Tell the visitor something on the next page they see."""
        self.flashes = [*self.flashes, {"message": message[:LONGEST_FLASH], "kind": kind}][-MOST_FLASHES:]
        self.flashes_changed = True

    def take_flashes(self) -> list[dict[str, str]]:
        """What is to be told now, once."""
        taken, self.flashes = self.flashes, []
        self.flashes_changed = self.flashes_changed or bool(taken)
        return taken


def visitor_of(connection: HTTPConnection) -> Visitor:
    """The visitor of a request or socket."""
    found = getattr(connection.state, "visitor", None)
    return found if found is not None else Visitor(b"nobody's")


class VisitorMiddleware:
    """Finds the visitor before a page is made, and sets their cookies with its answer."""

    def __init__(self, app: ASGIApp, *, sessions: Sessions, secret: bytes) -> None:
        self._app = app
        self._sessions = sessions
        self._secret = secret

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request or socket."""
        if scope["type"] not in ("http", "websocket") or _is_no_page(scope["path"]):
            await self._app(scope, receive, send)
            return
        cookies = _cookies(scope)
        visitor = self._stranger(cookies)
        scope.setdefault("state", {})["visitor"] = visitor
        try:
            await self._recognise(visitor, cookies)
        except SquinneyError as error:
            await problems.answer(scope, error)(scope, receive, send)
            return

        async def send_with_cookies(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._set_cookies(visitor, MutableHeaders(scope=message), secure=scope["scheme"] == "https")
            await send(message)

        await self._app(scope, receive, send_with_cookies)

    def _stranger(self, cookies: dict[str, str]) -> Visitor:
        token = cookies.get(COOKIE, "")
        known = token.startswith((ANONYMOUS, SIGNED_IN)) and len(token) < 100
        flashes = _opened(self._secret, cookies.get(FLASH_COOKIE, ""))
        if known:
            return Visitor(self._secret, token, flashes=flashes)
        return Visitor(self._secret, is_new=True, flashes=flashes)

    async def _recognise(self, visitor: Visitor, cookies: dict[str, str]) -> None:
        if not visitor.session_token:
            return
        visitor.person = await run_in_threadpool(self._sessions.person, visitor.session_token)
        if visitor.person is None:  # ran out, or ended elsewhere
            visitor.sign_out()

    def _set_cookies(self, visitor: Visitor, headers: MutableHeaders, *, secure: bool) -> None:
        attributes = "; Path=/; HttpOnly; SameSite=Lax" + ("; Secure" if secure else "")
        if visitor.is_new:
            age = KEPT_SECONDS[visitor.token[:2]]
            headers.append("set-cookie", f"{COOKIE}={visitor.token}; Max-Age={age}{attributes}")
        if visitor.flashes_changed:
            age = 60 if visitor.flashes else 0
            sealed = _sealed(self._secret, visitor.flashes) if visitor.flashes else ""
            headers.append("set-cookie", f"{FLASH_COOKIE}={sealed}; Max-Age={age}{attributes}")


def _is_no_page(path: str) -> bool:
    return path.startswith(WITHOUT) and path != "/api/docs"


def _cookies(scope: Scope) -> dict[str, str]:
    """A neighbour's cookie that breaks the rules must not hide ours, as it would from `http.cookies`."""
    return cookie_parser(Headers(scope=scope).get("cookie", ""))


def _signed(secret: bytes, purpose: str, text: str) -> str:
    digest = hmac.digest(secret, f"{purpose}\n{text}".encode("utf-8", "replace"), hashlib.sha256)
    return base64.urlsafe_b64encode(digest[:24]).decode()


def _sealed(secret: bytes, flashes: list[dict[str, str]]) -> str:
    body = base64.urlsafe_b64encode(json.dumps(flashes).encode()).decode().rstrip("=")
    return f"{body}.{_signed(secret, 'flash', body)}"


def _opened(secret: bytes, sealed: str) -> list[dict[str, str]]:
    body, _, signature = sealed.partition(".")
    if not body or not hmac.compare_digest(signature.encode(), _signed(secret, "flash", body).encode()):
        return []
    try:
        return cast(list[dict[str, str]], json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))))
    except (binascii.Error, ValueError):
        return []
