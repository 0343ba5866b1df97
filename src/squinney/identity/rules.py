"""Pure rules of identity: scopes, validity of keys and digests. Nothing here uses the database."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from squinney.clock import Clock
from squinney.errors import Forbidden, Invalid
from squinney.identity.documents import ApiKey

LOGIN = r"[a-z0-9][a-z0-9._@+-]{1,99}"
SCOPE = re.compile(r"(\*|[a-z][a-z-]{0,29}):(read|write)")
WRITING = ("write", "admin")  # older keys may have `admin`, which means the same as `write`
MAX_SCOPES = 50


def allows(scopes: Iterable[str], needed: str) -> bool:
    """Return whether the scopes include the needed one; `*` means every system, and `write` includes `read`."""
    system, _, level = needed.partition(":")
    allowed = {f"{name}:{has}" for name in ("*", system) for has in (level, *WRITING)}
    return not allowed.isdisjoint(scopes)


def require_scope(key: ApiKey, needed: str) -> None:
    """Raises: `Forbidden` unless the key includes the needed scope."""
    if not allows(key["scopes"], needed):
        raise Forbidden(f"this API key lacks the scope {needed}", scope=needed)


def checked_scopes(scopes: Iterable[str]) -> list[str]:
    """Return the scopes sorted and without duplicates.

    Raises: `Invalid`.
    """
    wanted = list(scopes)
    if not 1 <= len(wanted) <= MAX_SCOPES:
        raise Invalid(f"scopes must have 1 to {MAX_SCOPES} entries", field="scopes", limit=MAX_SCOPES)
    for scope in wanted:
        if not isinstance(scope, str) or not SCOPE.fullmatch(scope):
            raise Invalid("scopes must be <system>:read or <system>:write; * means every system", field="scopes")
    return sorted(set(wanted))


def is_live(key: ApiKey, clock: Clock) -> bool:
    """Return whether a key is neither revoked nor expired."""
    expires_at = key.get("expires_at")
    return key.get("revoked_at") is None and (expires_at is None or clock() < expires_at)


def digest(secret: str) -> str:
    """Return the digest to store of a random secret; 256 random bits need no slow hash."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
