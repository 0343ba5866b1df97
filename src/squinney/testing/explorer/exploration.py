"""One exploration: play the same operations in schedule after schedule, and judge the result of each."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import Any

from pymongo.errors import ConnectionFailure
from pymongo.read_concern import ReadConcern

from squinney.errors import SquinneyError
from squinney.mongo.schema import Db
from squinney.testing.calls import call, failure_of, found_by, one_line
from squinney.testing.effects import in_vain
from squinney.testing.emptying import collection_names
from squinney.testing.explorer.actor import Actor, Arrival, Outcome
from squinney.testing.explorer.choices import Chooser, format_schedule, is_serial, parse_schedule
from squinney.testing.explorer.lock_yields import yielding_locks
from squinney.testing.explorer.prepared import Act, PreparedDatabase
from squinney.testing.explorer.recording import Recorder, Recording, shown
from squinney.testing.explorer.schedule import Played, Schedule
from squinney.testing.explorer.serial import Result, SerialOrders, SerialRun
from squinney.testing.explorer.states import Changes, State
from squinney.transactions import KEYS

__tracebackhide__ = True  # pytest shows the line of the test and the message; `--full-trace` shows every frame
LETTERS = "abcdefgh"
UNSETTLED = "settle failed: "
MAX_SHOWN = 20  # documents in the message about a failed check
MAX_LINE_LENGTH = 400
EVEN_ALONE = "even one after the other and without a crash: "


class Refuted(AssertionError):
    """Something is wrong after a schedule. Pass `schedule` as `replay` to play it again.

    An `Explorer` that records adds the `recording` of it: every command, and the documents after it.
    """

    def __init__(self, message: str, schedule: str) -> None:
        super().__init__(message)
        self.schedule = schedule
        self.recording: Recording | None = None


class NotHeld(AssertionError):
    """An operation sent a command that no schedule can hold: in a thread, or by a client, of its own."""


@dataclass(frozen=True)
class Operation:
    """An operation with a name. `alone`, if given, runs instead of `act` in the serial orders it is compared with."""

    act: Act
    name: str = ""
    alone: Act | None = None


@dataclass(frozen=True)
class Explored:
    """How many schedules were played; in how many an operation died, or lost a reply, or gave up.

    `complete`: all possible schedules were played.
    """

    schedules: int
    crashes: int
    lost_replies: int
    gave_up: int
    complete: bool
    seconds: float


@dataclass
class Exploration:
    """Plays schedules of these operations and judges them. `judged` are the letters of all but the `between` ones."""

    operations: Sequence[Operation]
    judged: str
    check: Act | None
    problems: Callable[[Db], Iterable[object]] | None
    later: Act
    crashes: int
    lost_replies: int
    stall_seconds: float
    serial: bool
    values: bool
    tentative: bool
    gives_up: tuple[type[Exception], ...]
    inside: Sequence[str]
    ignored: set[str]
    database: PreparedDatabase
    actors: Sequence[Actor]
    arrivals: SimpleQueue[Arrival]

    def __post_init__(self) -> None:
        self.played: set[str] = set()
        self._crashed = 0
        self._lost_replies = 0
        self._gave_up = 0
        self._in_turn = False  # whether threads of an operation ran one after the other
        self._wrote = False
        self._changed = False  # whether one of the writes changed a document
        self._written: set[str] = set()  # the collections that completed operations wrote to
        self._completed: set[str] = set()  # operations that completed at least once
        self._failed: dict[str, BaseException] = {}  # by operation, its last error
        self._since = time.monotonic()
        self._orders = SerialOrders(self._run_serially)
        self._masks = self.database.masks

    def learn(self) -> None:
        """Run each operation twice, to learn what is random. Do this first."""
        if self.serial:
            self._masks = self._masks.learn(map(self._run_twice, self.judged))

    def explored(self, *, complete: bool) -> Explored:
        seconds = time.monotonic() - self._since
        complete = complete and not self._in_turn
        return Explored(len(self.played), self._crashed, self._lost_replies, self._gave_up, complete, seconds)

    def require_meaningful(self) -> None:
        """Refuse an exploration that could not have found anything.

        Raises: `AssertionError` if no operation wrote, if those that completed changed no document, or if one of
        them failed in every order.
        """
        for letter, error in self._failed.items():
            if letter not in self._completed and not isinstance(error, SquinneyError):
                raise AssertionError(f"{self._name(letter)} failed in every order: {one_line(error)}")
        if not self._wrote:
            failed = [f"{self._name(letter)}: {one_line(error)}" for letter, error in sorted(self._failed.items())]
            raise AssertionError("; ".join(["no operation wrote anything, so there was nothing to explore", *failed]))
        if self._written and not self._changed:  # an operation that was refused at its write has an answer
            filled = [name for name, documents in self.database.documents.items() if documents]
            raise AssertionError(in_vain("the operations", self._written, filled))

    def require_control(self) -> None:
        """Refuse operations that send commands in threads or by clients of their own: no schedule chose their order.

        Raises: `NotHeld`.
        """
        for actor in self.actors:
            actor.wait_for_threads()
            if actor.strays:
                raise NotHeld(f"{self._name(actor.letter)} {actor.strays[0]}")

    # ---- playing one schedule ----

    def record(self, schedule: str) -> Recording:
        """Play a schedule once more, with recording on."""
        self.database.restore()
        names = {letter: self._name(letter) for letter in LETTERS[: len(self.operations)]}
        recorder = Recorder(schedule, names, self._all_documents)
        wrong = ""
        try:
            self.play(Chooser(parse_schedule(schedule, "".join(names))), recorder)
        except Refuted as refuted:
            wrong = str(refuted).partition("\nschedule: ")[0]
        return recorder.finished(wrong)

    def _all_documents(self) -> dict[str, str]:
        db = self.database.db
        return shown({name: db[name].find().limit(MAX_SHOWN) for name in collection_names(db) if name != KEYS})

    def play(self, chooser: Chooser, recorder: Recorder | None = None) -> None:
        db, prepared = self.database.db, self.database.prepared
        self.database.restore()
        schedule = Schedule(
            self.actors,
            self.arrivals,
            chooser,
            crashes=self.crashes,
            lost_replies=self.lost_replies,
            stall_seconds=self.stall_seconds,
            abort=self._abort,
            recover=lambda: call(self.later, db, prepared),
            is_blocked=self._is_blocked,
            recorder=recorder,
        )
        acts = [partial(call, operation.act, prepared=prepared) for operation in self.operations]
        with yielding_locks(db, self.inside):
            played = schedule.play(acts, db.name)
        self.require_control()
        text = format_schedule(chooser.steps)
        if text not in self.played:
            self._crashed += any(actor.dead for actor in self.actors)
            self._lost_replies += any(actor.lost_reply for actor in self.actors)
        self.played.add(text)
        for actor in self.actors:
            self._note_effects(actor)
            self._in_turn = self._in_turn or actor.gave_work_away
        for actor in (one for one in self.actors[: len(self.judged)] if not _is_lost(one)):
            self._note(actor.letter, actor.outcome)
        if wrong := self._judge(played, alone=is_serial(chooser.steps)):
            raise Refuted(self._message(wrong, played, text), text)

    def _note(self, letter: str, outcome: Outcome) -> None:
        if outcome.error:
            self._failed[letter] = outcome.error
        elif not outcome.died:
            self._completed.add(letter)

    def _note_effects(self, actor: Actor) -> None:
        effects, outcome = actor.effects, actor.outcome
        self._wrote = self._wrote or bool(effects.collections)
        self._changed = self._changed or effects.changed
        if not outcome.error and not outcome.died:
            self._written |= effects.collections

    def _abort(self, actor: Actor) -> None:
        """End the actor's open transactions. The server would do so a minute after a death."""
        self.database.db.client.admin.command("killSessions", [{"id": lsid["id"]} for lsid in actor.open.values()])

    def _is_blocked(self, actor: Actor) -> bool:
        """Return whether the server cannot continue the actor's command. With `inside` that is unknown: assume so."""
        if self.inside:
            return True
        blocked = {"appName": actor.name, "$or": [{"writeConflicts": {"$gt": 0}}, {"waitingForLock": True}]}
        admin = self.database.db.client.get_database("admin", read_concern=ReadConcern("local"))
        return any(admin.aggregate([{"$currentOp": {"allUsers": True}}, {"$match": blocked}]))

    # ---- judging its result ----

    def _judge(self, played: Played, *, alone: bool) -> str:
        if played.stuck:
            return played.stuck
        for actor in self.actors:
            if actor.open:
                self._abort(actor)
        for actor in self.actors[len(self.judged) :]:
            if actor.outcome.error and not isinstance(actor.outcome.error, self.gives_up) and not _is_lost(actor):
                return f"{actor.letter} failed: {one_line(actor.outcome.error)}"
        changes, wrong = self._settle_and_check(self._must_settle(played))
        comparable = self.serial and not wrong.startswith(UNSETTLED)
        if comparable and (unexplained := self._compare_with_orders(played, self._state(changes))):
            return unexplained
        if not wrong:
            return ""
        return f"{EVEN_ALONE if alone else ''}{wrong}\n  changed:{_bounded(self._changes(self._state(changes)))}"

    def _must_settle(self, played: Played) -> bool:
        """Return whether an operation died, lost a reply, stalled or gave up. Otherwise nothing is left to settle."""
        outcomes = [actor.outcome for actor in self.actors]
        unknown = any(outcome.died or isinstance(outcome.error, self.gives_up) for outcome in outcomes)
        lost = any(actor.lost_reply for actor in self.actors)
        self._orders.settled = unknown or lost or played.stalled
        return self._orders.settled

    def _settle_and_check(self, settle: bool) -> tuple[Changes, str]:
        """Return the final changes to the database, and what is wrong with them.

        A database that equals one which was settled and checked before is not settled and checked again.
        """
        database = self.database
        changes, wrong = database.changes(), ""
        key = (self._masks.fingerprint(changes), settle, self.problems, self.check)
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
        if found := found_by(self.problems, self.database.db):
            return found
        failed = failure_of(self.check, self.database.db, self.database.prepared) if self.check else ""
        return f"check failed: {failed}" if failed else ""

    def _compare_with_orders(self, played: Played, state: State) -> str:
        results = {
            actor.letter: Result("unknown") if _is_lost(actor) else self._result(actor.outcome)
            for actor in self.actors[: len(self.judged)]
        }
        self._gave_up += any(result.kind == "gave up" for result in results.values())

        def before(one: str, other: str) -> bool:
            return (
                one in played.ended and played.ended[one] < played.began.get(other, 0) and results[one].kind == "done"
            )

        to_explain = dict(results)
        if self.tentative:
            refused = [letter for letter, result in results.items() if result.kind == "refused"]
            for letter in refused:
                if self._orders.explain_refusal(letter, results):
                    to_explain[letter] = Result("gave up")
        if self._orders.explain(to_explain, state, before, values=self.values):
            return ""
        concurrent = f"  concurrently: {_results(results)}{self._changes(state)}"
        orders = [
            f"  {name}: {_results(run.results)}{self._changes(run.state)}" for name, run in self._orders.runs(results)
        ]
        return "\n".join(["no serial order of the operations gives this result:", concurrent, *orders])

    def _result(self, outcome: Outcome) -> Result:
        if outcome.died or getattr(outcome.error, "outcome_unknown", False):
            return Result("unknown")
        if isinstance(outcome.error, self.gives_up):
            return Result("gave up", type(outcome.error).__name__)
        if outcome.error is not None:
            return Result("refused", type(outcome.error).__name__)
        return Result("done", _comparable(self._masks.masked(outcome.value)) if self.values else None)

    def _state(self, changes: Changes) -> State:
        return self._masks.state(changes, self.ignored)

    # ---- running the operations serially ----

    def _run_twice(self, letter: str) -> tuple[Changes, Changes]:
        """Run one operation twice: what differs between the two runs is random and must not be compared."""
        acts = self._acts(letter)
        one, other = (self.database.run_serially(acts, settled=False, number=number)[1] for number in range(2))
        return one, other

    def _run_serially(self, order: Sequence[str], settled: bool) -> SerialRun:
        outcomes, changes = self.database.run_serially(self._acts(order), settled=settled)
        for letter, outcome in zip(order, outcomes, strict=True):
            self._note(letter, outcome)
        return SerialRun(dict(zip(order, map(self._result, outcomes), strict=True)), self._state(changes))

    def _acts(self, order: Sequence[str]) -> list[Act]:
        operations = [self.operations[LETTERS.index(letter)] for letter in order]
        return [operation.alone or operation.act for operation in operations]

    # ---- the error message ----

    @staticmethod
    def _changes(state: State) -> str:
        """List the documents that were added and removed, one per line."""
        counts = [(name, one, count) for name, found in state.items() for one, count in found.items()]
        lines = [f"\n    {_sign(count)} {name} {one}" for name, one, count in sorted(counts)]
        return "".join(lines) or "\n    nothing changed"

    def _name(self, letter: str) -> str:
        return f"{letter} {self.operations[LETTERS.index(letter)].name}".rstrip()

    def _message(self, wrong: str, played: Played, text: str) -> str:
        ended = [f"  {self._name(actor.letter)}: {_ended(actor.outcome)}" for actor in self.actors]
        return "\n".join([wrong, *ended, "schedule: " + text, *(f"  {line}" for line in played.trace)])


def _bounded(lines: str) -> str:
    """Cut a list of documents, one per line, if it or one of its documents is long."""
    first, *shown = [
        line if len(line) <= MAX_LINE_LENGTH else line[:MAX_LINE_LENGTH] + "..." for line in lines.split("\n")
    ]
    more = [f"    ... and {len(shown) - MAX_SHOWN} more"] if len(shown) > MAX_SHOWN else []
    return "\n".join([first, *shown[:MAX_SHOWN], *more])


def _sign(count: int) -> str:
    """Return `+` for added and `-` for removed documents, with their number if several are alike."""
    return ("+" if count > 0 else "-") + (f"{abs(count)}" if abs(count) > 1 else "")


def _ended(outcome: Outcome) -> str:
    return "died" if outcome.died else one_line(outcome.error) if outcome.error else "done"


def _is_lost(actor: Actor) -> bool:
    """Return whether the operation passed on the driver's network error: it may have happened or not."""
    return actor.lost_reply and isinstance(actor.outcome.error, ConnectionFailure)


def _results(results: Mapping[str, Result]) -> str:
    return ", ".join(f"{letter} {result}" for letter, result in results.items())


def _comparable(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
