"""How one service behaves: what a process is started with, apart from its systems."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

MEBIBYTE = 1 << 20
MOST_FORM_BYTES = 8 * MEBIBYTE  # a form is kept whole, however large an upload may be at the same path


@dataclass(frozen=True)
class Options:
    """Rates are requests per second, 0 for no limit; a burst of ten seconds' worth is let through.
    Callers without a key get `refusals_per_second` refusals at once; those beyond wait for theirs, up to 3 s.

    `body_limits` are bytes by path prefix, the longest that fits counts. `most_waiting` requests may wait for an answer
    at once, and `most_sending` more may still send their bodies. Forwarded addresses, schemes and hosts are believed
    from `trusted_proxies` alone: addresses and networks. `secret` signs cursors and forms: several processes that serve
    one site must share it.
    """

    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    rate_per_key: float = 0
    rate_per_address: float = 0
    refusals_per_second: float = 0
    body_limits: Mapping[str, int] = field(default_factory=lambda: {"/": MEBIBYTE})
    body_seconds: float = 20
    most_waiting: int = 500
    most_sending: int = 500
    most_sending_per_address: int = 100
    trusted_proxies: Sequence[str] = ()
    sign_up_open: bool = True
