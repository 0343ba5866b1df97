"""Cap hits: how often a cap excluded an ad that was next to be chosen. Kept in memory, written every few seconds."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable
from functools import partial
from itertools import islice

from pymongo.errors import DuplicateKeyError

from squinney.ads.charging import counters
from squinney.ads.charging.counters import CounterKey
from squinney.errors import SquinneyError
from squinney.mongo.schema import Db
from squinney.transactions import in_transaction

WRITE_SECONDS = 5.0  # between two writes
WAIT_SECONDS = 0.5  # for a row that another process holds
MAX_ROWS = 500  # in one write
MAX_KEPT = 50_000


class CapHits:
    """The cap hits of this process that are not written yet."""

    def __init__(self, db: Db) -> None:
        self._db = db
        self._lock = threading.Lock()
        self._waiting: Counter[CounterKey] = Counter()
        self._write_at = 0.0

    def add(self, rows: Iterable[CounterKey]) -> None:
        """Count one hit for each row."""
        with self._lock:
            self._waiting.update(row for row in rows if row in self._waiting or len(self._waiting) < MAX_KEPT)

    def write_if_due(self) -> None:
        """Write the hits if the last write was some seconds ago."""
        if self._waiting and time.monotonic() >= self._write_at:
            self._write_at = time.monotonic() + WRITE_SECONDS
            self.write()

    def write(self) -> None:
        """Add the hits to the counters. Hits that cannot be written now are kept for the next write.

        Atomic: one transaction.
        After a crash: the hits of the last seconds are lost. Nothing else depends on them.
        """
        with self._lock:
            taken = dict(islice(self._waiting.items(), MAX_ROWS))
            for row in taken:
                del self._waiting[row]
        if not taken:
            return
        try:
            counts = {row: {"capped": hits} for row, hits in taken.items()}
            in_transaction(self._db, partial(counters.add, self._db, counts), seconds=WAIT_SECONDS)
        except (SquinneyError, DuplicateKeyError) as error:
            if getattr(error, "outcome_unknown", False):
                return
            with self._lock:
                # guard: cap hits that cannot be written are kept
                self._waiting.update(taken)
