"""Limit the serves of a source that does not show its ads: each serve reserves money of a campaign."""

from __future__ import annotations

import threading
from collections import OrderedDict

MOST_UNSEEN = 100  # serves of one source
FORGOTTEN_SECONDS = 120  # until MOST_UNSEEN serves are forgotten, at a steady rate
MOST_SOURCES = 50_000


class Unseen:
    """The number of unseen serves of each source, such as an IP address."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sources: OrderedDict[str, tuple[float, float]] = OrderedDict()  # the number, and the time of its update

    def room(self, source: str, now: float) -> int:
        """Return how many more serves the source may get."""
        with self._lock:
            return max(0, int(MOST_UNSEEN - self._unseen(source, now)))

    def add(self, source: str, number: int, now: float) -> None:
        """Add this number of unseen serves. It is negative when serves were seen."""
        with self._lock:
            self._sources[source] = (max(0.0, self._unseen(source, now) + number), now)
            self._sources.move_to_end(source)
            if len(self._sources) > MOST_SOURCES:
                self._sources.popitem(last=False)

    def _unseen(self, source: str, now: float) -> float:
        number, at = self._sources.get(source, (0.0, now))
        return max(0.0, number - max(0.0, now - at) * MOST_UNSEEN / FORGOTTEN_SECONDS)
