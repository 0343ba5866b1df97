"""Guarded steps as one MongoDB transaction."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any

from bson import ObjectId
from pymongo.client_session import ClientSession
from pymongo.errors import DocumentTooLarge, OperationFailure, PyMongoError

from squinney.mongo.connect import is_away
from squinney.mongo.schema import DUPLICATE_KEY, Db, Document
from squinney.transactions import group_commit, records, verdicts
from squinney.transactions.attempts import Tries, may_try_again
from squinney.transactions.errors import WriteRefused
from squinney.transactions.group_commit import GroupFailed, Run, Send
from squinney.transactions.records import KeyRecord, Outcome
from squinney.transactions.steps import CHECKED, Plan, Step, native_write

WRITES_FIELD = {"delete": "deletes", "update": "updates", "insert": "documents"}
MOST_ABSENT = 3  # duplicate errors in a row for a value that no document has: then another step of the plan has it


class Incomplete(Exception):
    """A step of a batch did not match; sending the steps one by one shows which."""


class Unmatched(Exception):
    """A step did not match, or its id or unique value is a duplicate; carries the step and any server report."""


class Repeated(Exception):
    """The key already has a record."""


def run(db: Db, kind: str, plan: Plan, key: KeyRecord | None, *, until: float, keep_keys_seconds: float) -> Outcome:
    """Apply all takes and gives in one transaction; retry while the server asks for it and time is left.

    The steps are sent in batches, usually one per collection, together with those of other waiting runs. If a batch
    does not match completely, the steps are sent one by one in the plan's order, to find the step that refuses.
    """
    txn = ObjectId()
    record = records.finished(kind, txn, key, plan.result, keep_keys_seconds) if key else None
    mine = Run(record, [(step.name, step.verb, native_write(step)) for step in plan.steps], plan.documents)
    queue = group_commit.queue_of(db)
    send: Send = partial(_send_batched, db)
    tries, absent = Tries(until - time.monotonic()), 0
    while True:
        try:
            queue.commit(mine, send)
            return Outcome(txn, plan.result)
        except GroupFailed:
            mine.alone = True
        except Incomplete:
            mine.alone, send = True, partial(_send_one_by_one, db, plan.steps)
        except Unmatched as unmatched:
            absent = _refuse_if_decided(db, absent, *unmatched.args)
            tries.pause()
        except Repeated:
            if outcome := records.earlier_outcome(db, key):
                return outcome
            tries.pause()
        except PyMongoError as error:
            if not may_try_again(error):
                raise
            tries.pause(error)


def _refuse_if_decided(db: Db, absent: int, step: Step, duplicate: Mapping[str, Any] | None = None) -> int:
    """Return how often in a row the step's value was a duplicate although no document has it.

    Raises: the step's error, unless a retry may succeed.
    """
    if not duplicate:
        if refusal := verdicts.refusal_of(db, step):
            raise refusal
        return 0
    if verdicts.refuse_if_taken(db, step, duplicate):
        return 0
    if absent + 1 == MOST_ABSENT:
        raise step.duplicate(None)
    return absent + 1


def _send_batched(db: Db, runs: Sequence[Run], session: ClientSession) -> None:
    """Send the writes of all runs: in each collection one run after the other, each in its plan's order.

    Sent singly the steps have the same order, so a step that gives up a unique value precedes the one that takes it.
    """
    insert_records(db, [run.record for run in runs if run.record], session)
    by_name = sorted((write for run in runs for write in run.writes), key=itemgetter(0))
    for (name, verb), batch in groupby(by_name, key=itemgetter(0, 1)):
        writes = [write for _, _, write in batch]
        try:
            reply = _send_checked(db, name, verb, writes, session)
        except WriteRefused:  # the server rejects one write, or the batch is too large for one message
            raise Incomplete from None
        if reply["n"] < len(writes) or reply.get("writeErrors"):
            raise Incomplete


def _send_one_by_one(db: Db, steps: Sequence[Step], runs: Sequence[Run], session: ClientSession) -> None:
    insert_records(db, [run.record for run in runs if run.record], session)
    for step in steps:
        reply = _send_checked(db, step.name, step.verb, [native_write(step)], session, step.id)
        if reply["n"] < 1:
            raise Unmatched(step, *reply.get("writeErrors", ()))


def insert_records(db: Db, writes: Sequence[Document], session: ClientSession) -> None:
    """Insert the records of the keys of finished runs.

    Raises: `Repeated` if a key already has a record; `WriteRefused`.
    """
    if not writes:
        return
    if _send_checked(db, records.NAME, "update", list(writes), session, "the key's record").get("writeErrors"):
        raise Repeated


def _send_checked(
    db: Db, name: str, verb: str, writes: list[Document], session: ClientSession, document_id: Any = None
) -> Document:
    """Send one write command and return the reply, whose only errors can be duplicate keys.

    Raises: `WriteRefused` for any other error that a retry would not cure.
    """
    try:
        reply = send(db, name, verb, writes, session)
    except DocumentTooLarge as error:
        raise _refused(name, verb, document_id, str(error)) from error
    except OperationFailure as error:
        if may_try_again(error) or is_away(error):
            raise
        raise _refused(name, verb, document_id, str((error.details or {}).get("errmsg", error))) from error
    errors = reply.get("writeErrors", ())
    for report in errors:
        if report["code"] != DUPLICATE_KEY:
            raise _refused(name, verb, document_id, report["errmsg"])
    if verb == "update" and not errors and reply["nModified"] + len(reply.get("upserted", ())) < reply["n"]:
        # To the server an update that changes nothing is not a write, and it would detect no conflict.
        _send_checked(db, name, verb, [{"q": write["q"], "u": CHECKED} for write in writes], session, document_id)
    return reply


def _refused(name: str, verb: str, document_id: Any, reason: str) -> WriteRefused:
    message = f"the server rejects the {verb} of {name} {document_id!r}: {reason}"
    return WriteRefused(message, collection=name, document_id=str(document_id))


def send(db: Db, name: str, verb: str, writes: list[Document], session: ClientSession) -> Document:
    """Send one write command, without the driver's `bulk_write`, whose overhead is of no use in a transaction."""
    command = {verb: name, WRITES_FIELD[verb]: writes, "ordered": True}
    return db.command(command, session=session, codec_options=db.codec_options)
