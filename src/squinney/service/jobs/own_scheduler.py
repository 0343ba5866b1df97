"""`jobs`: the jobs of some systems, for a scheduler of one's own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from squinney.core import CORE_COLLECTIONS, CORE_JOBS
from squinney.errors import Invalid, Unavailable
from squinney.mongo import schema
from squinney.mongo.pinned import require_database
from squinney.mongo.schema import Db
from squinney.patterns.jobs import Job
from squinney.service.jobs.worker import JobWorker
from squinney.system import Part, system_of


@dataclass(frozen=True)
class ScheduledJob:
    """A job to call every `every_seconds`. `run()` takes no arguments and returns whether this call ran the job.

    Any number of schedulers, in any number of processes, may call `run`: a lease lets one at a time run the job. The
    run is recorded like one of a worker, so `squinney jobs list` and `squinney doctor` know of it. `run` raises
    `Unavailable` if the job failed; the log has the reason, and the next call tries again.
    """

    name: str
    every_seconds: float
    what: str
    run: Callable[[], bool] = field(repr=False)


def jobs(db: Db, *systems: Part) -> list[ScheduledJob]:
    """Return the jobs of some systems (`squinney.commerce`) and those that all systems share.

    Missing collections for the records of the jobs are created. Which promise needs which job is on the page "Jobs in
    your own scheduler".

    Atomic: each collection and each record by itself.
    After a crash: call it again.
    Raises: `Invalid`, `NotOurs`, `Unavailable`.
    """
    require_database(db)
    chosen = [system_of(part) for part in systems]
    if twice := [name for name, count in Counter(system.name for system in chosen).items() if count > 1]:
        raise Invalid(f"the system {twice[0]} is given twice", field="systems")
    declared: list[Job] = [*CORE_JOBS, *(job for system in chosen for job in system.jobs)]
    schema.create_missing(db, CORE_COLLECTIONS)
    worker = JobWorker(db, declared)
    worker.register_jobs()
    return [ScheduledJob(job.name, job.every_seconds, job.what, partial(_run, worker, job.name)) for job in declared]


def _run(worker: JobWorker, name: str) -> bool:
    outcome = worker.run(name, even_if_not_due=True)
    # guard: a scheduler learns that a job failed
    if outcome == "failed":
        raise Unavailable(f"the job {name} failed; the log says why", job=name)
    return outcome is not None
