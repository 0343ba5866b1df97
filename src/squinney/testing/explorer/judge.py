"""Judge the result of a schedule: some serial order must give the same, and all checks must pass."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pymongo.errors import ConnectionFailure

from squinney.mongo.schema import Db
from squinney.testing.calls import call, failure_of, one_line, problems_left
from squinney.testing.explorer.actor import Actor, OperationOutcome
from squinney.testing.explorer.operations import LETTERS, Act, Operation
from squinney.testing.explorer.prepared import PreparedDatabase
from squinney.testing.explorer.schedule import Played
from squinney.testing.explorer.serial import Result, SerialOrders, SerialRun
from squinney.testing.explorer.states import Changes, State

UNSETTLED = "settle failed: "
MAX_SHOWN = 20  # documents in the message about a failed check
MAX_LINE_LENGTH = 400
EVEN_ALONE = "even one after the other and without a crash: "


@dataclass(frozen=True)
class Demands:
    """What must hold after each schedule: see `Explorer.explore`."""

    check: Act | None
    problems: Callable[[Db], Iterable[object]] | None
    serial: bool
    values: bool
    tentative: bool
    gives_up: tuple[type[Exception], ...]
    ignored: set[str]


class Judge:
    """Says what is wrong after a schedule. `compared` are the letters of all operations but the `between` ones."""

    def __init__(
        self,
        demands: Demands,
        operations: Sequence[Operation],
        compared: str,
        database: PreparedDatabase,
        note: Callable[[str, OperationOutcome], object],
    ) -> None:
        """`note` is told how each operation ended in the serial orders."""
        self._demands = demands
        self._operations = operations
        self._compared = compared
        self._database = database
        self._note = note
        self._orders = SerialOrders(self._run_serially)
        self._masks = database.masks
        self.gave_up = 0  # schedules in which an operation gave up

    def learn(self) -> None:
        """Run each operation twice, to learn what is random. Do this first."""
        if self._demands.serial:
            self._masks = self._masks.learn(map(self._run_twice, self._compared))

    def wrong(self, played: Played, actors: Sequence[Actor], *, alone: bool) -> str:
        """Return what is wrong, or an empty string. `alone`: the operations ran one after the other, undisturbed."""
        if played.stuck:
            return played.stuck
        for actor in actors[len(self._compared) :]:
            error = actor.outcome.error
            if error and not isinstance(error, self._demands.gives_up) and not is_lost(actor):
                return f"{actor.letter} failed: {one_line(error)}"
        changes, wrong = self._settle_and_check(self._must_settle(played, actors))
        state = self._state(changes)
        comparable = self._demands.serial and not wrong.startswith(UNSETTLED)
        if comparable and (unexplained := self._compare_with_orders(played, actors[: len(self._compared)], state)):
            return unexplained
        if not wrong:
            return ""
        return f"{EVEN_ALONE if alone else ''}{wrong}\n  changed:{_lines(state)}"

    def _must_settle(self, played: Played, actors: Sequence[Actor]) -> bool:
        """Return whether an operation died, lost a reply, stalled or gave up. Otherwise nothing is left to settle."""
        outcomes = [actor.outcome for actor in actors]
        unknown = any(outcome.died or isinstance(outcome.error, self._demands.gives_up) for outcome in outcomes)
        lost = any(actor.lost_reply for actor in actors)
        self._orders.settled = unknown or lost or played.stalled
        return self._orders.settled

    def _settle_and_check(self, settle: bool) -> tuple[Changes, str]:
        """Return the final changes to the database, and what is wrong with them.

        A database that equals one which was settled and checked before is not settled and checked again.
        """
        database = self._database
        changes, wrong = database.changes(), ""
        key = (self._masks.fingerprint(changes), settle, self._demands.problems, self._demands.check)
        if key in database.sound:
            return database.sound[key], ""
        if settle:
            try:
                call(database.settle, database.db, database.prepared)
            except Exception as error:
                return changes, UNSETTLED + one_line(error)
            changes, wrong = self._settle_and_check(False)
        else:
            wrong = self._check()
        if not wrong:
            database.sound[key] = changes
        return changes, wrong

    def _check(self) -> str:
        if left := problems_left(self._demands.problems, self._database.db):
            return left
        if not self._demands.check:
            return ""
        failed = failure_of(self._demands.check, self._database.db, self._database.prepared)
        return f"check failed: {failed}" if failed else ""

    # ---- comparing with serial orders ----

    def _compare_with_orders(self, played: Played, actors: Sequence[Actor], state: State) -> str:
        results = {
            actor.letter: Result("unknown") if is_lost(actor) else self._result(actor.outcome) for actor in actors
        }
        self.gave_up += any(result.kind == "gave up" for result in results.values())

        def before(earlier: str, later: str) -> bool:
            ended = played.ended.get(earlier)
            return ended is not None and ended < played.began.get(later, 0) and results[earlier].kind == "done"

        to_explain = {letter: self._explained(letter, results) for letter in results}
        if self._orders.explain(to_explain, state, before, values=self._demands.values):
            return ""
        concurrent = f"  concurrently: {_told(results)}{_lines(state)}"
        orders = [f"  {name}: {_told(run.results)}{_lines(run.state)}" for name, run in self._orders.runs(results)]
        return "\n".join(["no serial order of the operations gives this result:", concurrent, *orders])

    def _explained(self, letter: str, results: Mapping[str, Result]) -> Result:
        """Return the result, or that it gave up if an operation that was undone later may have caused the refusal."""
        may_be_undone = self._demands.tentative and results[letter].kind == "refused"
        undone = may_be_undone and self._orders.explain_refusal(letter, results)
        return Result("gave up") if undone else results[letter]

    def _result(self, outcome: OperationOutcome) -> Result:
        if outcome.died or getattr(outcome.error, "outcome_unknown", False):
            return Result("unknown")
        if isinstance(outcome.error, self._demands.gives_up):
            return Result("gave up", type(outcome.error).__name__)
        if outcome.error is not None:
            return Result("refused", type(outcome.error).__name__)
        return Result("done", _comparable(self._masks.masked(outcome.value)) if self._demands.values else None)

    def _state(self, changes: Changes) -> State:
        return self._masks.state(changes, self._demands.ignored)

    # ---- running the operations serially ----

    def _run_twice(self, letter: str) -> tuple[Changes, Changes]:
        """Run one operation twice: what differs between the two runs is random and must not be compared."""
        acts = self._acts(letter)
        first, second = (self._database.run_serially(acts, settled=False, number=number)[1] for number in range(2))
        return first, second

    def _run_serially(self, order: Sequence[str], settled: bool) -> SerialRun:
        outcomes, changes = self._database.run_serially(self._acts(order), settled=settled)
        for letter, outcome in zip(order, outcomes, strict=True):
            self._note(letter, outcome)
        return SerialRun(dict(zip(order, map(self._result, outcomes), strict=True)), self._state(changes))

    def _acts(self, order: Sequence[str]) -> list[Act]:
        operations = [self._operations[LETTERS.index(letter)] for letter in order]
        return [operation.alone or operation.act for operation in operations]


def is_lost(actor: Actor) -> bool:
    """Return whether the operation passed on the driver's network error: it may have happened or not."""
    return actor.lost_reply and isinstance(actor.outcome.error, ConnectionFailure)


# ---- the message ----


def _lines(state: State) -> str:
    """List the documents that were added and removed, one per line. Long lists and long documents are cut."""
    counts = [(name, text, count) for name, documents in state.items() for text, count in documents.items()]
    lines = [f"    {_sign(count)} {name} {text}" for name, text, count in sorted(counts)]
    shown = [line if len(line) <= MAX_LINE_LENGTH else line[:MAX_LINE_LENGTH] + "..." for line in lines[:MAX_SHOWN]]
    more = [f"    ... and {len(lines) - MAX_SHOWN} more"] if len(lines) > MAX_SHOWN else []
    return "\n" + "\n".join([*shown, *more] or ["    nothing changed"])


def _sign(count: int) -> str:
    """Return `+` for added and `-` for removed documents, with their number if several are alike."""
    return ("+" if count > 0 else "-") + (f"{abs(count)}" if abs(count) > 1 else "")


def _told(results: Mapping[str, Result]) -> str:
    return ", ".join(f"{letter} {result}" for letter, result in results.items())


def _comparable(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
