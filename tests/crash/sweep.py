"""The parent's side: a child dies, the jobs mend, and everything is checked."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from pymongo.errors import OperationFailure

from squinney import assembly
from squinney.mongo import schema
from squinney.mongo.schema import Collection, Db
from squinney.system import System
from squinney.testing.crash.deaths import WAYS, Way
from squinney.testing.crash.sweep import crash_points
from squinney.testing.emptying import filled
from squinney.testing.protocol import left_behind, pass_deadlines
from squinney.transactions import Mode
from tests.crash.case import Case, run_case


def sweep(case: Case, mode: Mode, way: Way, db: Db, socket: Path, *, every: int = 1) -> int:
    """Every point of the operation, or every n-th, on a database with its collections; returns how many there were."""
    collections = collections_of(case)
    points = 0
    died = crash_points(
        partial(run_case, case.name, mode),
        case.prepare,
        way,
        db,
        socket,
        every=every,
        empty=lambda db: _empty(db, collections),
    )
    for point, state in died:
        points += 1
        try:
            _mend(case, db, together=(point.write + WAYS.index(way)) % 2 == 0)
            _check(case, db, state)
        except BaseException as error:
            error.add_note(f"{case.name}, {mode}: {point}")
            raise
    return points


def collections_of(case: Case) -> list[Collection]:
    """What the case's database must have."""
    system = _system(case)
    return [*assembly.CORE_COLLECTIONS, *system.collections, *case.collections]


def _system(case: Case) -> System:
    """One of ours by its name, or one from elsewhere by its package."""
    return assembly.system_named(case.system) or assembly.system_in(case.system)


def _empty(db: Db, collections: list[Collection]) -> None:
    declared = {collection.name: collection for collection in collections}
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
            list(pool.map(lambda run: run(), [_jobs(case, db)] * 2))
    else:
        _jobs(case, db)()
        _jobs(case, db)()


def _let_time_pass(case: Case, db: Db) -> None:
    pass_deadlines(db, {})
    case.age(db)


def _jobs(case: Case, db: Db) -> Callable[[], None]:
    system = _system(case)

    def run() -> None:
        for job in [*assembly.CORE_JOBS, *system.jobs]:
            job.run(db)

    return run


def _check(case: Case, db: Db, state: Any) -> None:
    """The invariants before and after the tombstones' time; and in the end no trace of the protocol."""
    system = _system(case)
    for _ in range(2):
        problems = [str(problem) for problem in system.find_problems(db)]
        assert problems == []
        case.check(db, state)
        _let_time_pass(case, db)
        _jobs(case, db)()
    documents = {collection.name: list(db[collection.name].find()) for collection in collections_of(case)}
    assert left_behind(documents) == []
