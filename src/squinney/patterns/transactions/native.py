"""Guarded steps as one MongoDB transaction."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from bson import ObjectId
from pymongo import DeleteOne, InsertOne, UpdateOne
from pymongo.client_session import ClientSession
from pymongo.errors import BulkWriteError, ConnectionFailure, DuplicateKeyError, PyMongoError
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from squinney.clock import utcnow
from squinney.errors import Unavailable
from squinney.mongo.schema import Db, Document
from squinney.patterns.transactions import duplicates, records
from squinney.patterns.transactions.errors import Busy
from squinney.patterns.transactions.records import Key, Outcome
from squinney.patterns.transactions.steps import Plan, Step, array_filters_for, native_filter, native_update

SNAPSHOT = ReadConcern("snapshot")
MAJORITY = WriteConcern("majority")


class Unmatched(Exception):
    """A step did not find its document, or found its place taken. Without a step: one of a batch did."""

    def __init__(self, step: Step | None, duplicate: Mapping[str, Any] | None = None) -> None:
        self.step = step
        self.duplicate = duplicate


class Repeated(Exception):
    """The key has a record already."""


def run(db: Db, kind: str, plan: Plan, key: Key | None, *, until: float, keep_keys_seconds: float) -> Outcome:
    """Take and give everything in one transaction, retried while the server asks for it and time is left.

    The steps go out in one batch per collection. Only when a batch does not match in full are they sent one by one,
    which tells the step that refuses.
    """
    txn = ObjectId()
    record = _record(kind, txn, plan, key, keep_keys_seconds)
    send: Callable[[Db, Sequence[Step], ClientSession], None] = _send_batched
    with db.client.start_session() as session:
        for attempt in range(1_000_000):
            try:
                _attempt(db, session, send, plan.steps, record)
                return Outcome(txn, plan.result)
            except Unmatched as unmatched:
                if unmatched.step is not None:
                    _refuse_unless_held(db, unmatched.step, unmatched.duplicate)
                    _pause(attempt, until)
                send = _send_singly
            except Repeated:
                if outcome := _earlier_outcome(db, key):
                    return outcome
                _pause(attempt, until)
            except PyMongoError as error:
                if error.timeout or not error.has_error_label("TransientTransactionError"):
                    raise
                _pause(attempt, until, error)
    raise AssertionError("unreachable")


def _record(kind: str, txn: ObjectId, plan: Plan, key: Key | None, keep_seconds: float) -> Document | None:
    if key is None:
        return None
    now = utcnow()
    return {
        "_id": key.id,
        "txn": txn,
        "kind": kind,
        "mode": "native",
        "fingerprint": key.fingerprint,
        "result": plan.result,
        "state": "done",
        "at": now,
        "expires_at": now + timedelta(seconds=keep_seconds),
    }


def _attempt(
    db: Db,
    session: ClientSession,
    send: Callable[[Db, Sequence[Step], ClientSession], None],
    steps: Sequence[Step],
    record: Document | None,
) -> None:
    session.start_transaction(read_concern=SNAPSHOT, write_concern=MAJORITY)
    try:
        if record is not None:
            _insert_record(db, record, session)
        send(db, steps, session)
    except BaseException:
        session.abort_transaction()
        raise
    _commit(session)


def _insert_record(db: Db, record: Document, session: ClientSession) -> None:
    try:
        db[records.NAME].insert_one(record, session=session)
    except DuplicateKeyError:
        raise Repeated from None


def _earlier_outcome(db: Db, key: Key | None) -> Outcome | None:
    """What the key's first run answered; None while its record is not yet visible to a majority."""
    earlier = db[records.NAME].find_one({"_id": key.id}) if key else None
    return records.replay(earlier, key) if key and earlier else None


def _commit(session: ClientSession) -> None:
    """Commit, and ask again while the answer is unknown; `pymongo.timeout` around us ends it."""
    while True:
        try:
            session.commit_transaction()
            return
        except PyMongoError as error:
            if not error.has_error_label("UnknownTransactionCommitResult"):
                raise
            if error.timeout:
                raise Unavailable("the commit was sent, but no answer came in time", outcome_unknown=True) from error
            time.sleep(0.02)


def _send_batched(db: Db, steps: Sequence[Step], session: ClientSession) -> None:
    by_collection: dict[str, list[Step]] = {}
    for step in steps:
        by_collection.setdefault(step.collection, []).append(step)
    for name, batch in by_collection.items():
        requests = [_request(step) for step in sorted(batch, key=_kind_of_write)]
        try:
            result = db[name].bulk_write(requests, session=session)
        except BulkWriteError as error:
            raise _as_unmatched(error) from None
        if result.matched_count + result.deleted_count + result.inserted_count < len(batch):
            raise Unmatched(None)


def _send_singly(db: Db, steps: Sequence[Step], session: ClientSession) -> None:
    for step in steps:
        try:
            result = db[step.collection].bulk_write([_request(step)], session=session)
        except BulkWriteError as error:
            raise _as_unmatched(error, step) from None
        if result.matched_count + result.deleted_count + result.inserted_count < 1:
            raise Unmatched(step)


def _as_unmatched(error: BulkWriteError, step: Step | None = None) -> Exception:
    """A duplicate key is a step that found its place taken; anything else stays what it is."""
    duplicate = duplicates.in_batch(error)
    return Unmatched(step, duplicate) if duplicate else error


def _kind_of_write(step: Step) -> int:
    return 0 if step.insert is not None else 2 if step.delete else 1


def _request(step: Step) -> InsertOne[Document] | UpdateOne | DeleteOne:
    if step.insert is not None:
        return InsertOne({"_id": step.id, **step.insert})
    if step.delete:
        return DeleteOne(native_filter(step))
    update = native_update(step)
    return UpdateOne(native_filter(step), update, array_filters=array_filters_for(update, step.array_filters))


def _refuse_unless_held(db: Db, step: Step, duplicate: Mapping[str, Any] | None) -> None:
    """Raise the step's error, unless its guard holds now: then only a two-phase run was in the way."""
    if duplicate:
        duplicates.refuse_if_settled(db, step, duplicate)
    elif db[step.collection].find_one({**step.place, "$and": [dict(step.guard)]}, {"_id": 1}) is None:
        raise step.refusal(db[step.collection].find_one(step.place))


def _pause(attempt: int, until: float, cause: Exception | None = None) -> None:
    """Wait a little longer each time, at random, so that contenders part."""
    if time.monotonic() >= until:
        if isinstance(cause, ConnectionFailure):
            raise cause
        raise Busy("the documents stayed in use by other operations; try again") from cause
    time.sleep(random.uniform(0, min(0.1, 0.001 * 2 ** min(attempt, 10))))
