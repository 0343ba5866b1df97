"""Many operations under the sweep: each is a case, and one test goes through all of them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from pymongo.errors import OperationFailure, PyMongoError

from squinney import assembly
from squinney.mongo import schema
from squinney.mongo.schema import Collection, Db
from squinney.system import System
from squinney.testing.children import preload
from squinney.testing.crash.deaths import WAYS, Way
from squinney.testing.crash.sweep import crash_points
from squinney.testing.emptying import filled
from squinney.testing.protocol import left_behind, pass_deadlines
from squinney.transactions import Mode, Transactions


@dataclass(frozen=True)
class Case:
    """How to prepare, do and check one operation of a system, which is named by its package.

    - `name` is `Class.method`, `package.function` or `job:<name>`; `covers` lists further ones that `act` calls.
    - `prepare(db)` fills the empty collections of the system and returns what the others need (it is pickled).
    - `act(db, mode, state)` does the operation once, in a child process, with `transactions(db, mode)`. Operations
      without `Transactions` take `modes=["native"]`, so that they are not swept twice.
    - `check(db, state)` asserts what must hold afterwards, whether the operation happened or not.
    - `age(db)` lets time pass for what a system waits for: leases, reservations.
    """

    name: str
    system: str
    prepare: Callable[[Db], Any]
    act: Callable[[Db, Mode, Any], object]
    check: Callable[[Db, Any], object]
    modes: Sequence[Mode] = ("native", "two-phase")
    covers: Sequence[str] = ()
    age: Callable[[Db], object] = lambda db: None
    collections: Sequence[Collection] = ()

    def __str__(self) -> str:
        return self.name

    @property
    def all_collections(self) -> list[Collection]:
        """What the case's database must have."""
        return [*assembly.CORE_COLLECTIONS, *self.its_system.collections, *self.collections]

    @property
    def its_system(self) -> System:
        """One of ours by its name, or one from elsewhere by its package."""
        return assembly.system_named(self.system) or assembly.system_in(self.system)


def transactions(db: Db, mode: Mode) -> Transactions:
    """As an operation under the sweep uses them: time enough on a busy machine, for the sweep lets it pass."""
    return Transactions(db, mode, timeout_seconds=20, margin_seconds=1)


class Cases:
    """Those in the lists `CASES` of some modules, which child processes find by their names."""

    def __init__(self, *modules: str) -> None:
        self.modules = modules
        self.by_name = _found(modules)
        preload("squinney.assembly", *modules)

    def __iter__(self) -> Iterator[Case]:
        return iter(self.by_name.values())

    def __len__(self) -> int:
        return len(self.by_name)

    def __contains__(self, case: object) -> bool:
        return case in self.by_name.values()

    def covered(self) -> set[str]:
        """The public operations and jobs that are swept."""
        return {name for case in self for name in (case.name.partition(" ")[0], *case.covers)}

    def sweep(self, case: Case, mode: Mode, way: Way, *, db: Db, socket: Path, every: int = 1) -> int:
        """Let the operation die at each of its writes, or at every n-th, on a database with its collections.

        After each death all deadlines pass, and the core's and the system's jobs run, twice in a row or from two
        threads at once. Then `check` must pass, `find_problems` be empty, and no marker, lock, stub or tombstone be
        left. Returns how many crash points there were.
        """
        act = partial(_act, self.modules, case.name, mode)
        points = 0
        for point, state in crash_points(act, case.prepare, way, db, socket, every=every, empty=partial(_empty, case)):
            points += 1
            try:
                _mend(case, db, together=(point.write + WAYS.index(way)) % 2 == 0)
                _check(case, db, state)
            except BaseException as error:
                error.add_note(f"{case.name}, {mode}: {point}")
                raise
        return points


@cache
def _found(modules: Sequence[str]) -> dict[str, Case]:
    found = [case for name in modules for case in importlib.import_module(name).CASES]
    by_name = {case.name: case for case in found}
    if len(by_name) < len(found):
        raise ValueError("two cases have one name")
    return by_name


def _act(modules: Sequence[str], name: str, mode: Mode, db: Db, state: Any) -> None:
    """Do a case's operation, in a child. An error of the driver's may not get out."""
    try:
        _found(modules)[name].act(db, mode, state)
    except PyMongoError as error:
        raise AssertionError(f"{name} let an error of the driver out") from error


def _empty(case: Case, db: Db) -> None:
    declared = {collection.name: collection for collection in case.all_collections}
    for name in filled(db, declared):
        try:
            db[name].delete_many({})
        except OperationFailure:  # capped and time-series collections
            db.drop_collection(name)
            schema.apply(db, [declared[name]])


def _mend(case: Case, db: Db, *, together: bool) -> None:
    _let_time_pass(case, db)
    if together:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda _: _run_jobs(case, db), range(2)))
    else:
        _run_jobs(case, db)
        _run_jobs(case, db)


def _let_time_pass(case: Case, db: Db) -> None:
    pass_deadlines(db, {})
    case.age(db)


def _run_jobs(case: Case, db: Db) -> None:
    for job in [*assembly.CORE_JOBS, *case.its_system.jobs]:
        job.run(db)


def _check(case: Case, db: Db, state: Any) -> None:
    """The invariants, before and after the time of tombstones; and in the end no trace of the protocol."""
    _require_sound(case, db, state)
    if _left_behind(case, db):
        _let_time_pass(case, db)
        _run_jobs(case, db)
        _require_sound(case, db, state)
        assert _left_behind(case, db) == []


def _require_sound(case: Case, db: Db, state: Any) -> None:
    assert [str(problem) for problem in case.its_system.find_problems(db)] == []
    case.check(db, state)


def _left_behind(case: Case, db: Db) -> list[str]:
    return left_behind({collection.name: list(db[collection.name].find()) for collection in case.all_collections})
