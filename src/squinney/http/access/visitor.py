"""The visitor of a page: a person who has signed in or an anonymous one, each with a CSRF token for forms."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NotRequired, TypedDict

from starlette.requests import HTTPConnection

SIGNED_IN, ANONYMOUS = "s.", "v."
MAX_FLASHES = 5
MAX_FLASH_LENGTH = 300
SIGNATURE_CHARACTERS = 32
DIGEST_BYTES = 24


class SignedIn(TypedDict):
    """The fields of a signed-in person that pages use."""

    _id: str
    login: str
    name: str
    role: str
    tried: NotRequired[bool]


@dataclass
class Visitor:
    """The visitor of one request. Signing in or out replaces the token, so that nobody can plant one in advance."""

    secret: bytes = field(repr=False)
    token: str = field(default_factory=lambda: ANONYMOUS + secrets.token_urlsafe(32), repr=False)
    person: SignedIn | None = None
    is_new: bool = False
    flashes: list[dict[str, str]] = field(default_factory=list)
    flashes_changed: bool = False
    earlier_secrets: Sequence[bytes] = field(default=(), repr=False)

    @property
    def role(self) -> str:
        """The visitor's role."""
        return self.person["role"] if self.person else "visitor"

    @property
    def csrf(self) -> str:
        """A CSRF token for forms. Only the holder of the secret can make one, and it is valid for one cookie.

        It is another text each time: the size of a compressed page would tell one that stays the same.
        """
        mask = secrets.token_bytes(DIGEST_BYTES)
        return base64.urlsafe_b64encode(mask + _xor(mask, _digest_of(self.secret, "csrf", self.token))).decode()

    def is_csrf_valid(self, csrf: str) -> bool:
        """Return whether a form's CSRF token belongs to this visitor."""
        try:
            given = base64.urlsafe_b64decode(csrf.encode("ascii"))
        except ValueError:
            return False
        mask, masked = given[:DIGEST_BYTES], given[DIGEST_BYTES:]
        if len(masked) != DIGEST_BYTES:
            return False
        valid = [_digest_of(secret, "csrf", self.token) for secret in (self.secret, *self.earlier_secrets)]
        # guard: a form that an earlier secret signed is accepted
        return any(hmac.compare_digest(_xor(mask, masked), digest) for digest in valid)

    @property
    def scope(self) -> str:
        """What identifies this visitor's cookie in keys of forms, without revealing the cookie.

        The secret is no part of it: a form that is sent again must have the same key after the secret was replaced.
        """
        return base64.urlsafe_b64encode(_digest_of(b"", "scope", self.token)).decode()

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
        self.flashes = [*self.flashes, {"message": message[:MAX_FLASH_LENGTH], "kind": kind}][-MAX_FLASHES:]
        self.flashes_changed = True

    def take_flashes(self) -> list[dict[str, str]]:
        """Return the pending messages and remove them."""
        taken, self.flashes = self.flashes, []
        self.flashes_changed = self.flashes_changed or bool(taken)
        return taken


def visitor_of(connection: HTTPConnection) -> Visitor:
    """Return the visitor of a request or WebSocket."""
    visitor = getattr(connection.state, "visitor", None)
    return visitor if visitor is not None else Visitor(b"no secret")


def signature_of(secret: bytes, purpose: str, text: str) -> str:
    """Sign a text for one purpose; a signature is not valid for another purpose."""
    return base64.urlsafe_b64encode(_digest_of(secret, purpose, text)).decode()


def is_one_of(given: str, signatures: Iterable[str]) -> bool:
    """Return whether this is one of the valid signatures, in a time that tells nothing about them."""
    # guard: what an earlier secret signed is accepted
    return any(hmac.compare_digest(given.encode("utf-8", "replace"), valid.encode()) for valid in signatures)


def _digest_of(secret: bytes, purpose: str, text: str) -> bytes:
    return hmac.digest(secret, f"{purpose}\n{text}".encode("utf-8", "replace"), hashlib.sha256)[:DIGEST_BYTES]


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(left_byte ^ right_byte for left_byte, right_byte in zip(left, right, strict=True))
