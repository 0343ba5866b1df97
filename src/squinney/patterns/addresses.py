"""What callers are counted by."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable


def network_of(address: str) -> str:
    """Return what attempts are counted by: the address, or the first 64 bits of IPv6, which one caller usually owns."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address[:100]
    if isinstance(parsed, ipaddress.IPv6Address) and not parsed.ipv4_mapped:
        return str(ipaddress.ip_network((parsed.packed, 64), strict=False))
    return str(getattr(parsed, "ipv4_mapped", None) or parsed)


def is_within(address: str, allowed: Iterable[str]) -> bool:
    """Return whether an address is one of those allowed, or in one of the networks."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    parsed = getattr(parsed, "ipv4_mapped", None) or parsed
    return any(parsed in ipaddress.ip_network(network) for network in allowed)
