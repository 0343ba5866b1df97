"""Who looks at a page: somebody signed in, or a visitor; either way with a token of their own for forms."""

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
    """What pages know of a person who has signed in."""

    _id: str
    login: str
    name: str
    role: str


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
        return signed(self.secret, "csrf", self.token)

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


def signed(secret: bytes, purpose: str, text: str) -> str:
    """What only who knows the secret can have made of the text, for that purpose."""
    digest = hmac.digest(secret, f"{purpose}\n{text}".encode("utf-8", "replace"), hashlib.sha256)
    return base64.urlsafe_b64encode(digest[:24]).decode()
