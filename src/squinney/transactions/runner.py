"""`Transactions`: runs plans of guarded steps, and recovers runs that crashed processes left unfinished."""

from __future__ import annotations

import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Literal, get_args

from pymongo.errors import PyMongoError

from squinney.errors import SquinneyError
from squinney.mongo.connect import is_away, operation, seconds_left, server_now
from squinney.mongo.problems import Problem
from squinney.mongo.schema import Db
from squinney.transactions import attempts, native, records, recovery, two_phase
from squinney.transactions.constraints import Constraints
from squinney.transactions.errors import Stale
from squinney.transactions.records import Key, Outcome
from squinney.transactions.steps import Plan, Step

log = logging.getLogger(__name__)

Mode = Literal["auto", "native", "two-phase"]
Steps = Sequence[Step] | Plan
STUCK_AFTER_SECONDS = 60


class Transactions:
    """Runs multi-document operations, each completely or not at all.

    The mode "native" uses one MongoDB transaction. "two-phase" uses the book's protocol, for hot documents and very
    large operations. "auto" is native unless a run prefers two-phase. Processes in different modes may change the same
    documents. Steps that change or pass on a unique value use one MongoDB transaction in every mode.

    `timeout_seconds` limits a run. `recover()` waits for `margin_seconds` after a run's deadline, since clocks differ
    between servers, and keeps tombstones for `tombs_for_seconds`.
    """

    def __init__(
        self,
        db: Db,
        mode: Mode = "auto",
        *,
        timeout_seconds: float = 30,
        margin_seconds: float = 5,
        tombs_for_seconds: float = 300,
        keep_keys_seconds: float = records.KEEP_KEYS_SECONDS,
    ) -> None:
        if mode not in get_args(Mode):
            raise ValueError(f"mode must be one of {', '.join(get_args(Mode))}")
        self._db = records.pinned_any_date(db)
        self._mode = mode
        self._constraints = Constraints(self._db)
        self._tombs_for_seconds = tombs_for_seconds
        self._timeout_seconds = timeout_seconds
        self._margin_seconds = margin_seconds
        self._keep_keys_seconds = keep_keys_seconds

    def run(
        self,
        kind: str,
        steps: Steps | Callable[[], Steps],
        *,
        key: str | Key | None = None,
        arguments: Mapping[str, Any] | None = None,
        prefer: Literal["native", "two-phase"] = "native",
    ) -> Outcome:
        """Run all steps or none.

        `steps` may be a callable that builds the steps: it is called again if a step is refused with `Stale`. With a
        `key`, which belongs to its scope and to `kind`, the operation happens once: a repeat with the same `arguments`
        returns the first outcome, even if the callable now raises an error. `prefer` is the mode that "auto" uses.

        Atomic: native: the transaction's commit. Two-phase: the update that changes the record from new to commit.
        After a crash: native: nothing remains. Two-phase: markers and takes, until `recover()` finishes or undoes them.
        Raises: the error of the step that refuses; `WriteRefused`; `Busy`; `KeyReused`; `StillRunning`; `TimedOut`;
        `Unavailable`: if `outcome_unknown` is true, a repeat with the key returns the outcome.
        """
        record = records.key_record(kind, key, arguments)
        mode = prefer if self._mode == "auto" else self._mode
        with operation(self._timeout_seconds):
            until = time.monotonic() + seconds_left() * attempts.SHARE_FOR_WAITING
            while True:
                try:
                    return self._attempt(kind, steps, record, mode, until)
                except Stale:
                    if not callable(steps) or time.monotonic() >= until:
                        raise
                    time.sleep(random.uniform(0, 0.02))

    def _attempt(
        self, kind: str, steps: Steps | Callable[[], Steps], key: records.KeyRecord | None, mode: str, until: float
    ) -> Outcome:
        try:
            built = steps() if callable(steps) else steps
        except SquinneyError:
            if outcome := records.earlier_outcome(self._db, key):
                return outcome
            raise
        plan = built if isinstance(built, Plan) else Plan(built)
        run = native.run
        if mode == "two-phase" and not self._constraints.need_native(plan.steps):
            run = partial(two_phase.run, margin_seconds=self._margin_seconds)
        return run(self._db, kind, plan, key, until=until, keep_keys_seconds=self._keep_keys_seconds)

    def recover(self) -> Counter[str]:
        """Finish or undo the due runs of crashed processes; return counts by outcome.

        Atomic: each document's own update. Any number of processes may recover concurrently.
        After a crash: the next `recover()` continues.
        """
        counts: Counter[str] = Counter()
        with operation(60):
            now = server_now(self._db)
            for state in records.OPEN_STATES:
                for record in records.DUE.find(self._db, state=state, until=now):
                    counts[self._try_to_settle(record)] += 1
        return counts

    def _try_to_settle(self, record: dict[str, Any]) -> str:
        """Settle one run. If the server rejects its give or undo, log the error, so that the other runs are settled."""
        try:
            return self._settle(record)
        except PyMongoError as error:
            if is_away(error):
                raise
            log.error("transaction %s cannot be settled: %s", record["txn"], getattr(error, "details", None) or error)
            return "failed"

    def _settle(self, record: dict[str, Any]) -> str:
        if record["state"] == "commit":
            recovery.finish(self._db, record, self._keep_keys_seconds)
            return "finished"
        if record["state"] == "tombs":
            recovery.sweep_tombs(self._db, record)
            return "swept"
        recovery.roll_back(self._db, record, tombs_for_seconds=self._tombs_for_seconds)
        return "rolled back"


def find_stuck(db: Db) -> Iterator[Problem]:
    """Yield runs that `recover()` should have settled a minute ago: it does not run, or a give or undo fails."""
    db = records.pinned_any_date(db)
    overdue = server_now(db) - timedelta(seconds=STUCK_AFTER_SECONDS)
    for state in records.OPEN_STATES:
        for record in records.DUE.find(db, state=state, until=overdue):
            yield Problem(
                "stuck-transaction",
                f"{record['kind']} {record['txn']} has been in state {state} since {record['at']:%Y-%m-%d %H:%M:%S}",
                documents={records.NAME: record["_id"]},
                repairable=True,
            )
