"""Fair locks: threads of one process that write the same document do it one after the other.

Without the locks their transactions conflict, abort each other and retry: 32 threads then do half as much. The
locks only save work. Guards and transactions ensure correctness, so a thread that has waited for long goes ahead, and
other processes are not involved.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from threading import Event, Lock

from squinney.mongo.deadlines import seconds_left

MAX_WAIT_SECONDS = 5.0
SHARE_FOR_WAITING = 0.5  # of an operation's time; the rest is for its work


class FairLocks:
    """Locks by name, each given to threads in the order in which they ask for it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: dict[Hashable, deque[Event]] = {}

    @contextmanager
    def hold(self, name: Hashable) -> Iterator[bool]:
        """Hold the lock of this name; yield whether another thread had it. A thread that waits too long goes ahead."""
        mine = Event()
        with self._lock:
            line = self._waiting.setdefault(name, deque())
            # guard: threads get a fair lock in order
            line.append(mine)
            line[0].set()
            # guard: a fair lock reports whether other threads have it
            crowded = len(line) > 1
        try:
            # guard: waiting leaves time for the work
            # guard: a thread that has waited for long goes ahead
            # guard: one thread at a time holds a fair lock
            mine.wait(max(0.0, min(MAX_WAIT_SECONDS, seconds_left() * SHARE_FOR_WAITING)))
            yield crowded
        finally:
            with self._lock:
                line.remove(mine)
                if line:
                    # guard: releasing a fair lock notifies the next thread
                    line[0].set()
                else:
                    # guard: unused names of fair locks are dropped
                    del self._waiting[name]
