"""Keys that were looked up a moment ago."""

from __future__ import annotations

import threading
import time

from squinney.mongo.schema import Document

CACHED_SECONDS = 5.0
MOST_CACHED = 10_000
USE_NOTED_EVERY_SECONDS = 60.0


class KeyCache:
    """What is known of keys by their ids, for 5 seconds; and when their use is to be noted again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stored: dict[str, tuple[float, Document | None]] = {}
        self._noted: dict[str, float] = {}

    def get(self, key_id: str) -> tuple[bool, Document | None]:
        """Whether it is known, and the key; None where there is no such."""
        until, stored = self._stored.get(key_id, (0.0, None))
        return time.monotonic() < until, stored

    def put(self, key_id: str, stored: Document | None) -> None:
        """Remember it; there may be no such key."""
        with self._lock:
            if len(self._stored) >= MOST_CACHED:
                self._stored.clear()
            self._stored[key_id] = (time.monotonic() + CACHED_SECONDS, stored)

    def forget(self, key_id: str) -> None:
        """Ask again next time."""
        with self._lock:
            self._stored.pop(key_id, None)

    def is_noted(self, key_id: str) -> bool:
        """Whether its use was noted within the last minute."""
        return time.monotonic() < self._noted.get(key_id, 0.0)

    def note(self, key_id: str) -> bool:
        """Whether its use is to be noted now; True for one thread a minute."""
        with self._lock:
            if self.is_noted(key_id):
                return False
            self._noted[key_id] = time.monotonic() + USE_NOTED_EVERY_SECONDS
            return True
