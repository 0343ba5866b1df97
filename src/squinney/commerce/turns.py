"""Threads of one process that are after the same document go one after another.

Two native transactions that meet in one document cost the later one everything it has sent, and a pause. Who waits for
a moment in front of the door sends it once. The database still decides: other processes do not stand in this queue.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

QUEUES = 64
LONGEST_SECONDS = 1.0  # then it goes on all the same: a turn is a courtesy, never a promise


class Turns:
    """Queues by name; names may share one."""

    def __init__(self) -> None:
        self._queues = [Lock() for _ in range(QUEUES)]

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Wait for the threads that are inside with this name, a moment at most."""
        queue = self._queues[hash(name) % QUEUES]
        inside = queue.acquire(timeout=LONGEST_SECONDS)
        try:
            yield
        finally:
            if inside:
                queue.release()
