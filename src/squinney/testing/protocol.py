"""Find what unfinished `Transactions` runs left in the database, and recover them at once."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from squinney.mongo.schema import Db, Document
from squinney.transactions import Transactions

RECORDS = "transactions"
MARKS = ("txns", "tombs", "txn_lock", "txn_stub")  # the protocol's other fields have no effect without one of these
OPEN: Document = {"state": {"$ne": "done"}}
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
RECOVERIES = 4

Documents = Mapping[str, list[Document]]


def recover(db: Db) -> None:
    """Expire every deadline and settle all open runs, until their tombstones are removed too."""
    for _ in range(RECOVERIES):
        if db[RECORDS].find_one(OPEN, {"_id": 1}) is None:
            return
        expire_deadlines(db, {})
        Transactions(db).recover()


def expire_deadlines(db: Db, where: Mapping[str, Any]) -> None:
    """Set the deadlines of the matching runs to the past. Use it only for runs whose process is dead."""
    db[RECORDS].update_many({**where, **OPEN}, {"$set": {"deadline": LONG_AGO, "due_at": LONG_AGO}})


def leftovers(documents: Documents) -> list[str]:
    """List the markers, locks, stubs, tombstones and open records that a settled run must not leave."""
    found = [f"{RECORDS}: {record}" for record in documents.get(RECORDS, ()) if record.get("state") != "done"]
    for name, in_collection in documents.items():
        found += [f"{name}: {one}" for one in in_collection if any(one.get(mark) for mark in MARKS)]
    return found
