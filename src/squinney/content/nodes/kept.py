"""`Kept`: HTML that was rendered a moment ago, found again by the text that it was made of."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future

Key = tuple[tuple[str, str], bytes]


class Kept:
    """What was made of texts, the least recently used forgotten first.

    A text that changes is another text, so nothing here can be out of date. Several threads may use it:
    those who want the same at once wait for one of them.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._made: OrderedDict[Key, str] = OrderedDict()
        self._making: dict[Key, Future[str]] = {}
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, kind: tuple[str, str], text: str, make: Callable[[], str]) -> str:
        """What `make` made of the text before, or makes now; `kind` tells apart what is made in different ways."""
        key = (kind, hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())
        with self._lock:
            if (known := self._made.get(key)) is not None:
                self._made.move_to_end(key)
                return known
            is_first = key not in self._making
            making = self._making.setdefault(key, Future())
        if is_first:  # not under the lock: who waits for another text need not wait for this one
            self._make(key, making, make)
        return making.result()

    def _make(self, key: Key, making: Future[str], make: Callable[[], str]) -> None:
        """Make it for all who ask for it meanwhile."""
        try:
            making.set_result(make())
        except BaseException as error:
            making.set_exception(error)
        with self._lock:
            del self._making[key]
            if not making.exception():
                self._keep(key, making.result())

    def _keep(self, key: Key, made: str) -> None:
        self._made[key] = made
        self._bytes += _size(made)
        while self._bytes > self._most:
            _, oldest = self._made.popitem(last=False)
            self._bytes -= _size(oldest)


def _size(made: str) -> int:
    """At most four bytes a character, and some for the entry."""
    return 4 * len(made) + 300
