"""Settling runs: applying or releasing what a run still holds, by its own process or by any other.

Everything here may happen twice, in two processes concurrently.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from pymongo.errors import PyMongoError

from squinney.mongo.schema import Db, Document
from squinney.mongo.server_time import server_now
from squinney.transactions.two_phase import records, writes
from squinney.transactions.two_phase.documents import COMMIT, NAME, NEW, ROLLED_BACK

log = logging.getLogger(__name__)


def finish(db: Db, record: Document) -> None:
    """Apply a committed run and close its record."""
    writes.apply(db, record)
    records.close(db, record)


def undo(db: Db, run_id: Any, *, overdue: bool = False) -> bool:
    """Roll a run back, release its documents and close its record; return False if it is not to be rolled back."""
    record = records.roll_back(db, run_id, overdue=overdue)
    if record is None:
        return False
    writes.release(db, record)
    records.close(db, record)
    return True


def settle(db: Db, record: Document) -> str:
    """Settle a run that is due; return the outcome for a count."""
    if record["state"] == COMMIT:
        finish(db, record)
        return "finished"
    return "rolled back" if undo(db, record["_id"], overdue=record["state"] == NEW) else "decided meanwhile"


def try_to(settle: Callable[..., object], db: Db, *arguments: Any) -> None:
    """Settle a run whose outcome is known already; if that fails, `recover()` does it later."""
    try:
        settle(db, *arguments)
    except PyMongoError as error:
        log.warning("a two-phase run is left to recover(): %s", type(error).__name__)


def settle_holder(db: Db, name: str, document_id: Any, run_id: Any) -> int:
    """Settle the run that holds a document if it is overdue; return 1 if the document was an orphan's and is free now.

    A run that is rolled back may hold a document that it locked late. A run whose record is missing is rolled back
    first, by a write: a read may have missed the record.
    """
    record = db[NAME].find_one({"_id": run_id})
    if record is None:
        # guard: only a write shows that a run has no record
        return writes.release_one(db, name, document_id, run_id) if records.roll_back_missing(db, run_id) else 0
    if record["state"] == ROLLED_BACK:
        return writes.release_one(db, name, document_id, run_id)
    if "due_at" in record and record["due_at"] <= server_now(db):
        settle(db, record)
    return 0
