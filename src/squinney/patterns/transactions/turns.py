"""Threads of one process that are after the same document go one after another.

Two native transactions that meet in one document cost the later one all it has sent, and a pause. Who waits for a
moment in front of the door sends it once. Only documents in which transactions have just met have a queue, so that
others pay nothing. The database still decides: other processes do not stand in these queues.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock

from squinney.patterns.transactions.steps import Step, identity

QUEUES = 4_096
HOT_SECONDS = 1.0  # after the last meeting
LONGEST_SECONDS = 1.0  # then it goes on all the same: a turn is a courtesy, never a promise


class Turns:
    """A queue for each document, shared by few enough others."""

    def __init__(self) -> None:
        self._queues = [Lock() for _ in range(QUEUES)]
        self._hot_until = [0.0] * QUEUES

    def queues_of(self, steps: Sequence[Step]) -> list[int]:
        """The queues of the documents that the steps change, in the one order in which all stand in them."""
        return sorted({hash(identity(step)) % QUEUES for step in steps if step.insert is None})

    def met(self, queues: Sequence[int]) -> None:
        """A transaction was turned away there."""
        until = time.monotonic() + HOT_SECONDS
        for queue in queues:
            self._hot_until[queue] = until

    @contextmanager
    def wait(self, queues: Sequence[int]) -> Iterator[None]:
        """Wait for the threads inside, a moment at most, where transactions have met of late."""
        now = time.monotonic()
        entered = [queue for queue in queues if self._hot_until[queue] > now and self._enter(queue)]
        try:
            yield
        finally:
            for queue in entered:
                self._queues[queue].release()

    def _enter(self, queue: int) -> bool:
        if self._queues[queue].acquire(blocking=False):
            return True
        self._hot_until[queue] = time.monotonic() + HOT_SECONDS
        return self._queues[queue].acquire(timeout=LONGEST_SECONDS)


TURNS = Turns()
