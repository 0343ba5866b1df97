"""Crash sweeps of many operations: each operation is a `Case`, and one parametrized test sweeps all of them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from pymongo.errors import PyMongoError

from squinney import assembly
from squinney.mongo.schema import Collection, Db
from squinney.system import System, system_in
from squinney.testing.calls import call
from squinney.testing.children import preload
from squinney.testing.crash.child import WAYS, Way
from squinney.testing.crash.sweep import crash_points
from squinney.testing.emptying import EmptyDatabase


@dataclass(frozen=True)
class Case:
    """One operation to sweep: how to prepare, run and check it.

    - `name` is `Class.method`, `package.function` or `job:<name>`; what differs from another case may follow, as in
      `Shop.buy twice` or `Shop.buy, nothing left`. `covers` lists other operations that `act` calls.
    - `system` is the name of a Squinney system, or the package of your own system.
    - `prepare(db)` fills the empty collections of the system. Its return value is pickled and passed on as `state`.
    - `act(db, state)` runs the operation once, in a child process; `state` may be left out.
    - `check(db, state)` asserts what must hold afterwards, whether the operation happened or not.
    - `age(db)` expires what the system's jobs wait for, such as leases and reservations.
    - `collections` are created in addition to those of the system.
    """

    name: str
    system: str
    prepare: Callable[[Db], Any]
    act: Callable[..., object]
    check: Callable[[Db, Any], object]
    covers: Sequence[str] = ()
    age: Callable[[Db], object] = lambda db: None
    collections: Sequence[Collection] = ()

    def __str__(self) -> str:
        return self.name

    @property
    def all_collections(self) -> list[Collection]:
        """The collections that the case's database must have."""
        return [*assembly.CORE_COLLECTIONS, *self.found_system.collections, *self.collections]

    @property
    def found_system(self) -> System:
        """The `System` that `system` names: one of Squinney's by its name, or another by its package."""
        return assembly.system_named(self.system) or system_in(self.system)


class Cases:
    """The cases in the `CASES` lists of some modules. Child processes import the modules by their names.

    Raises: `ValueError` if a module has no list `CASES` of `Case` objects, or if two cases have the same name.
    """

    def __init__(self, *modules: str) -> None:
        self.modules = modules
        self.by_name = _read_cases(modules)
        preload("squinney.assembly", *modules)

    def __iter__(self) -> Iterator[Case]:
        return iter(self.by_name.values())

    def __len__(self) -> int:
        return len(self.by_name)

    def __contains__(self, case: object) -> bool:
        return case in self.by_name.values()

    def covered(self) -> set[str]:
        """Return the names of the public operations and jobs that the cases sweep."""
        return {name for case in self for name in (case.name.partition(" ")[0].rstrip(","), *case.covers)}

    def sweep(self, case: Case, way: Way, *, db: Db, socket: Path, every: int = 1) -> int:
        """Crash the operation at each of its writes, or at every n-th, and check the database after each crash.

        `db` must have the case's collections. After each crash the core's and the system's jobs run, twice in a
        row or in two threads concurrently. Then `check` must pass, and `find_problems` must find nothing. Returns the
        number of crash points.
        """
        act = partial(_act, self.modules, case.name)
        points = 0
        database = EmptyDatabase(db, case.all_collections)
        for point, state in crash_points(act, case.prepare, way, database, socket, every=every):
            points += 1
            try:
                _recover(case, db, concurrently=(point.write + WAYS.index(way)) % 2 == 0)
                _check(case, db, state)
            except BaseException as error:
                error.add_note(f"{case.name}: {point}")
                raise
        return points


@cache
def _read_cases(modules: Sequence[str]) -> dict[str, Case]:
    by_name: dict[str, Case] = {}
    for module in modules:
        for case in _cases_in(module):
            if case.name in by_name:
                raise ValueError(f"two cases are called {case.name!r}: add what differs, as in '{case.name} twice'")
            by_name[case.name] = case
    return by_name


def _cases_in(module: str) -> Sequence[Case]:
    cases = getattr(importlib.import_module(module), "CASES", None)
    if not isinstance(cases, Sequence) or not all(isinstance(case, Case) for case in cases):
        example = 'CASES = [Case("Accounts.transfer", system="ledger", prepare=..., act=..., check=...)]'
        raise ValueError(f"{module} must have a list of its crash cases: {example}")
    return cases


def _act(modules: Sequence[str], name: str, db: Db, state: Any) -> None:
    """Run a case's operation, in a child process. The operation must not raise errors of the driver."""
    try:
        call(_read_cases(modules)[name].act, db, state)
    except PyMongoError as error:
        raise AssertionError(f"{name} raised an error of the driver: {error!r}") from error


def _recover(case: Case, db: Db, *, concurrently: bool) -> None:
    case.age(db)
    with ThreadPoolExecutor(2 if concurrently else 1) as pool:
        list(pool.map(lambda _: _run_jobs(case, db), range(2)))


def _run_jobs(case: Case, db: Db) -> None:
    for job in [*assembly.CORE_JOBS, *case.found_system.jobs]:
        job.run(db)


def _check(case: Case, db: Db, state: Any) -> None:
    assert [str(problem) for problem in case.found_system.find_problems(db)] == []
    case.check(db, state)
