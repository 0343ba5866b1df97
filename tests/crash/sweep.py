"""The parent's side: a child dies, the jobs mend, and everything is checked."""

from __future__ import annotations

import multiprocessing
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

from pymongo.errors import OperationFailure
from pymongo.read_concern import ReadConcern

from squinney import assembly
from squinney.mongo import schema
from squinney.mongo.schema import Collection, Db
from squinney.system import System
from squinney.transactions import Mode, records
from tests.crash import deaths
from tests.crash.case import Case
from tests.crash.deaths import WAYS, Way

CHILD_SECONDS = 60
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
LEFT_BEHIND = [{"txns.0": {"$exists": True}}, {"tombs.0": {"$exists": True}}, {"txn_lock": {"$ne": None}}]

children = multiprocessing.get_context("forkserver")


def sweep(case: Case, mode: Mode, way: Way, db: Db, socket: Path, *, every: int = 1) -> int:
    """Every point of the operation, or every n-th, on a database with its collections; returns how many there were."""
    collections = collections_of(case)
    for number, at_write in enumerate(count(1, every)):
        _empty(db, collections)
        state = case.prepare(db)
        died = _run_child(case, mode, way, at_write, db, socket, state)
        try:
            _mend(case, db, together=(at_write + WAYS.index(way)) % 2 == 0)
            _check(case, db, state)
        except BaseException as error:
            error.add_note(f"{case.name}, {mode}: died at write {at_write}, {way}")
            raise
        if not died:
            return number
    raise AssertionError("unreachable")


def collections_of(case: Case) -> list[Collection]:
    """What the case's database must have."""
    system = _system(case)
    return [*assembly.CORE_COLLECTIONS, *system.collections, *case.collections]


def _system(case: Case) -> System:
    """One of ours by its name, or one from elsewhere by its package."""
    return assembly.system_named(case.system) or assembly.system_in(case.system)


def _empty(db: Db, collections: list[Collection]) -> None:
    for collection in collections:
        try:
            db[collection.name].delete_many({})
        except OperationFailure:  # capped and time-series collections
            db.drop_collection(collection.name)
            schema.apply(db, [collection])


def _run_child(case: Case, mode: Mode, way: Way, at_write: int, db: Db, socket: Path, state: Any) -> bool:
    """Whether the operation died; False where it had fewer writes."""
    app = f"crash-{secrets.token_hex(6)}"
    ours, theirs = multiprocessing.Pipe(duplex=False)
    arguments = (theirs, socket, db.name, app, case.name, mode, way, at_write, state)
    child = children.Process(target=deaths.run, args=arguments, daemon=True)
    child.start()
    theirs.close()
    child.join(CHILD_SECONDS)
    if child.exitcode is None:
        child.kill()
    forget_open_transactions(db, app)
    said = ours.recv() if child.exitcode == deaths.BROKE else ""
    assert child.exitcode in (deaths.DIED, deaths.COMPLETED), (
        f"{case.name}, {mode}, write {at_write}, {way}: exit {child.exitcode}\n{said}"
    )
    return child.exitcode == deaths.DIED


def forget_open_transactions(db: Db, app: str) -> None:
    """What the server does by itself after `transactionLifetimeLimitSeconds`: a minute, as it comes."""
    idle = [
        {"$currentOp": {"idleSessions": True, "allUsers": True}},
        {"$match": {"appName": app, "type": "idleSession"}},
    ]
    admin = db.client.get_database("admin", read_concern=ReadConcern("local"))
    sessions = [{"id": found["lsid"]["id"]} for found in admin.aggregate(idle)]
    if sessions:
        admin.command("killSessions", sessions, codec_options=db.codec_options)


def _mend(case: Case, db: Db, *, together: bool) -> None:
    _let_time_pass(case, db)
    if together:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda run: run(), [_jobs(case, db)] * 2))
    else:
        _jobs(case, db)()
        _jobs(case, db)()


def _let_time_pass(case: Case, db: Db) -> None:
    open_runs = {"state": {"$in": records.OPEN_STATES}}
    db[records.NAME].update_many(open_runs, {"$set": {"deadline": LONG_AGO, "due_at": LONG_AGO}})
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
    assert list(db[records.NAME].find({"state": {"$ne": "done"}})) == []
    for collection in collections_of(case):
        assert list(db[collection.name].find({"$or": [*LEFT_BEHIND, {"txn_stub": {"$ne": None}}]})) == []
