"""Pure rules of identity: scopes, validity of keys, networks and digests. Nothing here uses the database."""

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
WRITING = ("write", "admin")  # older keys may have `admin`, which means the same as `write`
MOST_SCOPES = 50


def allows(scopes: Iterable[str], needed: str) -> bool:
    """Return whether the scopes include the needed one; `*` means every system, and `write` includes `read`."""
    system, _, level = needed.partition(":")
    allowed = {f"{name}:{has}" for name in ("*", system) for has in (level, *WRITING)}
    return not allowed.isdisjoint(scopes)


def checked_scopes(scopes: Iterable[str]) -> list[str]:
    """Return the scopes sorted and without duplicates.

    Raises: `Invalid`.
    """
    wanted = list(scopes)
    if not 1 <= len(wanted) <= MOST_SCOPES:
        raise Invalid(f"scopes must have 1 to {MOST_SCOPES} entries", field="scopes", limit=MOST_SCOPES)
    for scope in wanted:
        if not isinstance(scope, str) or not SCOPE.fullmatch(scope):
            raise Invalid("scopes must be <system>:read or <system>:write; * means every system", field="scopes")
    return sorted(set(wanted))


def network_of(address: str) -> str:
    """Return what attempts are counted by: the address, or the first 64 bits of IPv6, which one caller usually owns."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address[:100]
    if isinstance(parsed, ipaddress.IPv6Address) and not parsed.ipv4_mapped:
        return str(ipaddress.ip_network((parsed.packed, 64), strict=False))
    return str(getattr(parsed, "ipv4_mapped", None) or parsed)


def is_live(key: ApiKey, clock: Clock) -> bool:
    """Return whether a key is neither revoked nor expired."""
    expires_at = key.get("expires_at")
    return key.get("revoked_at") is None and (expires_at is None or clock() < expires_at)


def digest(secret: str) -> str:
    """Return the digest to store of a random secret; 256 random bits need no slow hash."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
