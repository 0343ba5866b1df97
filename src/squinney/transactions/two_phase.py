"""Guarded steps by the book's two-phase protocol, made sound.

Begin: the record, `new`, with a deadline by the server's clock. Prepare: every step checks its guard, takes, and leaves
its marker. Flip: `new` to `commit`, before the deadline: this one update decides. Finish: every step gives and removes
its marker. Nothing is given before the flip, so nobody can spend what may yet be rolled back.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from bson import ObjectId
from pymongo import DeleteOne, ReturnDocument, UpdateOne
from pymongo.errors import BulkWriteError, DuplicateKeyError, OperationFailure, PyMongoError

from squinney.errors import Unavailable
from squinney.mongo.connect import server_now
from squinney.mongo.queries import after
from squinney.mongo.schema import Db, Document
from squinney.transactions import duplicates, records, steps
from squinney.transactions.errors import Busy, TimedOut
from squinney.transactions.records import Key, Outcome
from squinney.transactions.steps import Plan, Step

log = logging.getLogger(__name__)

DIVIDE_BY_ZERO = (2, 16608, 4848401)


@dataclass(frozen=True, slots=True)
class Limits:
    """How long things may take, in seconds."""

    timeout_seconds: float
    margin_seconds: float
    keep_keys_seconds: float


def run(db: Db, kind: str, plan: Plan, key: Key | None, limits: Limits, *, until: float) -> Outcome:
    """Begin, prepare, flip, finish.

    A refusal is rolled back here. An error whose outcome is unknown is not: `recover()` settles it after the deadline.
    """
    txn = ObjectId()
    record = _begin(db, kind, txn, plan, key, limits)
    if key is not None and record["txn"] != txn:
        return _earlier_outcome(db, record, key, limits)
    try:
        _prepare(db, plan.steps, txn, record["deadline"], until)
    except Exception as error:
        if isinstance(error, PyMongoError) and _outcome_unknown(error):
            raise
        roll_back(db, record)
        raise
    _flip(db, record)
    _finish_if_possible(db, record, limits.keep_keys_seconds)
    return Outcome(txn, plan.result)


def _outcome_unknown(error: PyMongoError) -> bool:
    """Unless the server answered, or nothing was sent: what the driver cannot encode is no `PyMongoError`."""
    return not isinstance(error, OperationFailure) or error.timeout or error.has_error_label("RetryableWriteError")


def _begin(db: Db, kind: str, txn: ObjectId, plan: Plan, key: Key | None, limits: Limits) -> Document:
    record_id = key.id if key else txn
    record = {
        "_id": record_id,
        "txn": txn,
        "kind": kind,
        "mode": "two-phase",
        "fingerprint": key.fingerprint if key else None,
        "result": plan.result,
        "state": "new",
        "steps": [steps.stored_form(step) for step in plan.steps],
    }
    times = {
        "at": "$$NOW",
        "deadline": after(limits.timeout_seconds),
        "due_at": after(limits.timeout_seconds + limits.margin_seconds),
    }
    unless_there = {"$cond": [{"$eq": [{"$type": "$state"}, "missing"]}, {"$literal": record}, "$$ROOT"]}
    with_times = {"$cond": [{"$eq": [{"$type": "$at"}, "missing"]}, times, {}]}
    pipeline = [{"$replaceWith": {"$mergeObjects": [unless_there, with_times]}}]
    return _upsert(db, {"_id": record_id}, pipeline)


def _upsert(db: Db, where: Document, pipeline: list[Document]) -> Document:
    for last_try in (False, True):
        try:
            found = db[records.NAME].find_one_and_update(
                where, pipeline, upsert=True, return_document=ReturnDocument.AFTER
            )
            return cast(Document, found)
        except DuplicateKeyError:  # two upserts met; the second try finds the winner's document
            if last_try:
                raise
    raise AssertionError("unreachable")


def _earlier_outcome(db: Db, record: Document, key: Key, limits: Limits) -> Outcome:
    outcome = records.replay(record, key)
    if record["state"] == "commit":
        _finish_if_possible(db, record, limits.keep_keys_seconds)
    return outcome


def _finish_if_possible(db: Db, record: Document, keep_keys_seconds: float) -> None:
    """It is decided all the same: what is left to give is given by `recover()`."""
    try:
        finish(db, record, keep_keys_seconds)
    except PyMongoError as error:
        log.warning("transaction %s is committed but not finished: %s", record["txn"], type(error).__name__)


# ---- prepare ----


def _prepare(db: Db, plan: Sequence[Step], txn: ObjectId, deadline: datetime, until: float) -> None:
    """Everything in one order for all, so that two runs cannot wait for each other; inserts last, in batches."""
    prepared: set[tuple[str, bytes]] = set()
    for step in sorted((step for step in plan if step.insert is None), key=steps.identity):
        _prepare_one(db, step, txn, deadline, until, plan=plan, prepared=prepared)
        prepared.add(steps.identity(step))
    inserts = [step for step in plan if step.insert is not None]
    for name in dict.fromkeys(step.collection for step in inserts):
        _prepare_inserts(db, name, [step for step in inserts if step.collection == name], txn, deadline, until)


def _prepare_one(
    db: Db,
    step: Step,
    txn: ObjectId,
    deadline: datetime,
    until: float,
    *,
    plan: Sequence[Step],
    prepared: Set[tuple[str, bytes]],
) -> None:
    update = steps.prepare_update(step, txn)
    where = steps.prepare_filter(step, txn, deadline)
    array_filters = steps.array_filters_for(update, step.array_filters)
    for attempt in range(1_000_000):
        try:
            if db[step.collection].update_one(where, update, array_filters=array_filters).matched_count:
                return
        except DuplicateKeyError as error:
            duplicates.refuse_if_settled(db, step, error.details or {})
        else:
            _refuse_unless_held(db, step, [other for other in plan if steps.identity(other) not in prepared])
        _pause(db, attempt, deadline, until)


def _pause(db: Db, attempt: int, deadline: datetime, until: float) -> None:
    if server_now(db) >= deadline:
        raise TimedOut("the operation took longer than it may; nothing was changed")
    if time.monotonic() >= until:
        raise Busy("the documents stayed in use by other operations; try again")
    time.sleep(random.uniform(0, min(0.1, 0.002 * 2 ** min(attempt, 6))))


def _refuse_unless_held(db: Db, step: Step, others: Sequence[Step]) -> None:
    """Raise the first refusal in the plan's own order, as native mode does; none: another run was in the way."""
    if _guard_holds(db, step):
        return
    for other in others:
        if other.insert is None and (other is step or not _guard_holds(db, other)):
            raise other.refusal(db[other.collection].find_one(other.place))


def _guard_holds(db: Db, step: Step) -> bool:
    where = {**step.place, "$and": [dict(step.guard)]}
    return db[step.collection].find_one(where, {"_id": 1}) is not None


def _prepare_inserts(db: Db, name: str, batch: Sequence[Step], txn: ObjectId, deadline: datetime, until: float) -> None:
    requests = [
        UpdateOne({**step.place, "txn_stub": txn}, steps.insert_update(step, txn, deadline), upsert=True)
        for step in batch
    ]
    for attempt in range(1_000_000):
        try:
            db[name].bulk_write(requests)
            return
        except BulkWriteError as error:
            _refuse_insert_if_settled(db, batch, error)
        _pause(db, attempt, deadline, until)


def _refuse_insert_if_settled(db: Db, batch: Sequence[Step], error: BulkWriteError) -> None:
    if duplicate := duplicates.in_batch(error):
        duplicates.refuse_if_settled(db, batch[duplicate["index"]], duplicate)
    elif any(report["code"] in DIVIDE_BY_ZERO for report in (error.details or {}).get("writeErrors", [])):
        raise TimedOut("the operation took longer than it may; nothing was changed") from error
    else:
        raise error


# ---- decide ----


def _flip(db: Db, record: Document) -> None:
    """The one update that decides."""
    where = {"_id": record["_id"], "txn": record["txn"], "state": "new", "$expr": {"$lt": ["$$NOW", "$deadline"]}}
    try:
        flipped = db[records.NAME].update_one(where, [{"$set": {"state": "commit", "due_at": "$$NOW"}}])
    except PyMongoError as error:
        raise Unavailable("the commit was sent, but no answer came", outcome_unknown=True) from error
    if not flipped.matched_count:
        roll_back(db, record)
        raise TimedOut("the operation took longer than it may; nothing was changed")


# ---- after the decision: idempotent, from the stored record alone ----


def finish(db: Db, record: Document, keep_keys_seconds: float) -> None:
    """Give what is still to be given, then close the record. Any number of times, anywhere."""
    _for_each_collection(db, record, _finish_request)
    _close(db, record, keep_keys_seconds)


def _finish_request(stored: Mapping[str, Any], txn: Any) -> UpdateOne | DeleteOne:
    if stored["does"] == "insert":
        return UpdateOne({**stored["place"], "txn_stub": txn}, steps.finish_update(stored, txn))
    where = {**stored["place"], "txns": txn}
    if stored["does"] == "delete":
        return DeleteOne(where)
    return _update(where, steps.finish_update(stored, txn), stored)


def _close(db: Db, record: Document, keep_keys_seconds: float) -> None:
    where = {"_id": record["_id"], "txn": record["txn"]}
    if record["fingerprint"] is None:
        db[records.NAME].delete_one(where)
        return
    done = {"state": "done", "expires_at": after(keep_keys_seconds)}
    db[records.NAME].update_one({**where, "state": "commit"}, [{"$set": done}, {"$unset": ["steps", "due_at"]}])


def roll_back(db: Db, record: Document, *, tombs_for_seconds: float = 0) -> None:
    """Undo what was taken, then free the key. Any number of times, anywhere.

    `tombs_for_seconds` leaves tombstones first, against a writer that may still be on its way: whoever rolls back its
    own run knows that there is none.
    """
    where = {"_id": record["_id"], "txn": record["txn"]}
    db[records.NAME].update_one({**where, "state": "new"}, [{"$set": {"state": "rollback", "due_at": "$$NOW"}}])
    current = db[records.NAME].find_one(where, {"state": 1})
    if current is None or current["state"] != "rollback":
        return
    if tombs_for_seconds:
        _for_each_collection(db, record, _tomb_request)
    _for_each_collection(db, record, _undo_request)
    if tombs_for_seconds:
        _remember_tombs(db, record, tombs_for_seconds)
    db[records.NAME].delete_one({**where, "state": "rollback"})


def _tomb_request(stored: Mapping[str, Any], txn: Any) -> UpdateOne | None:
    if stored["does"] == "insert":
        return None  # there may be no document to carry it; the server's clock keeps late inserts out
    return UpdateOne(dict(stored["place"]), {"$addToSet": {"tombs": txn}})


def _undo_request(stored: Mapping[str, Any], txn: Any) -> UpdateOne | DeleteOne:
    if stored["does"] == "insert":
        return DeleteOne({**stored["place"], "txn_stub": txn})
    return _update({**stored["place"], "txns": txn}, steps.undo_update(stored, txn), stored)


def _remember_tombs(db: Db, record: Document, seconds: float) -> None:
    """A record of its own, since the key may be used again at once."""
    tombs = {
        "_id": {"tombs": record["txn"]},
        "txn": record["txn"],
        "kind": record["kind"],
        "state": "tombs",
        "steps": [stored for stored in record["steps"] if stored["does"] != "insert"],
    }
    times = {"at": "$$NOW", "due_at": {"$add": [record["deadline"], int(seconds * 1000)]}}
    _upsert(db, {"_id": tombs["_id"]}, [{"$replaceWith": {"$mergeObjects": [{"$literal": tombs}, times]}}])


def sweep_tombs(db: Db, record: Document) -> None:
    """Remove tombstones that no writer can be late enough to meet."""
    _for_each_collection(db, record, _sweep_request)
    db[records.NAME].delete_one({"_id": record["_id"], "state": "tombs"})


def _sweep_request(stored: Mapping[str, Any], txn: Any) -> UpdateOne:
    return UpdateOne({**stored["place"], "tombs": txn}, {"$pull": {"tombs": txn}})


def _update(where: Document, update: Document, stored: Mapping[str, Any]) -> UpdateOne:
    filters = steps.array_filters_for(update, stored.get("array_filters") or ())
    return UpdateOne(where, update, array_filters=filters)


def _for_each_collection(db: Db, record: Document, request: Any) -> None:
    """One unordered batch per collection: after the decision no step depends on another.

    Inserted documents come first, so that a document without a marker agrees with what was inserted beside it.
    """
    by_collection: dict[tuple[bool, str], list[Any]] = {}
    for stored in record["steps"]:
        if made := request(stored, record["txn"]):
            by_collection.setdefault((stored["does"] != "insert", stored["collection"]), []).append(made)
    for (_, name), requests in sorted(by_collection.items(), key=lambda item: item[0]):
        db[name].bulk_write(requests, ordered=False)
