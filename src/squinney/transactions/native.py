"""Guarded steps as one MongoDB transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any

from bson import ObjectId
from pymongo.client_session import ClientSession
from pymongo.errors import DocumentTooLarge, DuplicateKeyError, OperationFailure, PyMongoError

from squinney.mongo.connect import is_away
from squinney.mongo.schema import Db, Document
from squinney.transactions import attempts, records, verdicts
from squinney.transactions.attempts import may_try_again, pause
from squinney.transactions.contention import CONTENTION, names_of
from squinney.transactions.errors import WriteRefused
from squinney.transactions.records import KeyRecord, Outcome
from squinney.transactions.steps import Plan, Step, array_filters_for, native_filter, native_update

WRITES_FIELD = {"delete": "deletes", "update": "updates", "insert": "documents"}
MOST_LONELY = 3  # times that a value is taken and nobody has it: then another step of the plan does

Send = Callable[[Db, Sequence[Step], ClientSession], None]


class Unmatched(Exception):
    """A step did not find its document, or found its id or value taken; without a step: one of a batch."""

    def __init__(self, step: Step | None = None, duplicate: Mapping[str, Any] | None = None) -> None:
        self.step = step
        self.duplicate = duplicate


class Repeated(Exception):
    """The key has a record already."""


def run(db: Db, kind: str, plan: Plan, key: KeyRecord | None, *, until: float, keep_keys_seconds: float) -> Outcome:
    """Take and give everything in one transaction, retried while the server asks for it and time is left.

    The steps go out in batches, as a rule one per collection. Only when one does not go through are they sent one by
    one, in the plan's order, which tells the step that refuses.
    """
    txn = ObjectId()
    record = records.finished(kind, txn, key, plan.result) if key else None
    send: Send = _send_batched
    names = names_of(db, plan.steps)
    lonely = 0
    with db.client.start_session() as session:
        for number in range(1_000_000):
            try:
                with CONTENTION.in_turn(names):
                    attempts.attempt(session, partial(_send_all, db, send, plan.steps, record, keep_keys_seconds))
                return Outcome(txn, plan.result)
            except Unmatched as unmatched:
                send = _send_singly
                if unmatched.step is not None:
                    lonely = 0 if _held(db, unmatched) else _counted(unmatched, lonely)
                    pause(number, until)
            except Repeated:
                if outcome := records.earlier_outcome(db, key):
                    return outcome
                pause(number, until)
            except PyMongoError as error:
                if not may_try_again(error):
                    raise
                CONTENTION.met(names)
                pause(number, until, error)
    raise AssertionError("unreachable")


def rehearse(db: Db, steps: Sequence[Step]) -> None:
    """Raise what refuses the steps now, if anything does, by doing them in a transaction that is taken back."""
    lonely = 0
    while True:
        try:
            attempts.rehearse(db, partial(_send_singly, db, steps))
            return
        except Unmatched as unmatched:
            if _held(db, unmatched):
                return
            lonely = _counted(unmatched, lonely)
        except PyMongoError as error:
            if not may_try_again(error):
                raise
            return


def _held(db: Db, unmatched: Unmatched) -> bool:
    """Whether the step may yet go through. False: nobody was found who has its value.

    Raises: the step's error.
    """
    if unmatched.step is not None and unmatched.duplicate:
        return verdicts.refuse_if_taken(db, unmatched.step, unmatched.duplicate)
    if unmatched.step is not None:
        verdicts.refuse_if_decided(db, unmatched.step)
    return True


def _counted(unmatched: Unmatched, lonely: int) -> int:
    if lonely + 1 == MOST_LONELY and unmatched.step is not None:
        raise unmatched.step.taken(None)
    return lonely + 1


def _send_all(
    db: Db,
    send: Send,
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
    """In each collection in the plan's order, as when they are sent singly: who hands on a unique value comes first."""
    by_name = sorted(steps, key=lambda step: step.name)
    for (name, verb), batch in groupby(by_name, key=lambda step: (step.name, step.does)):
        if not _goes_through(db, name, verb, [_write(step) for step in batch], session):
            raise Unmatched


def _goes_through(db: Db, name: str, verb: str, writes: list[Document], session: ClientSession) -> bool:
    try:
        answer = send(db, name, verb, writes, session)
    except DocumentTooLarge:  # all of them are too much for one message, or one for a document
        return False
    except OperationFailure as error:
        if may_try_again(error) or is_away(error):
            raise
        return False
    return answer["n"] == len(writes) and not answer.get("writeErrors")


def _send_singly(db: Db, steps: Sequence[Step], session: ClientSession) -> None:
    for step in steps:
        try:
            answer = send(db, step.name, step.does, [_write(step)], session)
        except DocumentTooLarge as error:
            raise refused(step, str(error)) from error
        except OperationFailure as error:
            if may_try_again(error) or is_away(error):
                raise
            raise refused(step, str((error.details or {}).get("errmsg", error))) from error
        for report in answer.get("writeErrors", ()):
            if report["code"] == verdicts.DUPLICATE_KEY:
                raise Unmatched(step, report)
            raise refused(step, report["errmsg"])
        if answer["n"] < 1:
            raise Unmatched(step)


def refused(step: Step, reason: str) -> WriteRefused:
    """The error for a write that the server will not do."""
    message = f"the server refuses the {step.does} of {step.name} {step.id!r}: {reason}"
    return WriteRefused(message, collection=step.name, document_id=str(step.id))


def send(db: Db, name: str, verb: str, writes: list[Document], session: ClientSession) -> Document:
    """Send one write command. Not the driver's `bulk_write`: what that adds, a transaction has no use for."""
    return db.command({verb: name, WRITES_FIELD[verb]: writes, "ordered": True}, session=session)


def _write(step: Step) -> Document:
    """The step as an element of its command."""
    if step.insert is not None:
        return {**step.insert, "_id": step.id}
    if step.delete:
        return {"q": native_filter(step), "limit": 1}
    return update_write(native_filter(step), native_update(step), step.array_filters)


def update_write(where: Document, update: Document, array_filters: Sequence[Mapping[str, Any]]) -> Document:
    """One element of an update command."""
    write: Document = {"q": where, "u": update}
    if filters := array_filters_for(update, array_filters):
        write["arrayFilters"] = filters
    return write
