"""Guarded steps by the book's two-phase protocol, made sound.

Begin: the record, `new`, with a deadline by the server's clock. Prepare: every step checks its guard and leaves its
marker, which keeps all others from the document; a shared step takes, and lets others in that are shared. Flip: `new`
to `commit`, before the deadline: this one update decides. Finish: every step does the rest and removes its marker.
Nothing is given before the flip, so nobody can spend what may yet be rolled back.
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

TOO_LATE = "the operation took longer than it may; nothing was changed"


class Refused(Exception):
    """A step's guard does not match, however the undecided runs on its document end."""


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
    """Begin, prepare, flip, finish.

    Where a step cannot be prepared, everything is rolled back and the plan is run in native mode: that tells the error,
    the same in both modes, or does what by then can be done. An error whose outcome is unknown is not rolled back:
    `recover()` settles it after the deadline.
    """
    run_natively = partial(native.run, db, kind, plan, key, until=until, keep_keys_seconds=keep_keys_seconds)
    txn = ObjectId()
    try:
        record = _begin(db, kind, txn, plan, key, margin_seconds)
    except (DocumentTooLarge, OperationFailure) as error:  # one record cannot hold all the steps
        if not _is_refusal(error):
            raise
        return run_natively()
    if key is not None and record["txn"] != txn:
        outcome = records.replay(record, key)
        if record["state"] == "commit":
            _if_possible(recovery.finish, db, record, keep_keys_seconds)
        return outcome
    try:
        _prepare(db, plan.steps, record, until)
    except Exception as error:
        if _outcome_unknown(error):
            raise
        _if_possible(recovery.roll_back, db, record)
        if not _is_refusal(error):
            raise
        return run_natively()
    _flip(db, record)
    _if_possible(recovery.finish, db, record, keep_keys_seconds)
    return Outcome(txn, plan.result)


def _outcome_unknown(error: Exception) -> bool:
    """Unless the server answered, or nothing was sent: what the driver cannot encode is no `PyMongoError`."""
    if not isinstance(error, PyMongoError):
        return False
    return not isinstance(error, OperationFailure) or error.timeout or error.has_error_label("RetryableWriteError")


def _is_refusal(error: Exception) -> bool:
    """Whether the server, or the driver for it, refuses what was to be written, or a guard does."""
    if isinstance(error, OperationFailure):
        return not is_away(error)
    return isinstance(error, Refused | DocumentTooLarge)


def _begin(db: Db, kind: str, txn: ObjectId, plan: Plan, key: KeyRecord | None, margin_seconds: float) -> Document:
    """The record of this run; with a key that has one already, that record as it is."""
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
    seconds = seconds_left()  # nobody waits for it longer than its caller, so recover() need not either
    times = {"at": "$$NOW", "deadline": after(seconds), "due_at": after(seconds + margin_seconds)}
    whole = {"$mergeObjects": [{"$literal": record}, times]}
    unless_there = {"$cond": [{"$eq": [{"$type": "$state"}, "missing"]}, whole, "$$ROOT"]}
    begun = db[records.NAME].find_one_and_update(
        {"_id": record_id}, [{"$replaceWith": unless_there}], upsert=True, return_document=ReturnDocument.AFTER
    )
    assert begun is not None  # an upsert returns what it made
    return begun


def _if_possible(settle: Callable[..., None], db: Db, record: Document, *arguments: float) -> None:
    """What it comes to is known all the same: what is left to give, or to undo, `recover()` does."""
    try:
        settle(db, record, *arguments)
    except PyMongoError as error:
        log.warning("transaction %s is left to recover(): %s", record["txn"], type(error).__name__)


# ---- prepare ----


def _prepare(db: Db, plan: Sequence[Step], record: Document, until: float) -> None:
    """Everything in one order for all, so that no two runs wait for each other.

    A run that holds documents waits only for the next in that order, and never for a unique value that another may give
    back.
    """
    txn, deadline = record["txn"], record["deadline"]
    ordered = sorted(plan, key=attrgetter("identity"))
    for (name, are_inserts), group in groupby(ordered, key=lambda step: (step.name, step.verb == "insert")):
        if are_inserts:
            _insert_stubs(db, name, list(group), txn, deadline)
        else:
            for step in group:
                _prepare_one(db, step, txn, deadline, until)
    _establish(db, record)


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


def _establish(db: Db, record: Document) -> None:
    """Finish in a transaction that is taken back: what the server would refuse, it must refuse before the decision.

    Shared steps need it not: they only add to numbers that have been looked at.
    """
    changes = [step for step in record["steps"] if step["verb"] == "update" and not step["shared"] and "update" in step]
    if changes:
        attempts.rehearse(db, partial(recovery.give, db, {**record, "steps": changes}))


# ---- decide ----


def _flip(db: Db, record: Document) -> None:
    """The one update that decides."""
    where = {"_id": record["_id"], "txn": record["txn"], "state": "new", "$expr": {"$lt": ["$$NOW", "$deadline"]}}
    try:
        flipped = db[records.NAME].update_one(where, [{"$set": {"state": "commit", "due_at": "$$NOW"}}])
    except PyMongoError as error:
        raise Unavailable("the commit was sent, but no answer came", outcome_unknown=True) from error
    if not flipped.matched_count:
        _if_possible(recovery.roll_back, db, record)
        raise TimedOut(TOO_LATE)
