"""`Explorer`: check the arguments of `explore`, and play the schedules that they ask for."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from queue import SimpleQueue
from typing import Self

from squinney.errors import Unavailable
from squinney.mongo import schema
from squinney.mongo.connect import client_for
from squinney.mongo.schema import Collection, Db
from squinney.testing.async_operations import AsyncCaller
from squinney.testing.calls import require_collections, require_functions, require_list
from squinney.testing.emptying import EmptyDatabase
from squinney.testing.explorer.actor import Actor, Arrival
from squinney.testing.explorer.choices import Chooser, Frontier, Steps, format_schedule, parse_schedule
from squinney.testing.explorer.judge import Demands
from squinney.testing.explorer.operations import LETTERS, Act, Operation, operations_of
from squinney.testing.explorer.prepared import NeverEnds, PreparedDatabase
from squinney.testing.explorer.recording import Recording
from squinney.testing.explorer.results import Explored, NotControlled, Refuted
from squinney.testing.explorer.separate_processes import as_separate_processes
from squinney.testing.explorer.trial import Disturbances, Trial
from squinney.testing.explorer.written_collections import WrittenCollections
from squinney.transactions import KEYS, Busy

__tracebackhide__ = True  # pytest shows the line of the test and the message; `--full-trace` shows every frame
GIVES_UP = (Busy, Unavailable)


class Explorer:
    """Threads, clients and databases for any number of calls of `explore`. Close it, or use it in a `with`.

    It can be called like its method `explore`: the fixture `explore` is an `Explorer`. `count` gets the number of
    schedules of each call. With `records`, a `Refuted` has a `recording`, and so has a replay.
    """

    def __init__(
        self, uri: str, *, count: Callable[[int], object] = lambda schedules: None, records: bool = False
    ) -> None:
        self._uri = uri
        self.records = records
        self.recording: Recording | None = None  # of the last replay
        self.on_refuted: Callable[[Refuted], object] = lambda refuted: None
        self._count = count
        self._written = WrittenCollections()
        self._client = client_for(uri, event_listeners=[self._written], appname="explorer")
        self._asynchronous = self._async_caller()
        self._arrivals: SimpleQueue[Arrival] = SimpleQueue()
        self._actors: list[Actor] = []
        self._databases: dict[str, EmptyDatabase] = {}
        self._prepared: dict[str, PreparedDatabase] = {}
        self._last: PreparedDatabase | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop the databases, end the threads and close the clients."""
        for database in self._databases.values():
            self._client.drop_database(database.db.name)
        for actor in self._actors:
            actor.close()
        self._asynchronous.close()
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
        lost_replies: int | None = None,
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
        threads_in_turn: bool = False,
        replay: str = "",
    ) -> Explored:
        """Play up to `schedules` orders of the operations' commands, those with the fewest switches first.

        - `prepare(db)` fills a database that has the `collections`, once. Each operation, and `check`, is called with
          the database and, if it has a second parameter, with what `prepare` returned. An operation that is an
          `async def` gets the database of an `AsyncMongoClient`.
        - `between` are operations that must not affect the result: `repair`, any reader.
        - Up to `crashes` operations die in a schedule, each before any one of its commands. Afterwards `settle` does
          what your jobs do after a crash (by default nothing: a transaction leaves nothing).
        - Up to `lost_replies` writes in a schedule, by default `crashes`, lose their reply: the operation gets the
          driver's network error, and may send the write again. If it raises that error, it may have happened or not.
        - `later` runs when an operation waits for a dead one: what your jobs do as time passes.
        - With `stall_seconds` all operations may stop for this time once in a schedule, so that deadlines expire for
          operations that then continue.
        - `seconds` limits the time; `seed` decides which schedules are played first.

        After each schedule no operation may wait forever; `problems(db)`
        must find nothing; and `check` must pass. Unless `serial` is False, some order of the operations, one after the
        other, must give the same state (except for the collections that are `ignored`) and the same refusals; with
        `values` also the same return values. With `tentative` a refusal may also be caused by an operation that was
        undone later, such as one that held funds and returned them. Errors of the types `gives_up` mean that nothing
        was changed; with `outcome_unknown`, that something may have been changed.

        `inside` names collections. Other operations then also run within commands on these collections, whenever the
        server yields its locks: at each document. That is slow, and needs an exclusive server with
        `enableTestCommands`.

        The explorer cannot hold commands of threads that an operation starts, or of a client that it makes, and refuses
        an operation that does so, or that writes to another database.
        With `threads_in_turn` the work that it gives to a `ThreadPoolExecutor` runs in its own thread, at once: so only
        orders with other operations are tried, not those between its threads, and the result is never `complete`.

        `replay` plays only one schedule: the `schedule` of an earlier `Refuted`.

        Raises: `Refuted`, with the schedule after which something is wrong; `AssertionError` if the schedules cannot
        show a fault, because no operation writes, or one always fails, never ends, catches its own death, writes to
        another database, or sends commands in threads or by a client of its own; `TypeError` and `ValueError` for
        unusable arguments, and if `replay` is not a schedule of these operations.
        """
        all_operations = operations_of(operations, between)
        require_functions(prepare=prepare, check=check, settle=settle, later=later, problems=problems)
        lost_replies = crashes if lost_replies is None else lost_replies
        _require_numbers(schedules, crashes, lost_replies, stall_seconds, seconds)
        require_collections(collections)
        require_list("inside", inside, "names of collections")
        steps = parse_schedule(replay, LETTERS[: len(all_operations)])
        try:
            trial = Trial(
                all_operations,
                len(operations),
                Demands(check, problems, serial, values, tentative, gives_up, ignored={KEYS, *ignored}),
                Disturbances(crashes, lost_replies, stall_seconds, later or _nothing, inside),
                database=self._prepared_database(collections, prepare, settle or _nothing),
                actors=self._first_actors(len(all_operations)),
                arrivals=self._arrivals,
            )
            with as_separate_processes(threads_in_turn=threads_in_turn):
                trial.learn()
                if self.records and steps:
                    self.recording = trial.record(replay)
                try:
                    played = _replay(trial, steps) if steps else _play_all(trial, schedules, seed, seconds)
                except Refuted as refuted:
                    if self.records:
                        refuted.recording = trial.record(refuted.schedule)
                    self.on_refuted(refuted)
                    raise
        except (NeverEnds, NotControlled):
            self._abandon()
            raise
        self._count(played.schedules)
        return played

    __call__ = explore

    def _abandon(self) -> None:
        """Use other databases and clients from now on, since an operation may still run with the current ones."""
        self._databases.clear()
        self._prepared.clear()
        self._last = None
        for actor in self._actors:
            actor.close()
        self._actors.clear()
        self._asynchronous.close()
        self._asynchronous = self._async_caller()

    def _async_caller(self) -> AsyncCaller:
        return AsyncCaller(self._uri, event_listeners=[self._written], appname="explorer")

    def _prepared_database(
        self, collections: Sequence[Collection], prepare: Act | None, settle: Act
    ) -> PreparedDatabase:
        kind = repr(list(collections))
        if kind not in self._databases:
            db = self._client[f"explorer_{os.getpid()}_{secrets.token_hex(6)}"]
            schema.apply(db, collections)
            self._databases[kind] = EmptyDatabase(db, collections)
        if self._last:
            self._last.changes()  # the collections recorded as written belong to the last database
        if kind not in self._prepared or not self._prepared[kind].is_usable(prepare, settle):
            self._prepared.pop(kind, None)  # if `prepare` fails now, no later call may use what is left
            self._databases[kind].restore()
            db, asynchronous = self._databases[kind].db, self._asynchronous
            self._prepared[kind] = PreparedDatabase(db, asynchronous, prepare, settle, self._written)
        self._last = self._prepared[kind]
        return self._last

    def _first_actors(self, count: int) -> list[Actor]:
        while len(self._actors) < count:
            self._actors.append(Actor(LETTERS[len(self._actors)], self._uri, self._arrivals, self._written))
        return self._actors[:count]


def _play_all(trial: Trial, schedules: int, seed: int, seconds: float | None) -> Explored:
    complete = True
    until = time.monotonic() + (float("inf") if seconds is None else seconds)
    for chooser in Frontier(seed):
        trial.play(chooser)
        if trial.schedules >= schedules or time.monotonic() > until:
            complete = False
            break
    trial.require_meaningful()
    return trial.explored(complete=complete)


def _replay(trial: Trial, steps: Steps) -> Explored:
    chooser = Chooser(steps)
    trial.play(chooser)
    if not chooser.followed:
        wanted, played = format_schedule(steps), format_schedule(chooser.steps)
        raise ValueError(f"the schedule {wanted!r} is not possible: the operations ran as {played!r}")
    return trial.explored(complete=False)


def _nothing(db: Db) -> None:
    """Settle nothing."""


def _require_numbers(
    schedules: int, crashes: int, lost_replies: int, stall_seconds: float, seconds: float | None
) -> None:
    lowest = {"schedules": (schedules, 1), "crashes": (crashes, 0), "lost_replies": (lost_replies, 0)}
    times = {"stall_seconds": (stall_seconds, 0), "seconds": (0 if seconds is None else seconds, 0)}
    for name, (value, least) in {**lowest, **times}.items():
        if value < least:
            raise ValueError(f"{name} must be at least {least}, not {value!r}")
