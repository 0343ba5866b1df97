"""One exploration: the same operations, schedule after schedule, each judged."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

from pymongo.read_concern import ReadConcern

from squinney.errors import SquinneyError
from squinney.mongo.schema import Db
from squinney.testing.calls import call, failure_of, in_a_line
from squinney.testing.explorer.actor import Actor, Arrival, Outcome
from squinney.testing.explorer.choices import Chooser, written
from squinney.testing.explorer.inside import letting_in
from squinney.testing.explorer.schedule import Played, Schedule
from squinney.testing.explorer.serial import Answer, Order, Serial
from squinney.testing.explorer.stage import Act, Stage
from squinney.testing.explorer.states import Changes, State, came
from squinney.testing.protocol import left_behind, pass_deadlines

__tracebackhide__ = True  # pytest shows the line of the test, then what is wrong; `--full-trace` shows all
LETTERS = "abcdefgh"
LEFT = "left behind: "
UNSETTLED = "settle failed: "


class Refuted(AssertionError):
    """A schedule after which something is wrong; `schedule` plays it again."""

    def __init__(self, message: str, schedule: str) -> None:
        super().__init__(message)
        self.schedule = schedule


@dataclass(frozen=True)
class Operation:
    """An operation with a name; `alone`, if given, is what it must be like: it is run in the serial orders instead."""

    act: Act
    name: str = ""
    alone: Act | None = None


@dataclass(frozen=True)
class Explored:
    """How much was tried. `complete` says that there is no other schedule."""

    schedules: int
    crashes: int
    gave_up: int
    complete: bool
    seconds: float


@dataclass
class Exploration:
    """Plays schedules of these operations and judges them."""

    operations: Sequence[Operation]
    judged: str
    check: Act | None
    problems: Callable[[Db], Iterable[object]] | None
    later: Act
    crashes: int
    stall_seconds: float
    serial: bool
    values: bool
    tentative: bool
    gives_up: tuple[type[Exception], ...]
    inside: Sequence[str]
    ignored: set[str]
    stage: Stage
    actors: Sequence[Actor]
    arrivals: SimpleQueue[Arrival]

    def __post_init__(self) -> None:
        self.played: set[str] = set()
        self._crashed = 0
        self._gave_up = 0
        self._wrote = False
        self._did: set[str] = set()  # operations that came to their end at least once
        self._failed: dict[str, BaseException] = {}  # ... and how the others failed
        self._since = time.monotonic()
        self._orders = Serial(self._run_alone)
        self._masks = self.stage.masks
        if self.serial:
            self._masks = self._masks.learn(map(self._twice, self.judged))

    def explored(self, *, complete: bool) -> Explored:
        spent = time.monotonic() - self._since
        return Explored(len(self.played), self._crashed, self._gave_up, complete, spent)

    def require_meaning(self) -> None:
        """Refuse an exploration that could not have found anything.

        Raises: `AssertionError` where nobody wrote, or where an operation failed in every order.
        """
        for letter, error in self._failed.items():
            if letter not in self._did and not isinstance(error, SquinneyError):
                raise AssertionError(f"{self._name(letter)} failed in every order: {in_a_line(error)}")
        if not self._wrote:
            raise AssertionError("no operation wrote anything: there was nothing to explore")

    # ---- one schedule ----

    def play(self, chooser: Chooser) -> None:
        db, prepared = self.stage.db, self.stage.prepared
        self.stage.restore()
        schedule = Schedule(
            self.actors,
            self.arrivals,
            chooser,
            crashes=self.crashes,
            stall_seconds=self.stall_seconds,
            forget=self._forget,
            pass_time=self._pass_time,
            recover=lambda: call(self.later, db, prepared),
            waits=self._waits,
        )
        acts = [self._bound(operation.act, prepared) for operation in self.operations]
        with letting_in(db, self.inside):
            played = schedule.play(acts, db.name)
        text = written(chooser.steps)
        self._crashed += text not in self.played and any(actor.dead for actor in self.actors)
        self.played.add(text)
        self._wrote = self._wrote or any(actor.wrote for actor in self.actors)
        for actor in self.actors[: len(self.judged)]:
            self._note(actor.letter, actor.outcome)
        if wrong := self._judge(played):
            raise Refuted(self._told(wrong, played, text), text)

    def _note(self, letter: str, outcome: Outcome) -> None:
        if outcome.error:
            self._failed[letter] = outcome.error
        elif not outcome.died:
            self._did.add(letter)

    @staticmethod
    def _bound(act: Act, prepared: Any) -> Callable[[Db], object]:
        return lambda db: call(act, db, prepared)

    def _forget(self, actor: Actor) -> None:
        """What the server does by itself a minute after a death: it ends the open transactions."""
        self.stage.db.client.admin.command("killSessions", [{"id": lsid["id"]} for lsid in actor.open.values()])

    def _waits(self, actor: Actor) -> bool:
        """Whether its command is in the server and cannot go on; inside of commands nobody can tell."""
        if self.inside:
            return True
        asked = {"appName": actor.name, "$or": [{"writeConflicts": {"$gt": 0}}, {"waitingForLock": True}]}
        admin = self.stage.db.client.get_database("admin", read_concern=ReadConcern("local"))
        return any(admin.aggregate([{"$currentOp": {"allUsers": True}}, {"$match": asked}]))

    def _pass_time(self, actor: Actor) -> None:
        if actor.records:
            pass_deadlines(self.stage.db, {"_id": {"$in": actor.records}})

    # ---- judging it ----

    def _judge(self, played: Played) -> str:
        if played.stuck:
            return played.stuck
        for actor in self.actors:
            if actor.open:
                self._forget(actor)
        for actor in self.actors[len(self.judged) :]:
            if actor.outcome.error and not isinstance(actor.outcome.error, self.gives_up):
                return f"{actor.letter} failed: {in_a_line(actor.outcome.error)}"
        changes, wrong = self._left(self._must_settle(played))
        if self.serial and not wrong.startswith((LEFT, UNSETTLED)):
            return self._judge_order(played, self._state(changes)) or wrong
        return wrong

    def _must_settle(self, played: Played) -> bool:
        """Only where somebody died, stood still or was left without an answer: others leave nothing to mend."""
        outcomes = [actor.outcome for actor in self.actors]
        unknown = any(outcome.died or isinstance(outcome.error, self.gives_up) for outcome in outcomes)
        self._orders.settled = unknown or played.stalled
        return self._orders.settled

    def _left(self, settle: bool) -> tuple[Changes, str]:
        """What is left in the end, and what is wrong with it.

        A database like one that was mended and looked at before is not mended and looked at again.
        """
        changes, wrong = self.stage.look(), ""
        key = (self._masks.fingerprint(changes), settle, self.problems, self.check)
        if key in self.stage.sound:
            return self.stage.sound[key], ""
        if settle:
            try:
                call(self.stage.settle, self.stage.db, self.stage.prepared)
            except Exception as error:
                return changes, UNSETTLED + in_a_line(error)
            changes, wrong = self._left(False)
        else:
            wrong = self._wrong_with(changes)
        if not wrong:
            self.stage.sound[key] = changes
        return changes, wrong

    def _wrong_with(self, changes: Changes) -> str:
        before = left_behind(self.stage.documents)
        if left := [one for one in left_behind(came(changes)) if one not in before]:
            return LEFT + "; ".join(left)
        try:
            found = [str(problem) for problem in self.problems(self.stage.db)] if self.problems else []
        except Exception as error:
            return f"problems failed: {in_a_line(error)}"
        if found:
            return "problems: " + "; ".join(found)
        failed = failure_of(self.check, self.stage.db, self.stage.prepared) if self.check else ""
        return f"check failed: {failed}" if failed else ""

    def _judge_order(self, played: Played, state: State) -> str:
        answers = {actor.letter: self._answer(actor.outcome) for actor in self.actors[: len(self.judged)]}
        self._gave_up += any(answer.kind == "gave up" for answer in answers.values())

        def before(one: str, other: str) -> bool:
            return (
                one in played.ended and played.ended[one] < played.began.get(other, 0) and answers[one].kind == "done"
            )

        known = dict(answers)
        if self.tentative:
            refused = [letter for letter, answer in answers.items() if answer.kind == "refused"]
            for letter in refused:
                if self._orders.explains_refusal(letter, answers):
                    known[letter] = Answer("gave up")
        if self._orders.explains(known, state, before, values=self.values):
            return ""
        at_once = f"  at once: {_answers(answers)}{self._changes(state)}"
        orders = [
            f"  {name}: {_answers(order.answers)}{self._changes(order.state)}"
            for name, order in self._orders.states(answers)
        ]
        return "\n".join(["no order explains it:", at_once, *orders])

    def _answer(self, outcome: Outcome) -> Answer:
        if outcome.died or getattr(outcome.error, "outcome_unknown", False):
            return Answer("unknown")
        if isinstance(outcome.error, self.gives_up):
            return Answer("gave up", type(outcome.error).__name__)
        if outcome.error is not None:
            return Answer("refused", type(outcome.error).__name__)
        return Answer("done", _comparable(self._masks.masked(outcome.value)) if self.values else None)

    def _state(self, changes: Changes) -> State:
        return self._masks.state(changes, self.ignored)

    # ---- the operations alone ----

    def _twice(self, letter: str) -> tuple[Changes, Changes]:
        """What the operation leaves in two runs, so that what differs by accident is known."""
        one, other = (self.stage.run_alone(self._acts(letter), settled=False, number=number)[1] for number in range(2))
        return one, other

    def _run_alone(self, order: Sequence[str], settled: bool) -> Order:
        outcomes, changes = self.stage.run_alone(self._acts(order), settled=settled)
        for letter, outcome in zip(order, outcomes, strict=True):
            self._note(letter, outcome)
        return Order(dict(zip(order, map(self._answer, outcomes), strict=True)), self._state(changes))

    def _acts(self, order: Sequence[str]) -> list[Act]:
        operations = [self.operations[LETTERS.index(letter)] for letter in order]
        return [operation.alone or operation.act for operation in operations]

    # ---- telling ----

    @staticmethod
    def _changes(state: State) -> str:
        """What a state has and the prepared one had not, and the other way round."""
        told = [(name, one, count) for name, found in state.items() for one, count in found.items()]
        lines = [f"\n    {_sign(count)} {name} {one}" for name, one, count in sorted(told)]
        return "".join(lines) or "\n    nothing changed"

    def _name(self, letter: str) -> str:
        return f"{letter} {self.operations[LETTERS.index(letter)].name}".rstrip()

    def _told(self, wrong: str, played: Played, text: str) -> str:
        ended = [f"  {self._name(actor.letter)}: {_ended(actor.outcome)}" for actor in self.actors]
        return "\n".join([wrong, *ended, "schedule: " + text, *(f"  {line}" for line in played.trace)])


def _sign(count: int) -> str:
    """Of documents that came or went; how many, where several are alike."""
    return ("+" if count > 0 else "-") + (f"{abs(count)}" if abs(count) > 1 else "")


def _ended(outcome: Outcome) -> str:
    return "died" if outcome.died else in_a_line(outcome.error) if outcome.error else "done"


def _answers(answers: Mapping[str, Answer]) -> str:
    return ", ".join(f"{letter} {answer}" for letter, answer in answers.items())


def _comparable(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
