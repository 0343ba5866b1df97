"""Sequences of numbers, reserved on the server in batches: one write for many numbers."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from threading import Lock

from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from squinney import checks
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Collection, Db

COLLECTIONS = [Collection("squinney.sequences", formerly="sequences", shard_key={"_id": "hashed"})]

MAX_TAKE = 1_000_000


class Sequences:
    """Named sequences of whole numbers from 1. Threads may share an instance.

    No number is returned twice, by any process or instance, even after a crash. There may be gaps: numbers that a
    process reserved and did not use are lost when it ends, and with `batch` over 1 the numbers of several processes
    interleave. Do not use it for numbers that must have no gaps, such as invoices in some countries.
    """

    def __init__(self, db: Db, *, batch: int = 100) -> None:
        # Majority: a number must not be returned again because a primary was rolled back.
        # guard: a number is returned when a majority has stored the counter
        self._sequences = pinned(db)["squinney.sequences"]
        self._batch = checks.integer(batch, "batch", minimum=1, maximum=MAX_TAKE)
        self._waiting: dict[str, Iterator[int]] = {}
        self._locks: defaultdict[str, Lock] = defaultdict(Lock)
        self._process = os.getpid()

    def next(self, name: str) -> int:
        """Return the next number of the sequence; only every `batch`-th call needs the server.

        Raises: `Invalid` for a bad name; `Unavailable`.
        """
        name = checks.identifier(name, "name")
        self._drop_numbers_of_parent()
        # guard: threads share one batch
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
        count = checks.integer(count, "count", minimum=1, maximum=MAX_TAKE)
        try:
            last = self._advance(name, count)
        # guard: two processes may create a sequence concurrently
        except DuplicateKeyError:  # another process created the sequence concurrently: now it exists
            last = self._advance(name, count)
        # guard: reserved numbers end with the stored counter
        return range(last - count + 1, last + 1)

    def _advance(self, name: str, count: int) -> int:
        counter = self._sequences.find_one_and_update(
            {"_id": name},
            # guard: a batch of numbers is reserved completely
            {"$inc": {"last": count}},
            upsert=True,
            return_document=ReturnDocument.AFTER,
        )
        assert counter is not None  # an upsert returns the document
        return int(counter["last"])

    def _drop_numbers_of_parent(self) -> None:
        """Drop reserved numbers in a forked child, because its parent has the same ones."""
        # guard: a forked child drops the numbers of its parent
        if os.getpid() != self._process:
            self._waiting, self._locks, self._process = {}, defaultdict(Lock), os.getpid()
