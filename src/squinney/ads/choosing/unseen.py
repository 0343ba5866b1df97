"""Limit the serves of a source that does not show its ads: each serve reserves money of a campaign."""

from __future__ import annotations

import threading

from squinney.patterns.bounded import Bounded

MAX_UNSEEN = 100  # serves of one source
FORGOTTEN_SECONDS = 120  # until MAX_UNSEEN serves are forgotten, at a steady rate
MAX_SOURCES = 50_000


class Unseen:
    """The number of unseen serves of each source, such as an IP address."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # The number, and the time of its update
        self._sources = Bounded[str, tuple[float, float]](MAX_SOURCES)

    def room(self, source: str, now: float) -> int:
        """Return how many more serves the source may get."""
        with self._lock:
            return max(0, int(MAX_UNSEEN - self._unseen(source, now)))

    def add(self, source: str, number: int, now: float) -> None:
        """Add this number of unseen serves. It is negative when serves were seen."""
        with self._lock:
            self._sources[source] = (max(0.0, self._unseen(source, now) + number), now)

    def _unseen(self, source: str, now: float) -> float:
        number, at = self._sources.get(source, (0.0, now))
        return max(0.0, number - max(0.0, now - at) * MAX_UNSEEN / FORGOTTEN_SECONDS)
