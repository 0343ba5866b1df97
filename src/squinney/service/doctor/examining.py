"""Examines the server, the schema, the jobs and the data."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import pymongo
from pymongo.errors import PyMongoError

from squinney import assembly
from squinney.errors import Unavailable
from squinney.mongo import schema
from squinney.mongo.deadlines import operation, seconds_left
from squinney.mongo.ownership import Ownership, former, read_ownership
from squinney.mongo.pinned import pinned
from squinney.mongo.problems import MALFORMED, Problem, check_failed, raise_if_away
from squinney.mongo.schema import Collection, Db
from squinney.patterns.batches import Batches
from squinney.patterns.jobs import Job
from squinney.service.doctor.cluster import examine_cluster
from squinney.service.doctor.finding import Finding, Level
from squinney.service.doctor.indexes import unused_indexes
from squinney.service.doctor.server import examine_server
from squinney.service.jobs import statuses
from squinney.system import System

log = logging.getLogger(__name__)

EXAMINE_SECONDS = 10.0
MIN_SECONDS = 0.1  # for each system, even if no time is left; to the driver, 0 means no limit
FAILURES_THAT_COUNT = 3  # fewer may come from a short outage of MongoDB
ADVICE = {
    "different-index": "run `squinney indexes --rebuild` when there is little load",
    "different-options": "an option of a collection cannot be changed: copy the documents into a new collection",
    "extra-index": "drop the index unless you created it yourself",
}


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
        yield from examine_server(db)
        if old := former(db, declared):
            yield _of_older_version(old)
            return
        foreign = read_ownership(db, declared).foreign
        yield from _foreign(foreign)
        declared = [collection for collection in declared if collection.name not in foreign]
        yield from _schema(db, declared)
        yield from examine_cluster(db, declared)
        yield from unused_indexes(db, declared)
        yield from _jobs(db, assembly.jobs(systems))
        if any(collection.name in foreign for collection in assembly.CORE_COLLECTIONS):
            return
        systems = [
            system for system in systems if not any(collection.name in foreign for collection in system.collections)
        ]
        for number, system in enumerate(systems):
            # guard: documents that wait for a migration are not examined as if they were missing
            if waiting := assembly.required_migrations(db, [system]):
                yield from (_of_older_documents(system, migration) for migration in waiting)
                continue
            yield from _data(db, system, seconds and max(MIN_SECONDS, seconds_left() / (len(systems) - number)))


def _of_older_documents(system: System, migration: Batches) -> Finding:
    message = f"{migration.name} has documents of an older version, which nobody sees yet"
    return Finding("problem", system.name, message, "run `squinney migrate`")


def _of_older_version(owned: Ownership) -> Finding:
    """Report collections with former names. Beside them, all others would seem empty or missing."""
    names = ", ".join(collection.name for collection in owned.declared)
    message = f"an older version made collections under other names: {names}"
    return Finding("problem", "schema", message, "end its processes, then run `squinney migrate`, which renames them")


def _foreign(names: Sequence[str]) -> Iterator[Finding]:
    """Report collections that are not ours. The systems that would use them are not examined."""
    for name in names:
        message = f"{name}: Squinney did not make this collection, and does not use it"
        yield Finding("problem", "schema", message, f"use another database, or let Squinney use it: --adopt {name}")


def _schema(db: Db, declared: list[Collection]) -> Iterator[Finding]:
    drifts = schema.check(db, declared)
    for drift in drifts:
        level: Level = "notice" if drift.kind == "extra-index" else "problem"
        repairable = drift.kind.startswith("missing") or drift.kind == "different-validator"
        advice = "run `squinney doctor --repair`" if repairable else ADVICE.get(drift.kind, "")
        yield Finding(level, "schema", str(drift), advice, repairable)
    if not any(drift.kind != "extra-index" for drift in drifts):
        yield Finding("ok", "schema", f"{len(declared)} collections and their indexes are as declared")


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
    has_problems = False
    try:
        # Not `operation(seconds)`: inside a request, that counts from the start of the request.
        # guard: each system has its own time limit
        with operation(None, reads_only=True), pymongo.timeout(seconds):
            for problem in _problems(db, system):
                has_problems = True
                advice = "run `squinney doctor --repair`" if problem.repairable else "a person must decide"
                yield Finding("problem", system.name, str(problem), advice, problem.repairable, problem.documents)
    except Unavailable as error:
        if not (isinstance(error.__cause__, PyMongoError) and error.__cause__.timeout):
            raise
        message = f"not everything could be examined in {seconds:.1f} s"
        yield Finding("notice", system.name, message, "run `squinney doctor`, which has no time limit")
        return
    if not has_problems:
        yield Finding("ok", system.name, "no problems found")


def _problems(db: Db, system: System) -> Iterator[Problem]:
    """Yield a system's problems. A check that raises is reported as one problem and does not stop the other systems."""
    try:
        yield from system.find_problems(db)
    except MALFORMED as error:
        raise_if_away(error)
        log.exception("the checks of %s failed", system.name)
        yield check_failed(system.name, error)
