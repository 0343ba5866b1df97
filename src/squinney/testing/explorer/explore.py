"""`Explorer.explore`: plays schedule after schedule and judges each."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Self

from squinney.errors import Unavailable
from squinney.mongo import schema
from squinney.mongo.connect import client_for
from squinney.mongo.schema import Collection, Db
from squinney.testing.calls import call
from squinney.testing.explorer.actor import Actor, Arrival, Outcome
from squinney.testing.explorer.choices import Chooser, Frontier, parsed, written
from squinney.testing.explorer.inside import letting_in
from squinney.testing.explorer.schedule import SLOW_SERVER_SECONDS, Played, Schedule
from squinney.testing.explorer.serial import Answer, Order, Serial
from squinney.testing.explorer.states import Snapshot, State, Touched
from squinney.testing.protocol import RECORDS, Documents, left_behind, pass_deadlines, recover
from squinney.transactions import Busy, StillRunning, Transactions

LETTERS = "abcdefgh"
GIVES_UP = (Busy, StillRunning, Unavailable)

Act = Callable[..., object]


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


class Explorer:
    """Threads, clients and databases on one server, for any number of explorations. Close it, or use it in a `with`."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._touched = Touched()
        self._client = client_for(uri, event_listeners=[self._touched], appname="explorer")
        self._arrivals: SimpleQueue[Arrival] = SimpleQueue()
        self._actors: list[Actor] = []
        self._databases: dict[str, Db] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Drop the databases, and end the threads and clients."""
        for db in self._databases.values():
            self._client.drop_database(db.name)
        for actor in self._actors:
            actor.close()
        self._client.close()

    def explore(
        self,
        operations: Sequence[Act | Operation],
        check: Act | None = None,
        *,
        prepare: Act | None = None,
        collections: Sequence[Collection] = (),
        between: Sequence[Act | Operation] = (),
        problems: Callable[[Db], Iterable[object]] | None = None,
        settle: Act | None = None,
        later: Act | None = None,
        crashes: int = 1,
        stall_seconds: float = 0,
        schedules: int = 200,
        seed: int = 0,
        seconds: float | None = None,
        serial: bool = True,
        values: bool = False,
        tentative: bool = False,
        gives_up: tuple[type[Exception], ...] = GIVES_UP,
        ignored: Sequence[str] = (),
        inside: Sequence[str] = (),
        replay: str = "",
    ) -> Explored:
        """Play up to `schedules` orders of the operations' commands, those with fewest turns first.

        `prepare(db)` fills a database with the `collections`, once. Each operation is called with the database and,
        if it has a second parameter, with what `prepare` returned; so is `check`, which asserts what must hold after
        each schedule. `between` are operations that must not matter: `recover`, `repair`, any reader. Up to `crashes`
        operations die in a schedule, each before any of its commands; `settle` then mends what is left (by default
        `Transactions(db).recover()`, after all deadlines). `later` helps those who wait for a dead one (by default that
        too, after the deadline of the dead one alone). With `stall_seconds` all may stand still for so long once in a
        schedule, so that deadlines pass for operations that then go on.

        After each schedule: nobody waits for ever; no marker, lock, stub or tombstone is left; `problems(db)` finds
        none; `check` passes; and, unless `serial` is False, some order of the operations one after the other gives the
        same state (but for the collections that are `ignored`) and the same refusals, with `values` also the same
        answers. With `tentative` a refusal may also be due to an operation that was under way and came to nothing, as
        where funds are held that are given back. Errors of `gives_up` mean that nothing was done, or where they say
        `outcome_unknown` that it may have been.

        `inside` names collections in whose commands too others may go on, wherever the server lets go of its locks: at
        each document. That is slow, and needs a server of one's own with `enableTestCommands`.

        `replay` plays one schedule, as an earlier exploration wrote it down.

        Raises: `Refuted`, with the schedule that shows what is wrong.
        """
        exploration = _Exploration(
            operations=[_operation(one) for one in (*operations, *between)],
            judged=LETTERS[: len(operations)],
            check=check,
            problems=problems,
            settle=settle or recover,
            later=later or (lambda db: Transactions(db).recover()),
            crashes=crashes,
            stall_seconds=stall_seconds,
            serial=serial,
            values=values,
            tentative=tentative,
            gives_up=gives_up,
            inside=inside,
            ignored={RECORDS, *ignored},
            stage=self._stage(collections, prepare),
            actors=self._first_actors(len(operations) + len(between)),
            arrivals=self._arrivals,
        )
        if replay:
            exploration.play(Chooser(parsed(replay)))
            return exploration.explored(complete=False)
        until = time.monotonic() + (seconds or float("inf"))
        for chooser in Frontier(seed):
            exploration.play(chooser)
            if len(exploration.played) >= schedules or time.monotonic() > until:
                return exploration.explored(complete=False)
        return exploration.explored(complete=True)

    def _stage(self, collections: Sequence[Collection], prepare: Act | None) -> _Stage:
        kind = repr(list(collections))
        if kind not in self._databases:
            self._databases[kind] = self._client[f"explorer_{secrets.token_hex(6)}"]
            schema.apply(self._databases[kind], collections)
        db = self._databases[kind]
        for name in db.list_collection_names(filter={"name": {"$not": {"$regex": "^system\\."}}}):
            db[name].delete_many({})
        return _Stage(db, prepare(db) if prepare else None, self._touched)

    def _first_actors(self, count: int) -> list[Actor]:
        while len(self._actors) < count:
            self._actors.append(Actor(LETTERS[len(self._actors)], self._uri, self._arrivals))
        return self._actors[:count]


def _operation(one: Act | Operation) -> Operation:
    return one if isinstance(one, Operation) else Operation(one, getattr(one, "__name__", ""))


class _Stage:
    """A prepared database that is brought back as it was."""

    def __init__(self, db: Db, prepared: Any, touched: Touched) -> None:
        self.db = db
        self.prepared = prepared
        self.snapshot = Snapshot(db)
        self.touched = touched
        self.touched.names.clear()

    def restore(self, actors: Sequence[Actor]) -> None:
        """As it was before anybody wrote."""
        self.snapshot.restore(self.db, self._written(actors))
        self.touched.names.clear()
        for actor in actors:
            actor.touched.clear()

    def read(self, actors: Sequence[Actor]) -> Documents:
        """As it is now."""
        return self.snapshot.read(self.db, self._written(actors))

    def _written(self, actors: Sequence[Actor]) -> list[str]:
        """The collections that somebody wrote to since it was restored."""
        return sorted(self.touched.names.union(*(actor.touched for actor in actors)))


@dataclass
class _Exploration:
    operations: Sequence[Operation]
    judged: str
    check: Act | None
    problems: Callable[[Db], Iterable[object]] | None
    settle: Act
    later: Act
    crashes: int
    stall_seconds: float
    serial: bool
    values: bool
    tentative: bool
    gives_up: tuple[type[Exception], ...]
    inside: Sequence[str]
    ignored: set[str]
    stage: _Stage
    actors: Sequence[Actor]
    arrivals: SimpleQueue[Arrival]

    def __post_init__(self) -> None:
        self.played: set[str] = set()
        self._crashed = 0
        self._gave_up = 0
        self._since = time.monotonic()
        self._sound: set[str] = set()
        self._orders = Serial(self._run_alone)
        if self.serial:
            for letter in self.judged:
                self._learn(letter)

    def explored(self, *, complete: bool) -> Explored:
        spent = time.monotonic() - self._since
        return Explored(len(self.played), self._crashed, self._gave_up, complete, spent)

    # ---- one schedule ----

    def play(self, chooser: Chooser) -> None:
        db, prepared = self.stage.db, self.stage.prepared
        self.stage.restore(self.actors)
        schedule = Schedule(
            self.actors,
            self.arrivals,
            chooser,
            crashes=self.crashes,
            stall_seconds=self.stall_seconds,
            forget=self._forget,
            pass_time=self._pass_time,
            recover=lambda: call(self.later, db, prepared),
            slow_server_seconds=0 if self.inside else SLOW_SERVER_SECONDS,
        )
        acts = [self._bound(operation.act, prepared) for operation in self.operations]
        with letting_in(db, self.inside):
            played = schedule.play(acts, db.name)
        text = written(chooser.steps)
        self.played.add(text)
        self._crashed += any(actor.dead for actor in self.actors)
        if wrong := self._judge(played):
            raise Refuted(self._told(wrong, played, text), text)

    @staticmethod
    def _bound(act: Act, prepared: Any) -> Callable[[Db], object]:
        return lambda db: call(act, db, prepared)

    def _forget(self, actor: Actor) -> None:
        """What the server does by itself a minute after a death: it ends the open transactions."""
        self.stage.db.client.admin.command("killSessions", [{"id": lsid["id"]} for lsid in actor.open.values()])

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
                return f"{actor.letter} failed: {actor.outcome.error!r}"
        self._settle(played)
        documents = self.stage.read(self.actors)
        before = left_behind(self.stage.snapshot.documents)
        if left := [one for one in left_behind(documents) if one not in before]:
            return "left behind: " + "; ".join(left)
        return (self._judge_order(played, documents) if self.serial else "") or self._judge_state(documents)

    def _settle(self, played: Played) -> None:
        """Only where somebody died, stood still or was left without an answer: others leave nothing to mend."""
        self._orders.settled = False
        outcomes = [actor.outcome for actor in self.actors]
        unknown = any(outcome.died or isinstance(outcome.error, self.gives_up) for outcome in outcomes)
        if unknown or played.stalled:
            self._orders.settled = True
            call(self.settle, self.stage.db, self.stage.prepared)

    def _judge_order(self, played: Played, documents: Documents) -> str:
        state = self._state(documents)
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

    def _judge_state(self, documents: Documents) -> str:
        """Not again for a state in which nothing was wrong before."""
        fingerprint = self.stage.snapshot.fingerprint(documents)
        if fingerprint in self._sound:
            return ""
        if self.problems and (found := [str(problem) for problem in self.problems(self.stage.db)]):
            return "problems: " + "; ".join(found)
        if self.check:
            try:
                call(self.check, self.stage.db, self.stage.prepared)
            except Exception as error:
                return f"check failed: {error!r}"
        self._sound.add(fingerprint)
        return ""

    def _answer(self, outcome: Outcome) -> Answer:
        if outcome.died or getattr(outcome.error, "outcome_unknown", False):
            return Answer("unknown")
        if isinstance(outcome.error, self.gives_up):
            return Answer("gave up", type(outcome.error).__name__)
        if outcome.error is not None:
            return Answer("refused", type(outcome.error).__name__)
        return Answer("done", _comparable(self.stage.snapshot.masked(outcome.value)) if self.values else None)

    def _state(self, documents: Documents) -> State:
        judged = {name: found for name, found in documents.items() if name not in self.ignored}

        return self.stage.snapshot.state(judged)

    def _learn(self, letter: str) -> None:
        """Run the operation twice, so that what differs by accident is known."""
        left = []
        for _ in range(2):
            self._run_alone(letter, False)
            left.append(self.stage.read(self.actors))
        self.stage.snapshot.learn(*left)

    def _run_alone(self, order: Sequence[str], settled: bool) -> Order:
        self.stage.restore(self.actors)
        db, prepared = self.stage.db, self.stage.prepared
        answers = {}
        for letter in order:
            operation = self.operations[LETTERS.index(letter)]
            try:
                outcome = Outcome(call(operation.alone or operation.act, db, prepared))
            except Exception as error:
                outcome = Outcome(error=error)
            answers[letter] = self._answer(outcome)
        if settled:
            call(self.settle, db, prepared)
        return Order(answers, self._state(self.stage.read(self.actors)))

    # ---- telling ----

    def _changes(self, state: State) -> str:
        """What a state has and the prepared one had not, and the other way round."""
        before = self._state(self.stage.snapshot.documents)
        lines = [
            f"\n    + {name} {one}" for name, found in state.items() for one in found if one not in before.get(name, ())
        ]
        lines += [
            f"\n    - {name} {one}" for name, had in before.items() for one in had if one not in state.get(name, ())
        ]
        return "".join(lines) or "\n    nothing changed"

    def _told(self, wrong: str, played: Played, text: str) -> str:
        names = {actor.letter: one.name for actor, one in zip(self.actors, self.operations, strict=True)}
        ended = [f"  {actor.letter} {names[actor.letter]}: {_ended(actor.outcome)}" for actor in self.actors]
        return "\n".join([wrong, *ended, "schedule: " + text, *(f"  {line}" for line in played.trace)])


def _ended(outcome: Outcome) -> str:
    return "died" if outcome.died else repr(outcome.error) if outcome.error else "done"


def _answers(answers: Mapping[str, Answer]) -> str:
    return ", ".join(f"{letter} {answer}" for letter, answer in answers.items())


def _comparable(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
