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
from squinney.transactions.group_commit import Apart, Run, Send
from squinney.transactions.records import KeyRecord, Outcome
from squinney.transactions.steps import CHECKED, Plan, Step, native_write

WRITES_FIELD = {"delete": "deletes", "update": "updates", "insert": "documents"}
MOST_LONELY = 3  # times that a value is taken and nobody has it: then another step of the plan does


class Incomplete(Exception):
    """A step of a batch did not go through; which one, is found by sending them one by one."""


class Unmatched(Exception):
    """A step did not find its document, or found its id or value taken: the step, and the server's report of that."""


class Repeated(Exception):
    """The key has a record already."""


def run(db: Db, kind: str, plan: Plan, key: KeyRecord | None, *, until: float, keep_keys_seconds: float) -> Outcome:
    """Take and give everything in one transaction, retried while the server asks for it and time is left.

    The steps go out in batches, as a rule one per collection, and those of runs that wait together. Only when one does
    not go through are they sent one by one, in the plan's order, which tells the step that refuses.
    """
    txn = ObjectId()
    record = records.finished(kind, txn, key, plan.result, keep_keys_seconds) if key else None
    mine = Run(record, [(step.name, step.verb, native_write(step)) for step in plan.steps], plan.documents)
    queue = group_commit.queue_of(db)
    send: Send = partial(_send_batched, db)
    tries, lonely = Tries(until - time.monotonic()), 0
    while True:
        try:
            queue.commit(mine, send)
            return Outcome(txn, plan.result)
        except Apart:
            mine.alone = True
        except Incomplete:
            mine.alone, send = True, partial(_send_one_by_one, db, plan.steps)
        except Unmatched as unmatched:
            lonely = _refuse_if_decided(db, lonely, *unmatched.args)
            tries.pause()
        except Repeated:
            if outcome := records.earlier_outcome(db, key):
                return outcome
            tries.pause()
        except PyMongoError as error:
            if not may_try_again(error):
                raise
            tries.pause(error)


def _refuse_if_decided(db: Db, lonely: int, step: Step, duplicate: Mapping[str, Any] | None = None) -> int:
    """How many times in a row the step's value was taken and nobody was found who has it.

    Raises: the step's error, unless it may yet go through.
    """
    if not duplicate:
        if refusal := verdicts.refusal_of(db, step):
            raise refusal
        return 0
    if verdicts.refuse_if_taken(db, step, duplicate):
        return 0
    if lonely + 1 == MOST_LONELY:
        raise step.taken(None)
    return lonely + 1


def _send_batched(db: Db, runs: Sequence[Run], session: ClientSession) -> None:
    """All runs, one after the other in each collection, and the steps of each in the plan's order, as when they are
    sent singly: who hands on a unique value comes first.
    """
    insert_records(db, [run.record for run in runs if run.record], session)
    by_name = sorted((write for run in runs for write in run.writes), key=itemgetter(0))
    for (name, verb), batch in groupby(by_name, key=itemgetter(0, 1)):
        writes = [write for _, _, write in batch]
        try:
            answer = _sent(db, name, verb, writes, session)
        except WriteRefused:  # one of them, or all of them are too much for one message
            raise Incomplete from None
        if answer["n"] < len(writes) or answer.get("writeErrors"):
            raise Incomplete


def _send_one_by_one(db: Db, steps: Sequence[Step], runs: Sequence[Run], session: ClientSession) -> None:
    insert_records(db, [run.record for run in runs if run.record], session)
    for step in steps:
        answer = _sent(db, step.name, step.verb, [native_write(step)], session, step.id)
        if answer["n"] < 1:
            raise Unmatched(step, *answer.get("writeErrors", ()))


def insert_records(db: Db, writes: Sequence[Document], session: ClientSession) -> None:
    """Record the keys of finished runs.

    Raises: `Repeated` where a key has a record; `WriteRefused`.
    """
    if not writes:
        return
    if _sent(db, records.NAME, "update", list(writes), session, "the key's record").get("writeErrors"):
        raise Repeated


def _sent(
    db: Db, name: str, verb: str, writes: list[Document], session: ClientSession, document_id: Any = None
) -> Document:
    """The server's answer, in which the only error may be a duplicate key.

    Raises: `WriteRefused` for another that nobody need try again.
    """
    try:
        answer = send(db, name, verb, writes, session)
    except DocumentTooLarge as error:
        raise _refused(name, verb, document_id, str(error)) from error
    except OperationFailure as error:
        if may_try_again(error) or is_away(error):
            raise
        raise _refused(name, verb, document_id, str((error.details or {}).get("errmsg", error))) from error
    errors = answer.get("writeErrors", ())
    for report in errors:
        if report["code"] != DUPLICATE_KEY:
            raise _refused(name, verb, document_id, report["errmsg"])
    if verb == "update" and not errors and answer["nModified"] + len(answer.get("upserted", ())) < answer["n"]:
        # An update that changes nothing is no write to the server: it would see no conflict.
        _sent(db, name, verb, [{"q": write["q"], "u": CHECKED} for write in writes], session, document_id)
    return answer


def _refused(name: str, verb: str, document_id: Any, reason: str) -> WriteRefused:
    message = f"the server refuses the {verb} of {name} {document_id!r}: {reason}"
    return WriteRefused(message, collection=name, document_id=str(document_id))


def send(db: Db, name: str, verb: str, writes: list[Document], session: ClientSession) -> Document:
    """Send one write command. Not the driver's `bulk_write`: what that adds, a transaction has no use for."""
    command = {verb: name, WRITES_FIELD[verb]: writes, "ordered": True}
    return db.command(command, session=session, codec_options=db.codec_options)
