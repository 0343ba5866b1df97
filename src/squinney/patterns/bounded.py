"""Bounded dictionaries: what is kept in memory for callers whose number nobody knows."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Bounded(OrderedDict[K, V]):
    """A dictionary that forgets the entry that was set longest ago, if there are more than `max_entries`.

    Threads may share one: `get`, `pop` and setting an entry are safe.
    """

    def __init__(self, max_entries: int) -> None:
        super().__init__()
        self._max_entries = max_entries
        self._setting = Lock()

    def __setitem__(self, key: K, value: V) -> None:
        with self._setting:
            self.pop(key, None)  # so that it becomes the newest
            super().__setitem__(key, value)
            if len(self) > self._max_entries:
                self.popitem(last=False)
