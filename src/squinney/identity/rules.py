"""Who may do what. Nothing here talks to the database."""

from __future__ import annotations

import hashlib
import ipaddress
import re
from collections.abc import Iterable

from squinney.clock import Clock
from squinney.errors import Invalid
from squinney.identity.documents import ApiKey

LOGIN = r"[a-z0-9][a-z0-9._@+-]{1,99}"
SCOPE = re.compile(r"(\*|[a-z][a-z-]{0,29}):(read|write)")
LEVELS = ("read", "write", "admin")  # keys made earlier may have `admin`, which never was more than `write`
MOST_SCOPES = 50


def allows(scopes: Iterable[str], needed: str) -> bool:
    """Whether the scopes include the needed one: `*` stands for every system, and a level includes those below it."""
    system, _, level = needed.partition(":")
    for scope in scopes:
        has_system, _, has_level = scope.partition(":")
        if has_system in ("*", system) and LEVELS.index(has_level) >= LEVELS.index(level):
            return True
    return False


def checked_scopes(scopes: Iterable[str]) -> list[str]:
    """The scopes, sorted, each once.

    Raises: `Invalid`.
    """
    wanted = list(scopes)
    if not 1 <= len(wanted) <= MOST_SCOPES:
        raise Invalid(f"a key needs 1 to {MOST_SCOPES} scopes", field="scopes", limit=MOST_SCOPES)
    for scope in wanted:
        if not isinstance(scope, str) or not SCOPE.fullmatch(scope):
            raise Invalid("a scope is <system>:read or <system>:write; * is every system", field="scopes")
    return sorted(set(wanted))


def network_of(address: str) -> str:
    """What attempts are counted by: an IPv6 address's first half, as whoever has one has all with the same half."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address[:100]
    if isinstance(parsed, ipaddress.IPv6Address) and not parsed.ipv4_mapped:
        return str(ipaddress.ip_network((parsed.packed, 64), strict=False))
    return str(getattr(parsed, "ipv4_mapped", None) or parsed)


def is_live(key: ApiKey, clock: Clock) -> bool:
    """Whether a key is neither revoked nor expired."""
    expires_at = key.get("expires_at")
    return key.get("revoked_at") is None and (expires_at is None or clock() < expires_at)


def digest(secret: str) -> str:
    """What is stored of a random secret: 256 random bits need no slow hash."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
