"""Rate limits, counted in this process."""

from __future__ import annotations

import time
from collections import OrderedDict

BURST_SECONDS = 10
MOST_NAMES = 50_000


class Rates:
    """A bucket of tokens for each name, filled at `per_second`; used from the event loop alone, so it needs no lock."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._burst = max(1.0, per_second * BURST_SECONDS)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_seconds(self, name: str) -> float:
        """Take a token: 0, or how long until there is one."""
        if not self._per_second:
            return 0.0
        now = time.monotonic()
        tokens, filled_at = self._buckets.pop(name, (self._burst, now))
        tokens = min(self._burst, tokens + (now - filled_at) * self._per_second)
        allowed = tokens >= 1
        self._buckets[name] = (tokens - 1 if allowed else tokens, now)
        if len(self._buckets) > MOST_NAMES:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1 - tokens) / self._per_second
