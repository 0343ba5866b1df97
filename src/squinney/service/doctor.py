"""Examines the server, the schema, the jobs and the data, and repairs what it can."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

import pymongo
from pymongo.errors import OperationFailure, PyMongoError

from squinney import assembly
from squinney.errors import Conflict, Unavailable
from squinney.mongo import schema
from squinney.mongo.connect import operation, seconds_left
from squinney.mongo.pinned import pinned
from squinney.mongo.problems import MALFORMED, Problem, check_failed, raise_if_away
from squinney.mongo.schema import Collection, Db
from squinney.patterns.jobs import Job
from squinney.service.jobs import statuses
from squinney.system import System

log = logging.getLogger(__name__)

Level = Literal["ok", "notice", "problem"]
EXAMINE_SECONDS = 10.0
REPAIR_SECONDS = 300.0
LEAST_SECONDS = 0.1  # for each system, even if no time is left; to the driver, 0 means no limit
OLDEST_SUPPORTED = (7, 0)
LEAST_FREE_BYTES = 1 << 30
LONGEST_TRANSACTION_SECONDS = 15
FAILURES_THAT_COUNT = 3  # fewer may come from a short outage of MongoDB
ADVICE = {
    "different-index": "run `squinney indexes --rebuild` when there is little load",
    "different-options": "an option of a collection cannot be changed: copy the documents into a new collection",
    "extra-index": "drop the index unless you created it yourself",
}


@dataclass(frozen=True)
class Finding:
    """One line of the report. `doctor` fails only for the level `problem`."""

    level: Level
    area: str
    message: str
    advice: str = ""
    repairable: bool = False
    documents: dict[str, Any] = field(default_factory=dict)


def examine(
    db: Db, *, seconds: float | None = EXAMINE_SECONDS, systems: Sequence[System] = assembly.SYSTEMS
) -> Iterator[Finding]:
    """Examine the server, the declared collections and indexes, the jobs, and every system's data.

    All documents are read, which may take long. Each system gets an equal share of the remaining seconds; a system that
    needs more is reported with a notice. With `seconds=None` there is no time limit.

    Raises: `Unavailable`.
    """
    db = pinned(db)
    declared = assembly.collections(systems)
    with operation(seconds, reads_only=True):
        yield from _server(db)
        yield from _schema(db, declared)
        yield from _unused_indexes(db, declared)
        yield from _jobs(db, assembly.jobs(systems))
        for number, system in enumerate(systems):
            yield from _data(db, system, seconds and max(LEAST_SECONDS, seconds_left() / (len(systems) - number)))


def _server(db: Db) -> Iterator[Finding]:
    version = db.client.admin.command("buildInfo")["version"]
    hello = db.client.admin.command("hello")
    topology = "sharded cluster" if hello.get("msg") == "isdbgrid" else f"replica set {hello.get('setName')}"
    yield Finding("ok", "server", f"MongoDB {version}, {topology}")
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_SUPPORTED:
        yield Finding(
            "notice",
            "server",
            f"MongoDB {version} has reached its end of life",
            "fine for development; in production set MONGODB_URI to a newer server",
        )
    yield from _transaction_lifetime(db)
    statistics = db.command("dbStats", freeStorage=1)
    free = statistics.get("fsTotalSize", 0) - statistics.get("fsUsedSize", 0)
    if statistics.get("fsTotalSize") and free < LEAST_FREE_BYTES:
        yield Finding(
            "problem", "disk", f"only {free >> 20} MiB are free", "free some space: MongoDB stops when the disk is full"
        )


def _transaction_lifetime(db: Db) -> Iterator[Finding]:
    """Check how long the server keeps the locks of a process that was killed during a native transaction."""
    name = "transactionLifetimeLimitSeconds"
    try:
        seconds = db.client.admin.command({"getParameter": 1, name: 1}).get(name, 0)
    except OperationFailure:  # a mongos lacks the parameter, and not every user may read it
        return
    if seconds > LONGEST_TRANSACTION_SECONDS:
        yield Finding(
            "notice",
            "server",
            f"a process that dies in a transaction locks its documents for up to {seconds} s",
            f"set the server's {name} to {LONGEST_TRANSACTION_SECONDS}",
        )


def _schema(db: Db, declared: list[Collection]) -> Iterator[Finding]:
    drifts = schema.check(db, declared)
    for drift in drifts:
        level: Level = "notice" if drift.kind == "extra-index" else "problem"
        repairable = drift.kind.startswith("missing") or drift.kind == "different-validator"
        advice = "run `squinney doctor --repair`" if repairable else ADVICE.get(drift.kind, "")
        yield Finding(level, "schema", str(drift), advice, repairable)
    if not any(drift.kind != "extra-index" for drift in drifts):
        yield Finding("ok", "schema", f"{len(declared)} collections and their indexes are as declared")


def _unused_indexes(db: Db, declared: list[Collection]) -> Iterator[Finding]:
    """Report indexes of collections with 10,000 documents or more that the server has not used since it started."""
    for collection in declared:
        if db[collection.name].estimated_document_count() < 10_000:
            continue
        for used in db[collection.name].aggregate([{"$indexStats": {}}]):
            if used["name"] != "_id_" and not used["accesses"]["ops"]:
                since = f"{used['accesses']['since']:%Y-%m-%d}"
                yield Finding("notice", "indexes", f"{collection.name}.{used['name']} has not been used since {since}")


def _jobs(db: Db, declared: list[Job]) -> Iterator[Finding]:
    """Report jobs that fail or are late. A job that never ran is not late: a program may do its work itself."""
    jobs = statuses(db, declared)
    for job in jobs:
        if job.failures:
            level: Level = "problem" if job.failures >= FAILURES_THAT_COUNT else "notice"
            message = f"{job.name} failed {job.failures} times in a row: {job.last.get('error', '')}"
            yield Finding(level, "jobs", message, f"see the log; `squinney jobs run {job.name}` tries it now")
        elif job.state == "late":
            message = f"{job.name} has been due for {job.late_seconds:.0f} s"
            yield Finding("notice", "jobs", message, "run `squinney serve` or `squinney worker`")
    if not any(job.failures or job.state == "late" for job in jobs):
        yield Finding("ok", "jobs", "no job is late or failing")


def _data(db: Db, system: System, seconds: float | None) -> Iterator[Finding]:
    found = False
    try:
        # Not `operation(seconds)`: inside a request, that counts from the start of the request.
        with operation(None, reads_only=True), pymongo.timeout(seconds):
            for problem in _problems(db, system):
                found = True
                advice = "run `squinney doctor --repair`" if problem.repairable else "a person must decide"
                yield Finding("problem", system.name, str(problem), advice, problem.repairable, problem.documents)
    except Unavailable as error:
        if not (isinstance(error.__cause__, PyMongoError) and error.__cause__.timeout):
            raise
        message = f"not everything could be examined in {seconds:.1f} s"
        yield Finding("notice", system.name, message, "run `squinney doctor`, which has no time limit")
        return
    if not found:
        yield Finding("ok", system.name, "no problems found")


def _problems(db: Db, system: System) -> Iterator[Problem]:
    """Yield a system's problems. A check that raises is reported as one problem and does not stop the other systems."""
    try:
        yield from system.find_problems(db)
    except MALFORMED as error:
        raise_if_away(error)
        log.exception("the checks of %s failed", system.name)
        yield check_failed(system.name, error)


def _repaired(db: Db, system: System) -> Mapping[str, int]:
    try:
        return system.repair(db)
    except MALFORMED as error:
        raise_if_away(error)
        log.exception("the repair of %s failed", system.name)
        return {"stopped by malformed data": 1}


def _apply_schema(db: Db, declared: list[Collection]) -> int:
    """Apply the schema one collection at a time, so that a conflicting index does not block the other collections."""
    before = schema.check(db, declared)
    drifted = {drift.collection for drift in before}
    for collection in declared:
        if collection.name in drifted:
            with suppress(Conflict):
                schema.apply(db, [collection])
    return len(before) - len(schema.check(db, declared))


def repair(
    db: Db, *, seconds: float | None = REPAIR_SECONDS, systems: Sequence[System] = assembly.SYSTEMS
) -> Counter[str]:
    """Create missing collections and indexes, repair what each system can repair, and return counts.

    Atomic: each index and each document separately.
    After a crash: run it again.
    Raises: `Unavailable`.
    """
    db = pinned(db)
    with operation(seconds):
        done = Counter({"collections and indexes": _apply_schema(db, assembly.collections(systems))})
        for system in systems:
            done.update({f"{system.name}: {name}": count for name, count in _repaired(db, system).items()})
    return +done
