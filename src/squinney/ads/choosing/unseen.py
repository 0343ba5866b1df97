"""Who asks for ads and does not look at them: each serve holds back money, so nobody may hold back much."""

from __future__ import annotations

import threading
from collections import OrderedDict

MOST_UNSEEN = 100  # serves of one source that nobody saw
FORGOTTEN_SECONDS = 120  # after which so many are forgotten, a few at a time
MOST_SOURCES = 50_000


class Unseen:
    """How many serves of each source, such as an address, were not seen yet."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sources: OrderedDict[str, tuple[float, float]] = OrderedDict()  # how many, and when that was so

    def room(self, source: str, now: float) -> int:
        """How many serves more the source may have."""
        with self._lock:
            return max(0, int(MOST_UNSEEN - self._now(source, now)))

    def add(self, source: str, number: int, now: float) -> None:
        """So many more serves; a negative number where they were seen."""
        with self._lock:
            self._sources[source] = (max(0.0, self._now(source, now) + number), now)
            self._sources.move_to_end(source)
            if len(self._sources) > MOST_SOURCES:
                self._sources.popitem(last=False)

    def _now(self, source: str, now: float) -> float:
        number, at = self._sources.get(source, (0.0, now))
        return max(0.0, number - max(0.0, now - at) * MOST_UNSEEN / FORGOTTEN_SECONDS)
