"""`BufferedHits`: sums hits in memory and writes them in batches."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from types import FrameType, TracebackType
from typing import Any, Self

from pymongo.errors import PyMongoError

from squinney import checks
from squinney.analytics.hits.increments import MAX_HITS, Hit, Increments, checked, transact
from squinney.errors import Invalid, SquinneyError
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db
from squinney.transactions import Busy

log = logging.getLogger(__name__)


class BufferedHits:
    """Counts hits from many threads; flushes after `flush_after_seconds`, or when it has `max_documents` counters.

    A counter is one page in one minute. `kill -9` loses the hits of the last `flush_after_seconds` and of a running
    flush. A flush whose outcome is unknown, because the connection failed, is not repeated: its hits may be lost, but
    are never counted twice. While MongoDB is unreachable, at most `max_kept` counters are kept. `lost` is the largest
    number of hits that may be lost this way. Call `close`, or use it as a context manager.

    Raises: `Invalid`.
    """

    def __init__(
        self, db: Db, *, flush_after_seconds: float = 1.0, max_documents: int = 5_000, max_kept: int = 200_000
    ) -> None:
        self._db = pinned(db)
        self._flush_after_seconds = checks.seconds(flush_after_seconds, "flush_after_seconds")
        if flush_after_seconds == 0:
            raise Invalid("flush_after_seconds must be greater than 0", field="flush_after_seconds")
        self._max_documents = checks.integer(max_documents, "max_documents", minimum=1)
        self._max_kept = max(checks.integer(max_kept, "max_kept", minimum=1), max_documents)
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
        """Count `count` views of a page with the next flush.

        Atomic: as `flush`.
        After a crash: hits that were not flushed are lost.
        Raises: `Invalid`; `RuntimeError` after `close`.
        """
        if type(at) is not datetime or at.tzinfo is None or type(count) is not int or not 0 < count <= MAX_HITS:
            checked(site, page, at, count)  # raises `Invalid`, unless `at` is a subclass of datetime
        minute = site, page, at.timestamp() // 60
        with self._lock:
            try:
                self._pending[minute] += count  # the names of an existing counter were validated before
                return
            except (KeyError, TypeError):
                hit = checked(site, page, at, count)
            if self._closed:
                raise RuntimeError("these BufferedHits are closed")
            self._keep([hit])
        if len(self._pending) >= self._max_documents:
            self._wake.set()

    def _keep(self, hits: Iterable[Hit]) -> None:
        """Add hits to the pending ones; the caller holds the lock."""
        for site, page, at, views in hits:
            minute = site, page, at.timestamp() // 60
            if minute in self._pending or len(self._pending) < self._max_kept:
                self._pending[minute] = self._pending.get(minute, 0) + views
            else:
                self.lost += views

    def flush(self) -> int:
        """Write all hits recorded so far; return their number.

        Atomic: one transaction per 500 pages and days.
        After a crash: the hits of some pages are counted, the others are lost.
        Raises: `Unavailable`: the hits of one transaction are added to `lost`, the others are kept for the next flush.
        `Busy`: all hits that are not written are kept.
        """
        with self._flushing:
            with self._lock:
                pending, self._pending = self._pending, {}
            return self._write(Increments(_hits(pending)))

    def _write(self, pending: Increments) -> int:
        unwritten = deque(pending.parts())
        while unwritten:
            part = unwritten.popleft()
            try:
                with operation(30):
                    transact(self._db, partial(part.write, self._db))
            except (SquinneyError, PyMongoError) as error:
                with self._lock:
                    if isinstance(error, Busy):  # this part was not written
                        unwritten.appendleft(part)
                    else:
                        self.lost += part.hits
                    self._keep(chain.from_iterable(unwritten))
                raise
        return pending.hits

    def close(self) -> None:
        """Refuse further hits, and flush; concurrent calls return when everything is flushed."""
        self._closed = True
        self._wake.set()
        self._thread.join()
        self.flush()

    def flush_on_sigterm(self) -> None:
        """On SIGTERM, close first, then let the previous handler end the process. Call it in the main thread."""
        self._previous_handler = signal.signal(signal.SIGTERM, self._on_sigterm)

    def _on_sigterm(self, number: int, frame: FrameType | None) -> None:
        """Close in another thread, as the main thread may hold the locks; that thread then sends SIGTERM again."""
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
                log.exception("flushing hits failed; up to %d hits are lost so far", self.lost)


def _hits(pending: dict[tuple[str, str, float], int]) -> Iterator[Hit]:
    for (site, page, minute), views in pending.items():
        yield Hit(site, page, datetime.fromtimestamp(minute * 60, UTC), views)
