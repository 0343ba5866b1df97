"""The options of a site: its secret, limits and rates."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

MEBIBYTE = 1 << 20
MAX_FORM_BYTES = 8 * MEBIBYTE  # a form is held in memory, even where larger uploads are allowed


@dataclass(frozen=True)
class SiteOptions:
    """The options of a site, the same for all of its processes.

    - `secret` signs cursors and forms. All processes that serve one site must share it. What `earlier_secrets` signed
      is still valid.
    - `rate_per_key` and `rate_per_address` are requests per second; 0 means no limit. Bursts of up to ten seconds'
      worth of requests are allowed.
    - `refusals_per_second` limits error responses to callers without an API key; further ones are delayed by up to 3 s.
    - `body_limits` maps path prefixes to bytes; the longest matching prefix applies.
    - `max_waiting` requests may wait for a response at once, and `max_sending` more may still be sending their
      bodies.
    - `trusted_proxies` are addresses and networks whose forwarded address, scheme and host headers are trusted.
    - `metrics_from` are addresses and networks that may read `/metrics`; None means everybody.
    - `log_addresses` puts the caller's address into the log line of each request.
    - `api_keys` may call the whole API, in a service without the system `identity`.
    - `new_account_hours` is how long an account is new, and limited in what it publishes; 0 means no limit.
    """

    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    earlier_secrets: Sequence[bytes] = field(default=(), repr=False)
    rate_per_key: float = 0
    rate_per_address: float = 0
    refusals_per_second: float = 0
    body_limits: Mapping[str, int] = field(default_factory=lambda: {"/": MEBIBYTE})
    body_seconds: float = 20
    max_waiting: int = 500
    max_sending: int = 500
    max_sending_per_address: int = 100
    trusted_proxies: Sequence[str] = ()
    metrics_from: Sequence[str] | None = None
    log_addresses: bool = False
    sign_up_open: bool = True
    new_account_hours: float = 24
    api_keys: Sequence[str] = field(default=(), repr=False)

    @property
    def secrets(self) -> tuple[bytes, ...]:
        """The secret that signs, and those whose signatures are still valid."""
        return (self.secret, *self.earlier_secrets)
