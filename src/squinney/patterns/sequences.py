"""Sequences of numbers, reserved on the server in batches: one write for many numbers."""

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
    """Named sequences of whole numbers from 1. Threads may share an instance.

    No number is returned twice, by any process or instance, even after a crash. There may be gaps: numbers that a
    process reserved and did not use are lost when it ends, and with `batch` over 1 the numbers of several processes
    interleave. Do not use it for numbers that must have no gaps, such as invoices in some countries.
    """

    def __init__(self, db: Db, *, batch: int = 100) -> None:
        # Majority: a number must not be returned again because a primary was rolled back.
        self._sequences = pinned(db)["sequences"]
        self._batch = checks.integer(batch, "batch", least=1, most=LARGEST_TAKE)
        self._waiting: dict[str, Iterator[int]] = {}
        self._locks: defaultdict[str, Lock] = defaultdict(Lock)
        self._process = os.getpid()

    def next(self, name: str) -> int:
        """Return the next number of the sequence; only every `batch`-th call needs the server.

        Raises: `Invalid` for a bad name; `Unavailable`.
        """
        name = checks.identifier(name, "name")
        self._drop_numbers_of_parent()
        with self._locks[name]:
            number = next(self._waiting.get(name, iter(())), None)
            if number is None:
                self._waiting[name] = iter(self.take(name, self._batch))
                number = next(self._waiting[name])
            return number

    @operation()
    def take(self, name: str, count: int) -> range:
        """Reserve `count` consecutive numbers for the caller.

        Raises: `Invalid` for a bad name, or a count outside 1 to 1,000,000; `Unavailable`.
        """
        name = checks.identifier(name, "name")
        count = checks.integer(count, "count", least=1, most=LARGEST_TAKE)
        try:
            last = self._advance(name, count)
        except DuplicateKeyError:  # another process created the sequence concurrently: now it exists
            last = self._advance(name, count)
        return range(last - count + 1, last + 1)

    def _advance(self, name: str, count: int) -> int:
        counter = self._sequences.find_one_and_update(
            {"_id": name}, {"$inc": {"last": count}}, upsert=True, return_document=ReturnDocument.AFTER
        )
        assert counter is not None  # an upsert returns the document
        return int(counter["last"])

    def _drop_numbers_of_parent(self) -> None:
        """Drop reserved numbers in a forked child, because its parent has the same ones."""
        if os.getpid() != self._process:
            self._waiting, self._locks, self._process = {}, defaultdict(Lock), os.getpid()
