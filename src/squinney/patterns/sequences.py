"""Numbers in sequence, taken from the server in batches: one write for many numbers."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from threading import Lock

from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from squinney import checks
from squinney.mongo.connect import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Collection, Db

COLLECTIONS = [Collection("sequences", shard_key={"_id": "hashed"})]

LARGEST_TAKE = 1_000_000


class Sequences:
    """Named sequences of whole numbers from 1 up. Threads may share one.

    No number is given twice, in any process, by any instance, after any crash. Numbers may be left out: what a process
    has taken and not used is lost with it, and with `batch` over 1 the numbers of several processes interleave. What
    must have no gaps (invoices, in some countries) is to be numbered otherwise.
    """

    def __init__(self, db: Db, *, batch: int = 100) -> None:
        # Majority: a number must not be given again because the primary that counted it was rolled back.
        self._sequences = pinned(db)["sequences"]
        self._batch = checks.integer(batch, "batch", least=1, most=LARGEST_TAKE)
        self._waiting: dict[str, Iterator[int]] = {}
        self._locks: defaultdict[str, Lock] = defaultdict(Lock)
        self._process = os.getpid()

    def next(self, name: str) -> int:
        """The next number of the sequence; every `batch`-th call asks the server.

        Atomic: one update takes the batch.
        After a crash: the rest of the batch is never given.
        Raises: `Invalid` for a bad name; `Unavailable`.
        """
        name = checks.identifier(name, "name")
        self._forget_numbers_of_a_parent()
        with self._locks[name]:
            number = next(self._waiting.get(name, iter(())), None)
            if number is None:
                self._waiting[name] = iter(self.take(name, self._batch))
                number = next(self._waiting[name])
            return number

    @operation()
    def take(self, name: str, count: int) -> range:
        """`count` numbers in a row, for the caller alone.

        Atomic: one update.
        After a crash: the numbers are never given again.
        Raises: `Invalid` for a bad name, or a count outside 1 to 1,000,000; `Unavailable`.
        """
        name = checks.identifier(name, "name")
        count = checks.integer(count, "count", least=1, most=LARGEST_TAKE)
        try:
            last = self._advance(name, count)
        except DuplicateKeyError:  # two began the sequence at once; now it exists
            last = self._advance(name, count)
        return range(last - count + 1, last + 1)

    def _advance(self, name: str, count: int) -> int:
        counter = self._sequences.find_one_and_update(
            {"_id": name}, {"$inc": {"last": count}}, upsert=True, return_document=ReturnDocument.AFTER
        )
        assert counter is not None  # an upsert returns what it made
        return int(counter["last"])

    def _forget_numbers_of_a_parent(self) -> None:
        """After a fork parent and child hold the same numbers; the child leaves them to its parent."""
        if os.getpid() != self._process:
            self._waiting, self._locks, self._process = {}, defaultdict(Lock), os.getpid()
