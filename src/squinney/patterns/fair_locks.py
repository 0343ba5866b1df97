"""Taking turns: threads of a process that will all write one document go there one after the other.

Without it their native transactions meet in the document, undo each other and try again: 32 threads then do half as
much as they do in turn. It is a courtesy only. What is right is decided by guards and transactions, so whoever has
waited for long goes ahead, and other processes need not know of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from threading import Event, Lock

from squinney.mongo.connect import seconds_left

LONGEST_WAIT_SECONDS = 5.0
SHARE_FOR_WAITING = 0.5  # of an operation's time; the rest is for doing it


class FairLocks:
    """First come, first served, for each name by itself."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: dict[Hashable, deque[Event]] = {}

    @contextmanager
    def hold(self, name: Hashable) -> Iterator[bool]:
        """Inside, no other thread is inside with this name, unless one waited too long; tells if there was a line."""
        mine = Event()
        with self._lock:
            line = self._waiting.setdefault(name, deque())
            line.append(mine)
            line[0].set()
            crowded = len(line) > 1
        try:
            mine.wait(max(0.0, min(LONGEST_WAIT_SECONDS, seconds_left() * SHARE_FOR_WAITING)))
            yield crowded
        finally:
            with self._lock:
                line.remove(mine)
                if line:
                    line[0].set()
                else:
                    del self._waiting[name]
