"""The two ways to run an operation: `Transactions`, for guarded steps, and `once`, for a callback."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar, cast

from bson import ObjectId
from pymongo.client_session import ClientSession

from squinney.errors import SquinneyError
from squinney.mongo.deadlines import operation, seconds_left
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db
from squinney.transactions import commits, keys
from squinney.transactions.attempts import SHARE_FOR_WAITING, Tries, in_transaction
from squinney.transactions.errors import Stale
from squinney.transactions.keys import Key, Outcome
from squinney.transactions.steps import Plan, Step, require_apart

T = TypeVar("T")
Steps = Sequence[Step] | Plan


class Transactions:
    """Runs multi-document operations, each completely or not at all; `timeout_seconds` limits a run."""

    def __init__(self, db: Db, *, timeout_seconds: float = 30) -> None:
        self._db = pinned(db)
        self._timeout_seconds = timeout_seconds

    def run(
        self,
        kind: str,
        steps: Steps | Callable[[], Steps],
        *,
        key: str | Key | None = None,
        arguments: Mapping[str, Any] | None = None,
    ) -> Outcome:
        """Run all steps or none.

        `steps` may be a callable that builds the steps: it is called again if a step is refused with `Stale`. With a
        `key`, which belongs to its scope and to `kind`, the operation happens once: a repeat with the same `arguments`
        returns the first outcome, even if the callable now raises an error.

        Atomic: the commit of one MongoDB transaction.
        After a crash: nothing remains.
        Raises: the error of the step that refuses; `WriteRefused`; `Busy`; `KeyReused`;
        `Unavailable`: if `outcome_unknown` is true, a repeat with the key returns the outcome.
        """
        record = keys.key_record(kind, key, arguments)
        with operation(self._timeout_seconds, name=f"run {kind}"):
            tries = Tries(seconds_left() * SHARE_FOR_WAITING, among=self._db)
            while True:
                try:
                    return self._attempt(kind, steps, record, tries)
                except Stale as stale:
                    # guard: stale steps are built again
                    if not callable(steps):
                        raise
                    tries.pause(stale)

    def _attempt(
        self, kind: str, steps: Steps | Callable[[], Steps], key: keys.KeyRecord | None, tries: Tries
    ) -> Outcome:
        try:
            built = steps() if callable(steps) else steps
        except SquinneyError:
            # guard, 2 lines: a repeat gets its outcome though its steps can no longer be built
            if outcome := keys.outcome_of(self._db, key):
                return outcome
            raise
        plan = built if isinstance(built, Plan) else Plan(built)
        return commits.commit_plan(self._db, kind, plan, key, tries)


def once(
    db: Db,
    kind: str,
    work: Callable[[ClientSession], T],
    *,
    key: str | Key | None = None,
    arguments: Mapping[str, Any] = MappingProxyType({}),
    also: Sequence[Step] = (),
    own: Collection[str] = (),
    seconds: float = 30,
) -> T:
    """Run `work` as `in_transaction` does, but only once per `key`, if there is one.

    A repeat with the same key and `arguments` returns what `work` returned first. `also` are steps of the caller's,
    which follow `work`; none may be on a collection of `own`, which are those that `work` changes.

    Atomic: the transaction's commit, which includes the key's record. Of two concurrent calls with a key, one waits for
    the other and returns its result.
    After a crash: nothing remains.
    Raises: as `in_transaction`; `KeyReused`; the errors of `also`; `WriteRefused` if the server rejects the key's
    record.
    """
    db = pinned(db)
    record = keys.key_record(kind, key, arguments)
    # guard: a further step on a collection that the callback changes is an error
    require_apart(also, own)
    changed = [*own, *(step.name for step in also)]

    def work_once(session: ClientSession) -> T:
        run_id = ObjectId()
        if record:
            # First, without the result: while this transaction is open, a repeat meets a conflict and decides nothing.
            # guard: a repeat waits for the first call with its key
            commits.send_step(db, *keys.recording(kind, run_id, record, None, changed), session)
        result = work(session)
        # guard: the further steps of a callback happen
        commits.apply_steps(db, also, session)
        if record and result is not None:
            # guard: work under a key returns its result as a repeat will get it
            result = keys.as_stored(result)
            # guard: the result of work under a key is recorded
            commits.send_step(db, *keys.recording(kind, run_id, record, result, changed), session)
        return result

    with operation(seconds, name=f"run {kind}"):
        while True:
            try:
                return in_transaction(db, work_once, seconds=seconds)
            except commits.Unmatched:
                # guard: work under a key happens once
                if earlier := keys.outcome_of(db, record):
                    return cast(T, earlier.result)
