"""Sends the steps of a plan in one MongoDB transaction."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import groupby
from typing import Any

from bson import ObjectId
from pymongo.client_session import ClientSession
from pymongo.errors import DocumentTooLarge, OperationFailure, PyMongoError

from squinney.mongo.failures import is_away
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import DUPLICATE_KEY, Db, Document
from squinney.transactions import group_commit, keys, refusals
from squinney.transactions.attempts import Tries, may_try_again
from squinney.transactions.errors import WriteRefused
from squinney.transactions.group_commit import Alone, PendingRuns, Run, TakenOut
from squinney.transactions.keys import KeyRecord, Outcome
from squinney.transactions.steps import CHECKED, Plan, Step

WRITES_FIELD = {"delete": "deletes", "update": "updates", "insert": "documents"}
MAX_ABSENT = 3  # duplicate errors in a row for a value that no document has: then another step of the plan has it


class Unmatched(Exception):
    """A step did not match, or its id or unique value is a duplicate; carries the step and any report of the server."""


def commit_plan(db: Db, kind: str, plan: Plan, key: KeyRecord | None, tries: Tries) -> Outcome:
    """Apply all steps in one transaction; retry while the server asks for it and time is left.

    The steps are sent in batches, usually one per collection, together with those of other waiting runs. If a run does
    not match, a read tells which step refuses. If none does now, it is sent alone, its steps one by one.
    """
    run_id = ObjectId()
    # guard: the first result is given as a repeat will get it
    result = keys.as_stored(plan.result) if key else plan.result
    changed = [step.name for step in plan.steps]
    recording = [keys.recording(kind, run_id, key, result, changed)] if key else []
    run = Run([*recording, *((step, step.write()) for step in plan.steps)], plan.documents)
    queue = group_commit.pending_runs_of(db)
    absent = 0
    while True:
        try:
            # guard: a run that did not match is refused by a read
            # guard: a document that has just refused a run is asked by a read first
            if run.unmatched or queue.has_suspect(run):
                _refuse_by_reading(db, queue, plan, key)
            queue.commit(run, partial(_send, db))
            return Outcome(run_id, result)
        except Alone:
            run.alone = True
        except Unmatched as unmatched:
            step, *reports = unmatched.args
            if recording and step is recording[0][0]:
                # guard: a repeat gets the first outcome
                if outcome := keys.outcome_of(db, key):
                    return outcome
            elif reports:
                absent = _refuse_duplicate(db, step, reports[0], absent)
            else:
                run.unmatched, absent = True, 0
            tries.pause()
        except PyMongoError as error:
            if not may_try_again(error):
                raise
            tries.pause(error)


def _refuse_by_reading(db: Db, queue: PendingRuns, plan: Plan, key: KeyRecord | None) -> None:
    """Raise the error of the first step that is refused now; a write that does not match would cost other runs more."""
    # guard: the error is that of the first step that is refused
    if refused := refusals.first_refusal(db, plan.steps, key):
        step, error = refused
        queue.suspect(step.identity)
        raise error


def _refuse_duplicate(db: Db, step: Step, report: Document, absent: int) -> int:
    """Return how often in a row the step's value was a duplicate although no document has it.

    Raises: the step's error, unless a retry may succeed.
    """
    refusal = refusals.duplicate_of(db, step, report)
    if refusal or absent + 1 == MAX_ABSENT:
        raise refusal or step.duplicate(None)
    return absent + 1


# ---- sending ----


def _send(db: Db, runs: Sequence[Run], session: ClientSession) -> None:
    if runs[0].alone:
        for step, write in runs[0].writes:
            send_step(db, step, write, session)
    else:
        _send_batched(db, runs, session)


def _send_batched(db: Db, runs: Sequence[Run], session: ClientSession) -> None:
    """Send the writes of all runs, one command for each collection and kind of write."""
    # guard: runs of a group have one order in every collection
    by_name = sorted(((step, write, run) for run in runs for step, write in run.writes), key=lambda sent: sent[0].name)
    for _, same in groupby(by_name, key=lambda sent: (sent[0].name, sent[0].verb)):
        batch = list(same)
        # As an upsert, a write whose guard does not match collides with the document's own id, does not pass the
        # validator, or is listed as inserted. So the reply names it; in each case the transaction is aborted.
        # guard: a run that does not match leaves its group
        writes = [{**write, "upsert": True} if step.may_upsert else write for step, write, _ in batch]
        try:
            reply = _send_checked(db, [step for step, _, _ in batch], writes, session)
        except WriteRefused:  # the server rejects the command, or the batch is too large for one message
            raise Alone from None
        # guard: an upsert never leaves a document
        upserted = [report for report in reply.get("upserted", ()) if "upsert" not in batch[report["index"]][1]]
        # guard: a rejected write leaves its group
        # guard: a key that was used takes only its own run out of the group
        unmatched = [*reply.get("writeErrors", ()), *upserted]
        for report in unmatched:
            batch[report["index"]][2].unmatched = report.get("code", DUPLICATE_KEY) == DUPLICATE_KEY
        if unmatched:
            raise TakenOut([batch[report["index"]][2] for report in unmatched])
        # guard, 2 lines: an unmatched step that the reply does not name is noticed
        if reply["n"] < len(writes):
            raise Alone


def send_step(db: Db, step: Step, write: Document, session: ClientSession) -> None:
    """Send one write in the running transaction.

    Raises: `Unmatched`; `WriteRefused`.
    """
    reply = _send_checked(db, [step], [write], session)
    # guard: a write that the server rejects raises WriteRefused
    _require_no_rejection(reply, [step])
    if reply["n"] < 1:
        raise Unmatched(step, *reply.get("writeErrors", ()))


def apply_steps(db: Db, steps: Sequence[Step], session: ClientSession) -> None:
    """Apply steps in order, at most one per document, in the running transaction of `in_transaction` or `once`.

    A guard sees what the transaction has already changed.

    Raises: the error of the step that refuses, which must end the transaction; `WriteRefused`.
    """
    db = pinned(db)
    for _, batch in groupby(Plan(steps).steps, key=_sent_with):
        _apply(db, list(batch), session)


def _sent_with(step: Step) -> Any:
    """Return the same value for steps that share a command: only those of which a reply or a read tells who refuses."""
    # guard: the guard that refuses is known
    # guard: the deletion that refuses is known
    return step.name, step.verb, step.identity if step.guard or step.delete else None


def _apply(db: Db, batch: Sequence[Step], session: ClientSession) -> None:
    reply = _send_checked(db, batch, [step.write() for step in batch], session)
    # guard: a write inside a transaction that the server rejects raises WriteRefused
    _require_no_rejection(reply, batch)
    # guard: a duplicate inside a transaction refuses it
    for report in reply.get("writeErrors", ()):  # the server has ended the transaction
        step = batch[report["index"]]
        raise refusals.duplicate_of(db, step, report) or step.duplicate(None)
    # guard: a step inside a transaction that does not match refuses it
    if reply["n"] < len(batch):
        raise next(error for step in batch if (error := refusals.refusal_in(db, step, session)))


def _send_checked(db: Db, steps: Sequence[Step], writes: list[Document], session: ClientSession) -> Document:
    """Send the writes of steps that share a command; return the reply, with errors that a retry would not cure.

    Raises: `WriteRefused` if the server rejects the whole command.
    """
    name, verb = steps[0].name, steps[0].verb
    try:
        reply = send_writes(db, name, verb, writes, session)
    except DocumentTooLarge as error:
        raise _refused(steps[0], str(error)) from error
    except OperationFailure as error:
        if may_try_again(error) or is_away(error):
            raise
        raise _refused(steps[0], str((error.details or {}).get("errmsg", error))) from error
    errors = reply.get("writeErrors", ())
    for report in errors:
        # guard: a write during which the server ended the transaction is tried again
        if may_try_again(failure := OperationFailure(report["errmsg"], report["code"], report)):
            raise failure
    # guard: a change of nothing before an error is not checked in a transaction that is over
    # guard: a step that changes nothing still writes
    if verb == "update" and not errors and reply["nModified"] + len(reply.get("upserted", ())) < reply["n"]:
        # To the server an update that changes nothing is not a write, and it would detect no conflict.
        checks = [{"q": write["q"], "u": CHECKED} for write in writes]
        # guard: a write of our field that a validator rejects is an error
        reply["writeErrors"] = _send_checked(db, steps, checks, session).get("writeErrors", [])
    return reply


def _require_no_rejection(reply: Document, steps: Sequence[Step]) -> None:
    """Raise `WriteRefused` if the reply has an error besides a duplicate key."""
    for report in reply.get("writeErrors", ()):
        if report["code"] != DUPLICATE_KEY:
            raise _refused(steps[report["index"]], report["errmsg"])


def _refused(step: Step, reason: str) -> WriteRefused:
    message = f"the server rejects the {step.verb} of {step.name} {step.id!r}: {reason}"
    return WriteRefused(message, collection=step.name, document_id=str(step.id))


def send_writes(db: Db, name: str, verb: str, writes: list[Document], session: ClientSession) -> Document:
    """Send one write command, without the driver's `bulk_write`, whose overhead is of no use in a transaction."""
    command = {verb: name, WRITES_FIELD[verb]: writes, "ordered": True}
    # The server may cut an error message inside a character. The reply contains no stored documents.
    codec = db.codec_options.with_options(unicode_decode_error_handler="replace")
    return db.command(command, session=session, codec_options=codec)
