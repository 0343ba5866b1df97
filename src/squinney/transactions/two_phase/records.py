"""The record of a run: it begins, is decided by one update, and is closed when its documents are released.

**A missing record proves nothing.** After a failover a read at the new primary may miss the record of a run that lives.
So whoever misses one inserts it as rolled back: a duplicate shows that the run lives; otherwise its decision must fail.
"""

from __future__ import annotations

from typing import Any

from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from squinney.mongo.deadlines import seconds_left
from squinney.mongo.schema import Db, Document
from squinney.mongo.server_time import after
from squinney.transactions.keys import KEEP_KEYS_SECONDS, KeyRecord, Outcome
from squinney.transactions.steps import Plan
from squinney.transactions.two_phase.documents import COMMIT, DONE, KEEP_SETTLED_SECONDS, NAME, NEW, ROLLED_BACK
from squinney.transactions.two_phase.writes import stored_form

SETTLE_AFTER_SECONDS = 1.0  # after the decision, if the run's own process has not applied it
NO_STATE = "none"  # a filter for an upsert that must insert


def begin(db: Db, run: Outcome, kind: str, plan: Plan, key: KeyRecord | None) -> Document | None:
    """Insert and return the record of a run; None if its key belongs to another run."""
    record = {"_id": run.id, "kind": kind, "state": NEW, "steps": [stored_form(step) for step in plan.steps]}
    if key:
        record |= {"key": key.id, "fingerprint": key.fingerprint, "result": run.result}
    seconds = seconds_left()  # the caller does not wait longer, so nobody else need either
    times = {"at": "$$NOW", "deadline": after(seconds), "due_at": after(seconds)}
    pipeline = [{"$replaceWith": {"$mergeObjects": [{"$literal": record}, times]}}]
    new = {"_id": run.id, "state": NO_STATE}
    try:
        return _changed(db, new, pipeline, upsert=True)
    except DuplicateKeyError:
        return None


def commit(db: Db, run_id: Any) -> bool:
    """Decide that the run happens, by this one update; return False if the deadline passed or it is rolled back."""
    # guard: a decision comes before the deadline
    # guard: a decision needs a run that is not rolled back
    where = {"_id": run_id, "state": NEW, "$expr": {"$lt": ["$$NOW", "$deadline"]}}
    committed = {"state": COMMIT, "due_at": after(SETTLE_AFTER_SECONDS)}
    return db[NAME].update_one(where, [{"$set": committed}]).matched_count == 1


def roll_back(db: Db, run_id: Any, *, overdue: bool = False) -> Document | None:
    """Decide that the run does not happen, and free its key; return the record, or None if it is not rolled back.

    Whoever did not begin the run says `overdue`, and so waits for the deadline.
    """
    # guard: others roll a run back only after its deadline
    late = {"$expr": {"$gte": ["$$NOW", "$deadline"]}} if overdue else {}
    # guard: a committed run is not rolled back
    undecided = {"_id": run_id, "$or": [{"state": ROLLED_BACK}, {"state": NEW, **late}]}
    since = {"$cond": [{"$eq": ["$state", NEW]}, "$$NOW", "$due_at"]}
    rolled_back = {"state": ROLLED_BACK, "due_at": since}
    return _changed(db, undecided, [{"$set": rolled_back}, {"$unset": ["key", "fingerprint", "result"]}])


def roll_back_missing(db: Db, run_id: Any) -> bool:
    """Insert the missing record of a run as rolled back; return False if it is there after all: the run may live."""
    record = {
        "_id": {"$literal": run_id},
        "state": ROLLED_BACK,
        "at": "$$NOW",
        "expires_at": after(KEEP_SETTLED_SECONDS),
    }
    try:
        # guard: a missing record is inserted as rolled back
        _changed(db, {"_id": run_id, "state": NO_STATE}, [{"$replaceWith": record}], upsert=True)
    except DuplicateKeyError:
        return False
    return True


def close(db: Db, record: Document) -> None:
    """Note that nothing of the run is left to do; the record stays, for its key and for what arrives late."""
    closed = DONE if record["state"] == COMMIT else ROLLED_BACK
    keep_seconds = KEEP_KEYS_SECONDS if "key" in record else KEEP_SETTLED_SECONDS
    settled = {"state": closed, "expires_at": after(keep_seconds)}
    where = {"_id": record["_id"], "state": record["state"]}
    db[NAME].update_one(where, [{"$set": settled}, {"$unset": ["steps", "due_at"]}])


def _changed(db: Db, where: Document, pipeline: list[Document], *, upsert: bool = False) -> Document | None:
    record: Document | None = db[NAME].find_one_and_update(
        where, pipeline, upsert=upsert, return_document=ReturnDocument.AFTER
    )
    return record
