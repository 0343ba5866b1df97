"""Gives an `order` to the entries of a ledger that was written before entries had one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from threading import Event
from typing import Any

from bson.timestamp import Timestamp
from pymongo import UpdateOne

from squinney.mongo.schema import Db, Document
from squinney.patterns.batches import Batches, Plan, Progress

MAX_SECONDS = 2**32 - 1  # that a Timestamp can hold
BATCH = 1_000


class OrderOfOldEntries(Batches):
    """Derives the `order` of old entries from `at`, the worker's clock, since the true order was not recorded.

    Until it has run, a statement lists old entries after the new ones, in the order of their ids.
    """

    def __init__(self, db: Db) -> None:
        super().__init__(db["ledger.entries"], {"order": 1}, batch=BATCH)

    def run(self, *, stop: Event | None = None, report: Callable[[Progress], None] = lambda _: None) -> Progress:
        """Upgrade the rest of the entries, as `Migration.run` does.

        Atomic: each entry by one conditional write.
        After a crash: some entries have an `order` and some have none; run it again.
        Raises: `Unavailable` if MongoDB cannot be reached; run it again.
        """
        return self._run_batches(stop, report)

    def _upgrade(self, ids: list[Any]) -> tuple[int, list[Document]]:
        plan: Plan = []
        failures: list[Document] = []
        # guard: only entries without an order get one
        for entry in self._collection.find({"_id": {"$in": ids}, "order": None}, {"account_id": 1, "at": 1}):
            if isinstance(at := entry.get("at"), datetime):
                plan.append((entry["_id"], UpdateOne(entry, {"$set": {"order": _order_at(at)}})))
            else:
                failures.append({"id": entry["_id"], "reason": "at is not a time"})
        matched, refused = self._write(plan)
        return matched, failures + refused


def _order_at(at: datetime) -> Timestamp:
    seconds = min(max(int(at.timestamp()), 0), MAX_SECONDS)
    return Timestamp(seconds, at.microsecond // 1000 + 1)
