"""`TwoPhase`: runs plans of guarded steps by the book's two-phase protocol, corrected.

- Begin: insert the run's record in the state `new`, with a deadline by the server's clock.
- Prepare: lock every document with its guard checked, and insert stubs. Nothing is changed yet.
- Decide: change the record's state from `new` to `commit` before the deadline. This one update decides.
- Finish: apply every change and release its document, in one update per document; then close the record.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from typing import Any

from bson import ObjectId
from pymongo.errors import DocumentTooLarge, OperationFailure, PyMongoError

from squinney.errors import SquinneyError, Unavailable
from squinney.mongo.deadlines import operation, seconds_left
from squinney.mongo.failures import is_away
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db, Document
from squinney.mongo.server_time import server_now
from squinney.transactions import attempts, keys
from squinney.transactions.attempts import Tries
from squinney.transactions.errors import KeyReused, Stale, WriteRefused
from squinney.transactions.keys import Key, KeyRecord, Outcome
from squinney.transactions.runner import Steps
from squinney.transactions.steps import Plan
from squinney.transactions.two_phase import records
from squinney.transactions.two_phase.decidable import Decidable
from squinney.transactions.two_phase.documents import COMMIT, KEYED, NEW
from squinney.transactions.two_phase.errors import StillRunning, TimedOut
from squinney.transactions.two_phase.preparing import TOO_LATE, Refused, prepare
from squinney.transactions.two_phase.refusals import first_refusal
from squinney.transactions.two_phase.settling import finish, settle, try_to, undo


class TwoPhase:
    """Runs multi-document operations, each completely or not at all; `timeout_seconds` limits a run.

    All processes that change a document must use it, none of them `Transactions`.
    """

    def __init__(self, db: Db, *, timeout_seconds: float = 30) -> None:
        self._db = pinned(db)
        self._timeout_seconds = timeout_seconds
        self._decidable = Decidable(self._db)

    def run(
        self,
        kind: str,
        steps: Steps | Callable[[], Steps],
        *,
        key: str | Key | None = None,
        arguments: Mapping[str, Any] | None = None,
    ) -> Outcome:
        """Run all steps or none; `steps`, `key` and `arguments` are those of `Transactions.run`.

        Atomic: the update that changes the run's record from `new` to `commit`.
        After a crash: locks and stubs, until `recover()`, or a run that meets them, settles the run.
        Raises: the error of the step that refuses; `WriteRefused`; `Busy`; `KeyReused`; `StillRunning`; `TimedOut`;
        `Unavailable`: if `outcome_unknown` is true, a repeat with the key returns the outcome.
        """
        record = keys.key_record(kind, key, arguments)
        with operation(self._timeout_seconds):
            until = time.monotonic() + seconds_left() * attempts.SHARE_FOR_WAITING
            while True:
                try:
                    return self._attempt(kind, steps, record, until)
                except Stale:
                    if not callable(steps) or time.monotonic() >= until:
                        raise
                    time.sleep(random.uniform(0, 0.02))

    def _attempt(self, kind: str, steps: Steps | Callable[[], Steps], key: KeyRecord | None, until: float) -> Outcome:
        try:
            built = steps() if callable(steps) else steps
        except SquinneyError:
            if outcome := self._earlier_outcome(key):
                return outcome
            raise
        plan = built if isinstance(built, Plan) else Plan(built)
        self._decidable.require(plan)
        return self._run_plan(kind, plan, key, until)

    def _run_plan(self, kind: str, plan: Plan, key: KeyRecord | None, until: float) -> Outcome:
        """Begin, prepare, decide and finish; begin again if the run was refused for what has changed since."""
        tries = Tries(until - time.monotonic())
        result = keys.as_stored(plan.result) if key else plan.result
        while True:
            run = Outcome(ObjectId(), result)
            record = _begin(self._db, run, kind, plan, key)
            if record is None:
                if outcome := self._earlier_outcome(key):
                    return outcome
            elif self._prepare(plan, record, until):
                self._decide(record)
                return run
            elif refusal := first_refusal(self._db, plan.steps):
                raise refusal
            tries.pause()

    def _prepare(self, plan: Plan, record: Document, until: float) -> bool:
        """Return False if a step was refused; the run is rolled back then, and after every other definite error.

        After an error with an unknown outcome a write may still arrive, so the run is left to `recover()`.
        """
        try:
            prepare(self._db, plan.steps, record, until)
        except Exception as error:
            if _may_still_arrive(error):
                raise
            try_to(undo, self._db, record["_id"])
            if not isinstance(error, Refused):
                raise
            return False
        return True

    def _decide(self, record: Document) -> None:
        try:
            committed = records.commit(self._db, record["_id"])
        except PyMongoError as error:
            raise Unavailable("the decision was sent, but no reply came", outcome_unknown=True) from error
        if not committed:
            try_to(undo, self._db, record["_id"])
            raise TimedOut(TOO_LATE)
        try_to(finish, self._db, {**record, "state": COMMIT})

    def _earlier_outcome(self, key: KeyRecord | None) -> Outcome | None:
        """Return the outcome of the key's run; None without one. A run that died is settled first.

        The record is read in a transaction: a majority read at a new primary may be outdated.
        """
        if key is None:
            return None
        record = attempts.in_transaction(
            self._db, lambda session: KEYED.find_one(self._db, key=key.id, session=session)
        )
        if record is None:
            return None
        # guard: an undecided run has no outcome
        if record["state"] == NEW:
            self._settle_if_overdue(record)
            return None
        if record["fingerprint"] != key.fingerprint:
            raise KeyReused("this key was used with other arguments")
        if record["state"] == COMMIT:
            try_to(finish, self._db, record)
        return Outcome(record["_id"], record["result"], replayed=True)

    def _settle_if_overdue(self, record: Document) -> None:
        if server_now(self._db) < record["due_at"]:
            raise StillRunning("an operation with this key is still running; try again")
        settle(self._db, record)


def _begin(db: Db, run: Outcome, kind: str, plan: Plan, key: KeyRecord | None) -> Document | None:
    try:
        return records.begin(db, run, kind, plan, key)
    except (DocumentTooLarge, OperationFailure) as error:
        if isinstance(error, OperationFailure) and is_away(error):
            raise
        raise WriteRefused(
            f"the server rejects the record of the run, which contains all its steps: {error}"
        ) from error


def _may_still_arrive(error: Exception) -> bool:
    """Return False if the server replied, or if nothing was sent: what cannot be encoded is no `PyMongoError`."""
    if isinstance(error, OperationFailure):
        return is_away(error)
    return isinstance(error, PyMongoError) and not isinstance(error, DocumentTooLarge)
