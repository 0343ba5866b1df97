"""Preparing a run: every document is locked with its guard checked, or inserted as a stub."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter

from pymongo.errors import BulkWriteError, OperationFailure

from squinney.mongo.failures import is_away
from squinney.mongo.schema import DUPLICATE_KEY, Db, Document
from squinney.mongo.server_time import server_now
from squinney.transactions.attempts import Tries
from squinney.transactions.errors import WriteRefused
from squinney.transactions.steps import Step
from squinney.transactions.two_phase.documents import LOCK_FIELD
from squinney.transactions.two_phase.errors import TimedOut
from squinney.transactions.two_phase.refusals import first_refusal
from squinney.transactions.two_phase.settling import settle_holder
from squinney.transactions.two_phase.writes import locking_filter, stub_request

LOOK_EVERY_SECONDS = 0.5  # a live run holds its documents for milliseconds
TOO_LATE = "the operation exceeded its time limit; nothing was changed"


class Refused(Exception):
    """A step is refused; the run must be rolled back."""


class Waiting:
    """The pauses of a run between its tries to get a document."""

    def __init__(self, db: Db, record: Document, until: float) -> None:
        self._db = db
        self._record = record
        self._until = until
        self._tries = Tries(until - time.monotonic())
        self._looks_at = time.monotonic() + LOOK_EVERY_SECONDS

    def for_document(self, step: Step) -> None:
        """Pause until the next try; if another run holds the document for long, settle that run if it is overdue.

        The read may be old: it decides only that this run waits on. A refusal is decided in a transaction.

        Raises: `Refused`, `TimedOut`, `Busy`.
        """
        where = {"_id": step.id} if step.insert is not None else step.document_filter
        held = self._db[step.name].find_one({**where, LOCK_FIELD: {"$ne": None}}, {LOCK_FIELD: 1})
        if held is None:
            if first_refusal(self._db, [step]):
                raise Refused
            self._require_time()  # it has just been released: try again after the shortest pause
            self._tries = Tries(self._until - time.monotonic())
        elif time.monotonic() >= self._looks_at:
            self._looks_at = time.monotonic() + LOOK_EVERY_SECONDS
            self._require_time()
            settle_holder(self._db, step.name, step.id, held[LOCK_FIELD])
        self._tries.pause()

    def _require_time(self) -> None:
        if server_now(self._db) >= self._record["deadline"]:
            raise TimedOut(TOO_LATE)


def prepare(db: Db, steps: Sequence[Step], record: Document, until: float) -> None:
    """Prepare the documents in the same order as all other runs, so that no two runs wait for each other.

    Raises: `Refused`, `WriteRefused`, `TimedOut`, `Busy`.
    """
    waiting = Waiting(db, record, until)
    # guard: documents are locked in one order
    ordered = sorted(steps, key=attrgetter("identity"))
    for (name, inserts), group in groupby(ordered, key=lambda step: (step.name, step.insert is not None)):
        if inserts:
            _insert_stubs(db, name, list(group), record, waiting)
        else:
            for step in group:
                _lock(db, step, record, waiting)


def _lock(db: Db, step: Step, record: Document, waiting: Waiting) -> None:
    where, lock = locking_filter(step, record), {"$set": {LOCK_FIELD: record["_id"]}}
    while True:
        try:
            if db[step.name].update_one(where, lock).matched_count:
                return
        except OperationFailure as error:
            raise _rejected(db, step, record, error) from error
        waiting.for_document(step)


def _insert_stubs(db: Db, name: str, steps: Sequence[Step], record: Document, waiting: Waiting) -> None:
    done = 0
    while done < len(steps):
        try:
            db[name].bulk_write([stub_request(step, record) for step in steps[done:]])
            return
        except BulkWriteError as error:
            report = next(iter(error.details["writeErrors"]), None)
            if report is None:
                raise
            done += report["index"]
            if report["code"] != DUPLICATE_KEY:
                raise _rejected(db, steps[done], record, error) from error
        waiting.for_document(steps[done])


def _rejected(db: Db, step: Step, record: Document, error: OperationFailure) -> Exception:
    """Return the error for a write that the server rejects: also a stub that comes after the deadline."""
    if is_away(error):
        return error
    if server_now(db) >= record["deadline"]:
        return TimedOut(TOO_LATE)
    message = f"the server rejects the {step.verb} of {step.name} {step.id!r}: {error}"
    return WriteRefused(message, collection=step.name, document_id=str(step.id))
