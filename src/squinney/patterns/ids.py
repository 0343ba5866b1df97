"""Identifiers of 26 characters that sort by time and cannot be guessed."""

from __future__ import annotations

import secrets
import time

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


def new_id() -> str:
    """Return 48 bits of milliseconds and 80 random bits in Crockford's base 32, so that ids sort by age."""
    value = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
    return "".join(ALPHABET[value >> shift & 31] for shift in range(125, -1, -5))
