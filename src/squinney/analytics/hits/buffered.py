"""`BufferedHits`: hits summed in memory and written a few times a second."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from types import FrameType, TracebackType
from typing import Any, Self

from pymongo.errors import PyMongoError

from squinney import checks
from squinney.analytics.hits.increments import MOST_HITS, PAGES_AT_ONCE, Hit, Increments, checked, transact
from squinney.errors import Invalid, SquinneyError
from squinney.mongo.connect import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db
from squinney.transactions import Busy

log = logging.getLogger(__name__)


class BufferedHits:
    """Counts hits from many threads; flushes when `most_documents` are touched or `flush_after_seconds` have passed.

    What `kill -9` loses is what was recorded within the last `flush_after_seconds`, plus the time of one flush. A flush
    whose outcome is unknown (the connection died under it) is not sent again: hits may be lost then, but never counted
    twice. Nor are more than `most_kept` minutes of pages kept while MongoDB is away. `lost` says how many hits at most
    this cost. Close it, or use it in a `with`.

    Raises: `Invalid`.
    """

    def __init__(
        self, db: Db, *, flush_after_seconds: float = 1.0, most_documents: int = 5_000, most_kept: int = 200_000
    ) -> None:
        self._db = pinned(db)
        self._flush_after_seconds = checks.seconds(flush_after_seconds, "flush_after_seconds")
        if flush_after_seconds == 0:
            raise Invalid("flush_after_seconds must be more than 0", field="flush_after_seconds")
        self._most_documents = checks.integer(most_documents, "most_documents", least=1)
        self._most_kept = max(checks.integer(most_kept, "most_kept", least=1), most_documents)
        self._lock = threading.Lock()
        self._flushing = threading.Lock()
        self._wake = threading.Event()
        self._closed = False
        self._pending: dict[tuple[str, str, float], int] = {}
        self._previous_handler: Callable[[int, FrameType | None], Any] | int | None = None
        self._ending = False
        self.lost = 0
        self._thread = threading.Thread(target=self._run, name="buffered-hits", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    def record(self, site: str, page: str, at: datetime, count: int = 1) -> None:
        """Count some views of a page, soon.

        Atomic: in memory; then as `flush`.
        After a crash: what was not flushed is lost.
        Raises: `Invalid`; `RuntimeError` after `close`.
        """
        if type(at) is not datetime or at.tzinfo is None or type(count) is not int or not 0 < count <= MOST_HITS:
            checked(site, page, at, count)  # says what is wrong, or lets a subclass pass
        minute = site, page, at.timestamp() // 60
        with self._lock:
            try:
                self._pending[minute] += count  # names that are there were checked before
                return
            except (KeyError, TypeError):
                self._add(minute, checked(site, page, at, count))
        if len(self._pending) >= self._most_documents:
            self._wake.set()

    def _add(self, minute: tuple[str, str, float], hit: Hit) -> None:
        if self._closed:
            raise RuntimeError("these hits are closed")
        if len(self._pending) < self._most_kept:
            self._pending[minute] = hit.views
        else:
            self.lost += hit.views

    def flush(self) -> int:
        """Write everything recorded so far; returns how many hits that were.

        Atomic: one transaction for up to 500 pages and days.
        After a crash: some pages have their part, others not.
        Raises: `Unavailable`; up to 500 pages' hits are then in `lost`, and the others are kept for the next time.
        `Busy`; all are kept then.
        """
        with self._flushing:
            with self._lock:
                pending, self._pending = self._pending, {}
            return self._write(Increments(_hits(pending)))

    def _write(self, pending: Increments) -> int:
        parts = list(pending.parts(PAGES_AT_ONCE))
        for number, part in enumerate(parts):
            try:
                with operation(30):
                    transact(self._db, partial(part.write, self._db))
            except Busy:  # nothing of it was written
                self._keep(parts[number:])
                raise
            except (SquinneyError, PyMongoError):
                with self._lock:
                    self.lost += part.hits
                self._keep(parts[number + 1 :])
                raise
        return pending.hits

    def _keep(self, parts: list[Increments]) -> None:
        with self._lock:
            for part in parts:
                for site, page, at, views in part:
                    minute = site, page, at.timestamp() // 60
                    self._pending[minute] = self._pending.get(minute, 0) + views

    def close(self) -> None:
        """Flush, and take no more."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._wake.set()
        self._thread.join()
        self.flush()

    def flush_on_sigterm(self) -> None:
        """Close when the process is asked to end, and end it then as it would have. To be called in the main thread."""
        self._previous_handler = signal.signal(signal.SIGTERM, self._on_sigterm)

    def _on_sigterm(self, number: int, frame: FrameType | None) -> None:
        """The main thread may hold our locks at this moment, so another closes, and then asks again."""
        if self._ending:
            signal.signal(signal.SIGTERM, self._previous_handler or signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)
        else:
            threading.Thread(target=self._close_and_end, name="closing-hits").start()

    def _close_and_end(self) -> None:
        try:
            self.close()
        finally:
            self._ending = True
            os.kill(os.getpid(), signal.SIGTERM)

    def _run(self) -> None:
        while not self._closed:
            self._wake.wait(self._flush_after_seconds)
            self._wake.clear()
            try:
                self.flush()
            except (SquinneyError, PyMongoError):
                log.exception("a flush of hits failed; %d may be lost so far", self.lost)


def _hits(pending: dict[tuple[str, str, float], int]) -> Iterator[Hit]:
    for (site, page, minute), views in pending.items():
        yield Hit(site, page, datetime.fromtimestamp(minute * 60, UTC), views)
