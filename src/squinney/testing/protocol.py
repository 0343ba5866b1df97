"""What a transaction may leave behind, and how it is settled when its process is dead."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from squinney.mongo.schema import Db, Document
from squinney.transactions import Transactions

RECORDS = "transactions"
MARKS = ("txns", "tombs", "txn_lock", "txn_stub")  # other fields of the protocol mean nothing without these
OPEN: Document = {"state": {"$ne": "done"}}
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
RECOVERIES = 4

Documents = Mapping[str, list[Document]]


def recover(db: Db) -> None:
    """Let every deadline pass and settle all runs, until tombstones too are gone."""
    for _ in range(RECOVERIES):
        if db[RECORDS].find_one(OPEN, {"_id": 1}) is None:
            return
        pass_deadlines(db, {})
        Transactions(db).recover()


def pass_deadlines(db: Db, where: Mapping[str, Any]) -> None:
    """Let the deadlines of some runs pass at once: only for runs whose process is dead."""
    db[RECORDS].update_many({**where, **OPEN}, {"$set": {"deadline": LONG_AGO, "due_at": LONG_AGO}})


def left_behind(documents: Documents) -> list[str]:
    """Markers, locks, stubs, tombstones and open records, which nobody should leave."""
    found = [f"{RECORDS}: {record}" for record in documents.get(RECORDS, ()) if record.get("state") != "done"]
    for name, those in documents.items():
        found += [f"{name}: {one}" for one in those if any(one.get(mark) for mark in MARKS)]
    return found
