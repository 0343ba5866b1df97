"""`Feed`, for live pages: one thread follows new changes and fills a bounded queue for each reader of this process.

A reader that is too slow loses its queued changes and gets a `gap` for each collection instead. It does not delay other
readers.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence

from squinney.mongo.schema import Db
from squinney.patterns.follow.follower import Change, Follower, Source
from squinney.patterns.follow.thread import FollowerThread

log = logging.getLogger(__name__)


class Reader:
    """The bounded queue of one reader; close it or use it in a `with`."""

    def __init__(self, feed: Feed, wants: Callable[[Change], bool], size: int) -> None:
        self._feed = feed
        self._wants = wants
        self._waiting: deque[Change] = deque()
        self._size = size
        self._ready = threading.Condition()
        self.closed = False  # whether it gets no more changes

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def offer(self, change: Change) -> None:
        """Queue a change if it is wanted, without blocking.

        If the queue is full, it is replaced by one gap for each collection in it.
        """
        if change.kind != "gap" and not self._wants(change):
            return
        with self._ready:
            self._waiting.append(change)
            # guard: a reader that is too slow gets a gap
            if len(self._waiting) > self._size:
                lost = dict.fromkeys(waiting.collection for waiting in self._waiting)
                # guard: a gap for each collection of which something was lost
                self._waiting = deque(Change("gap", collection) for collection in lost)
            self._ready.notify()

    def next(self, timeout_seconds: float) -> Change | None:
        """Return the next change, or None after `timeout_seconds` or when the reader is closed."""
        with self._ready:
            self._ready.wait_for(lambda: self._waiting or self.closed, timeout_seconds)
            return self._waiting.popleft() if self._waiting else None

    def take_all(self) -> list[Change]:
        """Return all queued changes, without blocking."""
        with self._ready:
            taken = list(self._waiting)
            self._waiting.clear()
            return taken

    def close(self) -> None:
        """Stop getting changes."""
        with self._ready:
            self.closed = True
            self._ready.notify_all()
        self._feed.remove(self)


class Feed:
    """One thread that follows new changes and passes them to every reader of this process."""

    def __init__(self, db: Db, sources: Sequence[Source | str], *, polling: bool | None = None) -> None:
        self._readers: set[Reader] = set()
        self._thread = FollowerThread(
            "squinney-feed",
            lambda: Follower(db, None, sources, polling=polling),
            self._offer,
            ended=self._close_readers,  # which tells them; a new reader starts the thread again
        )

    def read(self, wants: Callable[[Change], bool] = lambda change: True, *, size: int = 256) -> Reader:
        """Return a new reader of the changes that `wants` accepts; it misses no change after this call.

        Raises: `Unavailable` if the feed cannot start.
        """
        with self._thread.lock:
            self._thread.start()
            reader = Reader(self, wants, size)
            self._readers.add(reader)
        if self._thread.stop.is_set():
            reader.close()
        return reader

    def _offer(self, change: Change) -> None:
        for reader in self._all_readers():
            try:
                reader.offer(change)
            # guard: an error in one reader does not end the others
            except Exception:  # an error in one reader's `wants` must not end the other readers
                log.exception("a reader of the feed is closed")
                reader.close()

    def _all_readers(self) -> list[Reader]:
        with self._thread.lock:
            return list(self._readers)

    def _close_readers(self) -> None:
        for reader in self._all_readers():
            reader.close()

    def remove(self, reader: Reader) -> None:
        """Send no more changes to the reader."""
        with self._thread.lock:
            self._readers.discard(reader)

    def close(self) -> None:
        """Stop the thread and close every reader."""
        self._thread.stop.set()
        self._close_readers()
        self._thread.close()
