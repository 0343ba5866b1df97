"""The visitor of a page: a person who has signed in or an anonymous one, each with a CSRF token for forms."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from typing import TypedDict

from starlette.requests import HTTPConnection

SIGNED_IN, ANONYMOUS = "s.", "v."
MOST_FLASHES = 5
LONGEST_FLASH = 300
SIGNATURE_CHARACTERS = 32


class SignedIn(TypedDict):
    """The fields of a signed-in person that pages use."""

    _id: str
    login: str
    name: str
    role: str


@dataclass
class Visitor:
    """The visitor of one request. Signing in or out replaces the token, so that nobody can plant one in advance."""

    secret: bytes = field(repr=False)
    token: str = field(default_factory=lambda: ANONYMOUS + secrets.token_urlsafe(32), repr=False)
    person: SignedIn | None = None
    is_new: bool = False
    flashes: list[dict[str, str]] = field(default_factory=list)
    flashes_changed: bool = False

    @property
    def role(self) -> str:
        """The visitor's role."""
        return self.person["role"] if self.person else "visitor"

    @property
    def csrf(self) -> str:
        """The CSRF token for forms. Only the holder of the secret can make one, and it is valid for one cookie."""
        return signature_of(self.secret, "csrf", self.token)

    def is_csrf_valid(self, csrf: str) -> bool:
        """Return whether a form's CSRF token belongs to this visitor."""
        return hmac.compare_digest(csrf.encode("utf-8", "replace"), self.csrf.encode())

    def sign_in(self, person: SignedIn, session_token: str) -> None:
        """Replace the cookie's token by the session's."""
        self.token, self.person, self.is_new = SIGNED_IN + session_token, person, True

    def sign_out(self) -> None:
        """Make the visitor anonymous, with a new token."""
        self.token, self.person, self.is_new = ANONYMOUS + secrets.token_urlsafe(32), None, True

    @property
    def session_token(self) -> str:
        """The session's token; empty for an anonymous visitor."""
        return self.token.removeprefix(SIGNED_IN) if self.token.startswith(SIGNED_IN) else ""

    def flash(self, message: str, kind: str = "good") -> None:
        """Show a message on the next page that the visitor sees."""
        self.flashes = [*self.flashes, {"message": message[:LONGEST_FLASH], "kind": kind}][-MOST_FLASHES:]
        self.flashes_changed = True

    def take_flashes(self) -> list[dict[str, str]]:
        """Return the pending messages and remove them."""
        taken, self.flashes = self.flashes, []
        self.flashes_changed = self.flashes_changed or bool(taken)
        return taken


def visitor_of(connection: HTTPConnection) -> Visitor:
    """Return the visitor of a request or WebSocket."""
    found = getattr(connection.state, "visitor", None)
    return found if found is not None else Visitor(b"no secret")


def signature_of(secret: bytes, purpose: str, text: str) -> str:
    """Sign a text for one purpose; a signature is not valid for another purpose."""
    digest = hmac.digest(secret, f"{purpose}\n{text}".encode("utf-8", "replace"), hashlib.sha256)
    return base64.urlsafe_b64encode(digest[:24]).decode()
