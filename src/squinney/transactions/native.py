"""Guarded steps as one MongoDB transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from bson import ObjectId
from pymongo.client_session import ClientSession
from pymongo.errors import DocumentTooLarge, DuplicateKeyError, PyMongoError, WriteError

from squinney.mongo.schema import Db, Document
from squinney.transactions import duplicates, records
from squinney.transactions.attempts import attempt, may_try_again, pause
from squinney.transactions.meetings import MEETINGS, names_of
from squinney.transactions.records import Key, Outcome
from squinney.transactions.steps import Plan, Step, array_filters_for, native_filter, native_update

WRITES_FIELD = {"insert": "documents", "update": "updates", "delete": "deletes"}


class Unmatched(Exception):
    """A step did not find its document, or found its place taken. Without a step: one of a batch, if not its size."""

    def __init__(self, step: Step | None, duplicate: Mapping[str, Any] | None = None) -> None:
        self.step = step
        self.duplicate = duplicate


class Repeated(Exception):
    """The key has a record already."""


def run(db: Db, kind: str, plan: Plan, key: Key | None, *, until: float, keep_keys_seconds: float) -> Outcome:
    """Take and give everything in one transaction, retried while the server asks for it and time is left.

    The steps go out in one batch per collection. Only when a batch does not match in full, or does not fit into one
    message, are they sent one by one, which tells the step that refuses.
    """
    txn = ObjectId()
    record = records.finished(kind, txn, key, plan.result) if key else None
    send: Callable[[Db, Sequence[Step], ClientSession], None] = _send_batched
    names = names_of(db, plan.steps)
    with db.client.start_session() as session:
        for number in range(1_000_000):
            try:
                with MEETINGS.in_turn(names):
                    attempt(session, partial(_send_all, db, send, plan.steps, record, keep_keys_seconds))
                return Outcome(txn, plan.result)
            except Unmatched as unmatched:
                if unmatched.step is not None:
                    _refuse_unless_held(db, unmatched.step, unmatched.duplicate)
                    pause(number, until)
                send = _send_singly
            except Repeated:
                if outcome := records.earlier_outcome(db, key):
                    return outcome
                pause(number, until)
            except PyMongoError as error:
                if not may_try_again(error):
                    raise
                MEETINGS.met(names)
                pause(number, until, error)
    raise AssertionError("unreachable")


def _send_all(
    db: Db,
    send: Callable[[Db, Sequence[Step], ClientSession], None],
    steps: Sequence[Step],
    record: Document | None,
    keep_keys_seconds: float,
    session: ClientSession,
) -> None:
    if record is not None:
        _insert_record(db, record, keep_keys_seconds, session)
    send(db, steps, session)


def _insert_record(db: Db, record: Document, keep_keys_seconds: float, session: ClientSession) -> None:
    try:
        records.insert_finished(db, record, keep_keys_seconds, session)
    except DuplicateKeyError:
        raise Repeated from None


def _send_batched(db: Db, steps: Sequence[Step], session: ClientSession) -> None:
    batches: dict[str, dict[str, list[Document]]] = {}
    for step in steps:
        batch = batches.setdefault(step.collection, {verb: [] for verb in WRITES_FIELD})
        verb = _verb(step)
        batch[verb].append(_write(step, verb))
    for name, batch in batches.items():
        for verb, writes in batch.items():
            if writes and _send(db, name, verb, writes, session) < len(writes):
                raise Unmatched(None)


def _send_singly(db: Db, steps: Sequence[Step], session: ClientSession) -> None:
    for step in steps:
        verb = _verb(step)
        try:
            done = _send(db, step.collection, verb, [_write(step, verb)], session)
        except Unmatched as unmatched:
            raise Unmatched(step, unmatched.duplicate) from None
        if done < 1:
            raise Unmatched(step)


def _send(db: Db, name: str, verb: str, writes: list[Document], session: ClientSession) -> int:
    """Send one write command, and tell how many documents it found or made.

    Not the driver's `bulk_write`: what that adds, a transaction has no use for.
    """
    try:
        answer = db.command({verb: name, WRITES_FIELD[verb]: writes, "ordered": True}, session=session)
    except DocumentTooLarge:
        if len(writes) == 1:
            raise
        raise Unmatched(None) from None
    for report in answer.get("writeErrors", ()):
        if report["code"] == duplicates.CODE:
            raise Unmatched(None, report)
        raise WriteError(report["errmsg"], report["code"], report)
    return int(answer["n"])


def _verb(step: Step) -> str:
    return "insert" if step.insert is not None else "delete" if step.delete else "update"


def _write(step: Step, verb: str) -> Document:
    """The step as an element of its command."""
    if verb == "insert":
        return {"_id": step.id, **(step.insert or {})}
    if verb == "delete":
        return {"q": native_filter(step), "limit": 1}
    update = native_update(step)
    write: Document = {"q": native_filter(step), "u": update}
    if filters := array_filters_for(update, step.array_filters):
        write["arrayFilters"] = filters
    return write


def _refuse_unless_held(db: Db, step: Step, duplicate: Mapping[str, Any] | None) -> None:
    """Raise the step's error, unless its guard holds now: then only a two-phase run was in the way."""
    if duplicate:
        duplicates.refuse_if_settled(db, step, duplicate)
    elif db[step.collection].find_one({**step.place, "$and": [dict(step.guard)]}, {"_id": 1}) is None:
        raise step.refusal(db[step.collection].find_one(step.place))
