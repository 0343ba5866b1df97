"""`Explorer.explore`: plays schedule after schedule and judges each."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from queue import SimpleQueue
from types import TracebackType
from typing import Self

from squinney.errors import Unavailable
from squinney.mongo import schema
from squinney.mongo.connect import client_for
from squinney.mongo.schema import Collection, Db
from squinney.testing.calls import require_collections, require_function, require_list
from squinney.testing.explorer.actor import Actor, Arrival, as_processes
from squinney.testing.explorer.choices import Chooser, Frontier, Steps, parsed, written
from squinney.testing.explorer.exploration import LETTERS, Exploration, Explored, Operation
from squinney.testing.explorer.stage import Act, NeverEnds, Stage
from squinney.testing.explorer.touched import Touched
from squinney.testing.protocol import RECORDS, recover
from squinney.transactions import Busy, StillRunning, Transactions

__tracebackhide__ = True  # pytest shows the line of the test, then what is wrong; `--full-trace` shows all
GIVES_UP = (Busy, StillRunning, Unavailable)


class Explorer:
    """Threads, clients and databases on one server, for any number of explorations. Close it, or use it in a `with`."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._touched = Touched()
        self._client = client_for(uri, event_listeners=[self._touched], appname="explorer")
        self._arrivals: SimpleQueue[Arrival] = SimpleQueue()
        self._actors: list[Actor] = []
        self._databases: dict[str, Db] = {}
        self._stages: dict[str, Stage] = {}
        self._last: Stage | None = None

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

        Raises: `Refuted`, with the schedule that shows what is wrong; `AssertionError` where that could not have been
        seen: nobody writes, or an operation always fails or never ends; `TypeError` and `ValueError` for what cannot be
        explored, and where `replay` is no schedule of these operations.
        """
        everybody = _operations(operations, between)
        _require_usable(prepare, check, settle, later, problems)
        _require_numbers(schedules, crashes, stall_seconds, seconds)
        require_collections(collections)
        require_list("inside", inside, "names of collections")
        steps = parsed(replay, LETTERS[: len(everybody)])
        try:
            exploration = Exploration(
                operations=everybody,
                judged=LETTERS[: len(operations)],
                check=check,
                problems=problems,
                later=later or (lambda db: Transactions(db).recover()),
                crashes=crashes,
                stall_seconds=stall_seconds,
                serial=serial,
                values=values,
                tentative=tentative,
                gives_up=gives_up,
                inside=inside,
                ignored={RECORDS, *ignored},
                stage=self._stage(collections, prepare, settle or recover),
                actors=self._first_actors(len(everybody)),
                arrivals=self._arrivals,
            )
            with as_processes():
                return _replay(exploration, steps) if steps else _play_all(exploration, schedules, seed, seconds)
        except NeverEnds:
            self._abandon()
            raise

    def _abandon(self) -> None:
        """Leave the databases to an operation that still runs, and take others."""
        self._databases.clear()
        self._stages.clear()
        self._last = None

    def _stage(self, collections: Sequence[Collection], prepare: Act | None, settle: Act) -> Stage:
        kind = repr(list(collections))
        if kind not in self._databases:
            self._databases[kind] = self._client[f"explorer_{secrets.token_hex(6)}"]
            schema.apply(self._databases[kind], collections)
        if self._last:
            self._last.look()  # what was written last was written there
        if kind not in self._stages or not self._stages[kind].serves(prepare, settle):
            _empty(self._databases[kind])
            self._stages[kind] = Stage(self._databases[kind], prepare, settle, self._touched)
        self._last = self._stages[kind]
        return self._last

    def _first_actors(self, count: int) -> list[Actor]:
        while len(self._actors) < count:
            self._actors.append(Actor(LETTERS[len(self._actors)], self._uri, self._arrivals, self._touched))
        return self._actors[:count]


def _empty(db: Db) -> None:
    for name in db.list_collection_names(filter={"name": {"$not": {"$regex": "^system\\."}}}):
        db[name].delete_many({})


def _play_all(exploration: Exploration, schedules: int, seed: int, seconds: float | None) -> Explored:
    complete = True
    until = time.monotonic() + (float("inf") if seconds is None else seconds)
    for chooser in Frontier(seed):
        exploration.play(chooser)
        if len(exploration.played) >= schedules or time.monotonic() > until:
            complete = False
            break
    exploration.require_meaning()
    return exploration.explored(complete=complete)


def _replay(exploration: Exploration, steps: Steps) -> Explored:
    chooser = Chooser(steps)
    exploration.play(chooser)
    if not chooser.followed:
        raise ValueError(f"the operations could not follow {written(steps)!r}: they went {written(chooser.steps)!r}")
    return exploration.explored(complete=False)


def _operations(operations: Sequence[Act | Operation], between: Sequence[Act | Operation]) -> list[Operation]:
    """All of them, with their names.

    Raises: `TypeError` and `ValueError`.
    """
    require_list("the operations", operations, "functions, as in explore([move, move], ...)")
    require_list("between", between, "functions")
    found = [
        one if isinstance(one, Operation) else Operation(one, getattr(one, "__name__", ""))
        for one in (*operations, *between)
    ]
    if not operations or len(found) > len(LETTERS):
        raise ValueError(f"explore takes 1 to {len(LETTERS)} operations, not {len(found)}")
    for letter, one in zip(LETTERS, found, strict=False):
        require_function(f"operation {letter} {one.name}".rstrip(), one.act)
        if one.alone is not None:
            require_function(f"alone of operation {letter} {one.name}".rstrip(), one.alone)
    return found


def _require_usable(
    prepare: Act | None, check: Act | None, settle: Act | None, later: Act | None, problems: Act | None
) -> None:
    """Refuse what could not be called, before anything runs."""
    optional = {"prepare": (prepare, 1), "check": (check, 2), "settle": (settle, 2), "later": (later, 2)}
    for name, (act, arguments) in {**optional, "problems": (problems, 1)}.items():
        if act is not None:
            require_function(name, act, arguments=arguments)


def _require_numbers(schedules: int, crashes: int, stall_seconds: float, seconds: float | None) -> None:
    lowest = {"schedules": (schedules, 1), "crashes": (crashes, 0), "stall_seconds": (stall_seconds, 0)}
    for name, (value, least) in {**lowest, "seconds": (0 if seconds is None else seconds, 0)}.items():
        if value < least:
            raise ValueError(f"{name} must be at least {least}, not {value!r}")
