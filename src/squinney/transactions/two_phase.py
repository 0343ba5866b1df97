"""Guarded steps by the book's two-phase protocol, made sound.

Begin: the record, `new`, with a deadline by the server's clock. Prepare: every step checks its guard and leaves its
marker, which keeps all others from the document; a shared step takes, and lets others in that are shared. Flip: `new`
to `commit`, before the deadline: this one update decides. Finish: every step does the rest and removes its marker.
Nothing is given before the flip, so nobody can spend what may yet be rolled back.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from bson import ObjectId
from pymongo import UpdateOne
from pymongo.client_session import ClientSession
from pymongo.errors import DocumentTooLarge, OperationFailure, PyMongoError

from squinney.errors import SquinneyError, Unavailable
from squinney.mongo.connect import after, is_away, server_now
from squinney.mongo.schema import Db, Document
from squinney.transactions import attempts, native, records, recovery, steps, verdicts
from squinney.transactions.attempts import Tries
from squinney.transactions.errors import TimedOut
from squinney.transactions.records import KeyRecord, Outcome
from squinney.transactions.steps import Plan, Step

log = logging.getLogger(__name__)

TOO_LATE = "the operation took longer than it may; nothing was changed"


@dataclass(frozen=True, slots=True)
class Limits:
    """How long things may take, in seconds."""

    timeout_seconds: float
    margin_seconds: float
    keep_keys_seconds: float


class Failed(Exception):
    """A step cannot be prepared. `by_server`: not by its guard or a taken value, but by what it writes."""

    def __init__(self, *, by_server: bool = False) -> None:
        self.by_server = by_server


def run(db: Db, kind: str, plan: Plan, key: KeyRecord | None, limits: Limits, *, until: float) -> Outcome:
    """Begin, prepare, flip, finish.

    Where a step cannot be prepared, everything is rolled back, and a rehearsal in native mode tells the error, so that
    both modes have the same; if there is none by then, it begins anew. What only the protocol's own fields stand in
    the way of is done in native mode. An error whose outcome is unknown is not rolled back: `recover()` settles it
    after the deadline.
    """
    tries = Tries(until - time.monotonic())
    while True:
        txn = ObjectId()
        try:
            with _refusals():
                record = _begin(db, kind, txn, plan, key, limits)
        except Failed:  # one record cannot hold all the steps
            return native.run(db, kind, plan, key, until=until, keep_keys_seconds=limits.keep_keys_seconds)
        if key is not None and record["txn"] != txn:
            return _earlier_outcome(db, record, key, limits)
        try:
            _prepare(db, plan.steps, record, until)
        except Failed as failed:
            recovery.roll_back(db, record)
            native.rehearse(db, plan.steps)
            if failed.by_server:
                return native.run(db, kind, plan, key, until=until, keep_keys_seconds=limits.keep_keys_seconds)
            tries.pause()
            continue
        except Exception as error:
            if isinstance(error, PyMongoError) and _outcome_unknown(error):
                raise
            recovery.roll_back(db, record)
            raise
        _flip(db, record)
        _finish_if_possible(db, record, limits.keep_keys_seconds)
        return Outcome(txn, plan.result)


def _outcome_unknown(error: PyMongoError) -> bool:
    """Unless the server answered, or nothing was sent: what the driver cannot encode is no `PyMongoError`."""
    return not isinstance(error, OperationFailure) or error.timeout or error.has_error_label("RetryableWriteError")


@contextmanager
def _refusals() -> Iterator[None]:
    """What the server, or the driver for it, refuses is `Failed`; its troubles are not."""
    try:
        yield
    except DocumentTooLarge as error:
        raise Failed(by_server=True) from error
    except OperationFailure as error:
        if is_away(error) or _outcome_unknown(error):
            raise
        reports = (error.details or {}).get("writeErrors") or [{"code": error.code}]
        raise Failed(by_server=all(report["code"] != verdicts.DUPLICATE_KEY for report in reports)) from error


def _begin(db: Db, kind: str, txn: ObjectId, plan: Plan, key: KeyRecord | None, limits: Limits) -> Document:
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
    times = {
        "at": "$$NOW",
        "deadline": after(limits.timeout_seconds),
        "due_at": after(limits.timeout_seconds + limits.margin_seconds),
    }
    unless_there = {"$cond": [{"$eq": [{"$type": "$state"}, "missing"]}, {"$literal": record}, "$$ROOT"]}
    with_times = {"$cond": [{"$eq": [{"$type": "$at"}, "missing"]}, times, {}]}
    pipeline = [{"$replaceWith": {"$mergeObjects": [unless_there, with_times]}}]
    return records.upsert(db, {"_id": record_id}, pipeline)


def _earlier_outcome(db: Db, record: Document, key: KeyRecord, limits: Limits) -> Outcome:
    outcome = records.replay(record, key)
    if record["state"] == "commit":
        _finish_if_possible(db, record, limits.keep_keys_seconds)
    return outcome


def _finish_if_possible(db: Db, record: Document, keep_keys_seconds: float) -> None:
    """It is decided all the same: what is left to give is given by `recover()`."""
    try:
        recovery.finish(db, record, keep_keys_seconds)
    except PyMongoError as error:
        log.warning("transaction %s is committed but not finished: %s", record["txn"], type(error).__name__)


# ---- prepare ----


def _prepare(db: Db, plan: Sequence[Step], record: Document, until: float) -> None:
    """Everything in one order for all, so that no two runs wait for each other.

    A run that holds documents waits only for the next in that order. What comes without order, a unique value that
    another may give back, lets go of everything and begins anew.
    """
    txn, deadline = record["txn"], record["deadline"]
    ordered = sorted(plan, key=steps.identity)
    for (name, are_inserts), group in groupby(ordered, key=lambda step: (step.name, step.does == "insert")):
        if are_inserts:
            _insert_stubs(db, name, list(group), txn, deadline)
        else:
            for step in group:
                _prepare_one(db, step, txn, deadline, until)
    _establish(db, record, until)


def _prepare_one(db: Db, step: Step, txn: ObjectId, deadline: datetime, until: float) -> None:
    where, update = steps.prepare_filter(step, txn, deadline), steps.prepare_update(step, txn)
    tries = Tries(until - time.monotonic())
    while True:
        with _refusals():
            if db[step.name].update_one(where, update).matched_count:
                return
        try:
            verdicts.refuse_if_decided(db, step)
        except SquinneyError as refusal:
            raise Failed from refusal
        _require_time(db, deadline)
        tries.pause()


def _require_time(db: Db, deadline: datetime) -> None:
    if server_now(db) >= deadline:
        raise TimedOut(TOO_LATE)


def _insert_stubs(db: Db, name: str, batch: Sequence[Step], txn: ObjectId, deadline: datetime) -> None:
    requests = [
        UpdateOne({**step.place, "txn_stub": txn}, steps.insert_update(step, txn, deadline), upsert=True)
        for step in batch
    ]
    try:
        with _refusals():
            db[name].bulk_write(requests)
    except Failed:
        _require_time(db, deadline)
        raise


def _establish(db: Db, record: Document, until: float) -> None:
    """Finish in a transaction that is taken back: what the server would refuse, it must refuse before the decision.

    Shared steps need it not: they only add to numbers that have been looked at.
    """
    batches: dict[str, list[Document]] = {}
    for stored in record["steps"]:
        if stored["does"] == "update" and not stored["shared"] and "update" in stored:
            where, update = recovery.marked(stored, record["txn"]), steps.finish_update(stored, record["txn"])
            write = native.update_write(where, update, stored.get("array_filters") or ())
            batches.setdefault(stored["collection"], []).append(write)

    def finish_all(session: ClientSession) -> None:
        for name, writes in batches.items():
            answer = native.send(db, name, "update", writes, session)
            if answer.get("writeErrors") or answer["n"] < len(writes):
                raise Failed(by_server=True)

    tries = Tries(until - time.monotonic())
    while batches:
        try:
            with _refusals():
                attempts.rehearse(db, finish_all)
            return
        except PyMongoError as error:
            if not attempts.may_try_again(error):
                raise
        _require_time(db, record["deadline"])
        tries.pause()


# ---- decide ----


def _flip(db: Db, record: Document) -> None:
    """The one update that decides."""
    where = {"_id": record["_id"], "txn": record["txn"], "state": "new", "$expr": {"$lt": ["$$NOW", "$deadline"]}}
    try:
        flipped = db[records.NAME].update_one(where, [{"$set": {"state": "commit", "due_at": "$$NOW"}}])
    except PyMongoError as error:
        raise Unavailable("the commit was sent, but no answer came", outcome_unknown=True) from error
    if not flipped.matched_count:
        recovery.roll_back(db, record)
        raise TimedOut(TOO_LATE)
