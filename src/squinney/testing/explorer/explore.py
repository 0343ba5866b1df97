"""`Explorer`: check the arguments of an exploration and play its schedules."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from queue import SimpleQueue
from typing import Self

from squinney.errors import Unavailable
from squinney.mongo import schema
from squinney.mongo.connect import client_for
from squinney.mongo.schema import Collection, Db
from squinney.testing.calls import require_collections, require_function, require_functions, require_list
from squinney.testing.emptying import collection_names, empty
from squinney.testing.explorer.actor import Actor, Arrival, as_separate_processes
from squinney.testing.explorer.choices import Chooser, Frontier, Steps, format_schedule, parse_schedule
from squinney.testing.explorer.exploration import LETTERS, Exploration, Explored, Operation
from squinney.testing.explorer.prepared import Act, NeverEnds, PreparedDatabase
from squinney.testing.explorer.written_collections import WrittenCollections
from squinney.testing.protocol import RECORDS, recover
from squinney.transactions import Busy, StillRunning, Transactions

__tracebackhide__ = True  # pytest shows the line of the test and the message; `--full-trace` shows every frame
GIVES_UP = (Busy, StillRunning, Unavailable)


class Explorer:
    """Threads, clients and databases for any number of explorations on one server. Close it, or use it in a `with`."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._written = WrittenCollections()
        self._client = client_for(uri, event_listeners=[self._written], appname="explorer")
        self._arrivals: SimpleQueue[Arrival] = SimpleQueue()
        self._actors: list[Actor] = []
        self._databases: dict[str, Db] = {}
        self._prepared: dict[str, PreparedDatabase] = {}
        self._last: PreparedDatabase | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop the databases, end the threads and close the clients."""
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
        """Play up to `schedules` orders of the operations' commands, those with the fewest switches first.

        - `prepare(db)` fills a database that has the `collections`, once. Each operation, and `check`, is called with
          the database and, if it has a second parameter, with what `prepare` returned.
        - `between` are operations that must not affect the result: `recover`, `repair`, any reader.
        - Up to `crashes` operations die in a schedule, each before any one of its commands. Afterwards `settle` repairs
          the database (by default all deadlines expire and `Transactions(db).recover()` runs).
        - `later` runs when an operation waits for a dead one (by default `Transactions(db).recover()`, after the
          deadline of the dead operation).
        - With `stall_seconds` all operations may stop for this time once in a schedule, so that deadlines expire for
          operations that then continue.
        - `seconds` limits the time of the exploration; `seed` decides which schedules are played first.

        After each schedule no operation may wait forever; no marker, lock, stub or tombstone may remain; `problems(db)`
        must find nothing; and `check` must pass. Unless `serial` is False, some order of the operations, one after the
        other, must give the same state (except for the collections that are `ignored`) and the same refusals; with
        `values` also the same return values. With `tentative` a refusal may also be caused by an operation that was
        undone later, such as one that held funds and returned them. Errors of the types `gives_up` mean that nothing
        was changed; with `outcome_unknown`, that something may have been changed.

        `inside` names collections. Other operations then also run within commands on these collections, whenever the
        server yields its locks: at each document. That is slow, and needs an exclusive server with
        `enableTestCommands`.

        `replay` plays only one schedule: the `schedule` of an earlier `Refuted`.

        Raises: `Refuted`, with the schedule after which something is wrong; `AssertionError` if the exploration cannot
        find anything, because no operation writes, or one always fails or never ends; `TypeError` and `ValueError` for
        unusable arguments, and if `replay` is not a schedule of these operations.
        """
        all_operations = _operations(operations, between)
        require_functions(prepare=prepare, check=check, settle=settle, later=later, problems=problems)
        _require_numbers(schedules, crashes, stall_seconds, seconds)
        require_collections(collections)
        require_list("inside", inside, "names of collections")
        steps = parse_schedule(replay, LETTERS[: len(all_operations)])
        try:
            exploration = Exploration(
                operations=all_operations,
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
                database=self._prepared_database(collections, prepare, settle or recover),
                actors=self._first_actors(len(all_operations)),
                arrivals=self._arrivals,
            )
            with as_separate_processes():
                return _replay(exploration, steps) if steps else _play_all(exploration, schedules, seed, seconds)
        except NeverEnds:
            self._abandon()
            raise

    def _abandon(self) -> None:
        """Use other databases from now on, since an operation still runs in the current ones."""
        self._databases.clear()
        self._prepared.clear()
        self._last = None

    def _prepared_database(
        self, collections: Sequence[Collection], prepare: Act | None, settle: Act
    ) -> PreparedDatabase:
        kind = repr(list(collections))
        if kind not in self._databases:
            self._databases[kind] = self._client[f"explorer_{secrets.token_hex(6)}"]
            schema.apply(self._databases[kind], collections)
        if self._last:
            self._last.changes()  # the collections recorded as written belong to the last database
        if kind not in self._prepared or not self._prepared[kind].is_usable(prepare, settle):
            db = self._databases[kind]
            self._prepared.pop(kind, None)  # if `prepare` fails now, no other exploration may use what is left
            empty(db, collection_names(db))
            self._prepared[kind] = PreparedDatabase(db, prepare, settle, self._written)
        self._last = self._prepared[kind]
        return self._last

    def _first_actors(self, count: int) -> list[Actor]:
        while len(self._actors) < count:
            self._actors.append(Actor(LETTERS[len(self._actors)], self._uri, self._arrivals, self._written))
        return self._actors[:count]


def _play_all(exploration: Exploration, schedules: int, seed: int, seconds: float | None) -> Explored:
    complete = True
    until = time.monotonic() + (float("inf") if seconds is None else seconds)
    for chooser in Frontier(seed):
        exploration.play(chooser)
        if len(exploration.played) >= schedules or time.monotonic() > until:
            complete = False
            break
    exploration.require_meaningful()
    return exploration.explored(complete=complete)


def _replay(exploration: Exploration, steps: Steps) -> Explored:
    chooser = Chooser(steps)
    exploration.play(chooser)
    if not chooser.followed:
        wanted, played = format_schedule(steps), format_schedule(chooser.steps)
        raise ValueError(f"the schedule {wanted!r} is not possible: the operations ran as {played!r}")
    return exploration.explored(complete=False)


def _operations(operations: Sequence[Act | Operation], between: Sequence[Act | Operation]) -> list[Operation]:
    """Return all operations as `Operation` objects.

    Raises: `TypeError` and `ValueError`.
    """
    require_list("the operations", operations, "functions, as in explore([move, move], ...)")
    require_list("between", between, "functions")
    found = [
        one if isinstance(one, Operation) else Operation(one, getattr(one, "__name__", ""))
        for one in (*operations, *between)
    ]
    if not operations:
        raise ValueError("explore needs at least one operation")
    if len(found) > len(LETTERS):
        raise ValueError(f"explore takes at most {len(LETTERS)} operations, including `between`, not {len(found)}")
    for letter, one in zip(LETTERS, found, strict=False):
        require_function(f"operation {letter} {one.name}".rstrip(), one.act)
        if one.alone is not None:
            require_function(f"alone of operation {letter} {one.name}".rstrip(), one.alone)
    return found


def _require_numbers(schedules: int, crashes: int, stall_seconds: float, seconds: float | None) -> None:
    lowest = {"schedules": (schedules, 1), "crashes": (crashes, 0), "stall_seconds": (stall_seconds, 0)}
    for name, (value, least) in {**lowest, "seconds": (0 if seconds is None else seconds, 0)}.items():
        if value < least:
            raise ValueError(f"{name} must be at least {least}, not {value!r}")
