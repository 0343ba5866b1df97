"""Guarded steps by the book's two-phase protocol, corrected.

- Begin: insert the run's record in the state `new`, with a deadline by the server's clock.
- Prepare: every step checks its guard and sets its marker, which excludes all other runs from the document. A shared
  step also applies its take, and excludes only runs that are not shared.
- Flip: change the state from `new` to `commit` before the deadline. This one update decides.
- Finish: every step applies the rest of its change and removes its marker.

Nothing is given before the flip, so no run can spend what may still be rolled back.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from itertools import groupby
from operator import attrgetter

from bson import ObjectId
from pymongo import ReturnDocument, UpdateOne
from pymongo.errors import DocumentTooLarge, OperationFailure, PyMongoError

from squinney.errors import Unavailable
from squinney.mongo.connect import after, is_away, seconds_left, server_now
from squinney.mongo.schema import Db, Document
from squinney.transactions import attempts, native, records, recovery, steps, verdicts
from squinney.transactions.attempts import Tries
from squinney.transactions.errors import TimedOut
from squinney.transactions.records import KeyRecord, Outcome
from squinney.transactions.steps import Plan, Step

log = logging.getLogger(__name__)

TOO_LATE = "the operation exceeded its time limit; nothing was changed"


class Refused(Exception):
    """A step's guard does not match, whichever way the undecided runs on its document end."""


def run(
    db: Db,
    kind: str,
    plan: Plan,
    key: KeyRecord | None,
    *,
    until: float,
    margin_seconds: float,
    keep_keys_seconds: float,
) -> Outcome:
    """Begin, prepare, flip and finish.

    If a step cannot be prepared, the run is rolled back and the plan runs in native mode, which raises the same error
    in both modes, or succeeds if that has become possible. After an error with an unknown outcome nothing is rolled
    back: `recover()` settles the run after the deadline.
    """
    run_natively = partial(native.run, db, kind, plan, key, until=until, keep_keys_seconds=keep_keys_seconds)
    txn = ObjectId()
    try:
        record = _begin(db, kind, txn, plan, key, margin_seconds)
    except (DocumentTooLarge, OperationFailure) as error:  # the steps are too large for one record
        if not _is_refusal(error):
            raise
        return run_natively()
    if key is not None and record["txn"] != txn:
        outcome = records.replay(record, key)
        if record["state"] == "commit":
            _try_to_settle(recovery.finish, db, record, keep_keys_seconds)
        return outcome
    try:
        _prepare(db, plan.steps, record, until)
    except Exception as error:
        if _outcome_unknown(error):
            raise
        _try_to_settle(recovery.roll_back, db, record)
        if not _is_refusal(error):
            raise
        return run_natively()
    _flip(db, record)
    _try_to_settle(recovery.finish, db, record, keep_keys_seconds)
    return Outcome(txn, plan.result)


def _outcome_unknown(error: Exception) -> bool:
    """Return False if the server replied or nothing was sent: what the driver cannot encode is no `PyMongoError`."""
    if not isinstance(error, PyMongoError):
        return False
    return not isinstance(error, OperationFailure) or error.timeout or error.has_error_label("RetryableWriteError")


def _is_refusal(error: Exception) -> bool:
    """Return whether a guard refuses the run, or the server or the driver rejects a write."""
    if isinstance(error, OperationFailure):
        return not is_away(error)
    return isinstance(error, Refused | DocumentTooLarge)


def _begin(db: Db, kind: str, txn: ObjectId, plan: Plan, key: KeyRecord | None, margin_seconds: float) -> Document:
    """Insert and return this run's record; if the key already has a record, return that one unchanged."""
    record_id = key.id if key else txn
    record = {
        "_id": record_id,
        "txn": txn,
        "kind": kind,
        "mode": "two-phase",
        "fingerprint": key.fingerprint if key else None,
        "result": plan.result if key else None,
        "state": "new",
        "steps": [steps.stored_form(step) for step in plan.steps],
    }
    seconds = seconds_left()  # the caller does not wait longer, so recover() need not either
    times = {"at": "$$NOW", "deadline": after(seconds), "due_at": after(seconds + margin_seconds)}
    whole = {"$mergeObjects": [{"$literal": record}, times]}
    unless_there = {"$cond": [{"$eq": [{"$type": "$state"}, "missing"]}, whole, "$$ROOT"]}
    begun = db[records.NAME].find_one_and_update(
        {"_id": record_id}, [{"$replaceWith": unless_there}], upsert=True, return_document=ReturnDocument.AFTER
    )
    assert begun is not None  # an upsert returns the document
    return begun


def _try_to_settle(settle: Callable[..., None], db: Db, record: Document, *arguments: float) -> None:
    """Finish or undo a run whose outcome is known; if that fails, `recover()` does it later."""
    try:
        settle(db, record, *arguments)
    except PyMongoError as error:
        log.warning("transaction %s is left to recover(): %s", record["txn"], type(error).__name__)


# ---- prepare ----


def _prepare(db: Db, plan: Sequence[Step], record: Document, until: float) -> None:
    """Prepare the documents in the same order as all other runs, so that no two runs wait for each other.

    A run that holds documents waits only for the next document in that order, and never for a unique value that another
    run may release.
    """
    txn, deadline = record["txn"], record["deadline"]
    ordered = sorted(plan, key=attrgetter("identity"))
    for (name, are_inserts), group in groupby(ordered, key=lambda step: (step.name, step.verb == "insert")):
        if are_inserts:
            _insert_stubs(db, name, list(group), txn, deadline)
        else:
            for step in group:
                _prepare_one(db, step, txn, deadline, until)
    _rehearse_finish(db, record)


def _prepare_one(db: Db, step: Step, txn: ObjectId, deadline: datetime, until: float) -> None:
    where, update = steps.prepare_filter(step, txn, deadline), steps.prepare_update(step, txn)
    tries = Tries(until - time.monotonic())
    while not db[step.name].update_one(where, update).matched_count:
        if refusal := verdicts.refusal_of(db, step):
            raise Refused from refusal
        if server_now(db) >= deadline:
            raise TimedOut(TOO_LATE)
        tries.pause()


def _insert_stubs(db: Db, name: str, batch: Sequence[Step], txn: ObjectId, deadline: datetime) -> None:
    requests = [
        UpdateOne({**step.document_filter, "txn_stub": txn}, steps.insert_update(step, txn, deadline), upsert=True)
        for step in batch
    ]
    db[name].bulk_write(requests)


def _rehearse_finish(db: Db, record: Document) -> None:
    """Finish in a transaction that is aborted, so that the server rejects invalid writes before the decision.

    Shared steps do not need this: they only add to numbers whose type and size were checked.
    """
    changes = [step for step in record["steps"] if step["verb"] == "update" and not step["shared"] and "update" in step]
    if changes:
        attempts.rehearse(db, partial(recovery.give, db, {**record, "steps": changes}))


# ---- decide ----


def _flip(db: Db, record: Document) -> None:
    """Commit the run by the one update that decides."""
    where = {"_id": record["_id"], "txn": record["txn"], "state": "new", "$expr": {"$lt": ["$$NOW", "$deadline"]}}
    try:
        flipped = db[records.NAME].update_one(where, [{"$set": {"state": "commit", "due_at": "$$NOW"}}])
    except PyMongoError as error:
        raise Unavailable("the commit was sent, but no reply came", outcome_unknown=True) from error
    if not flipped.matched_count:
        _try_to_settle(recovery.roll_back, db, record)
        raise TimedOut(TOO_LATE)
