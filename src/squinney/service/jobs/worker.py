"""`JobWorker`: finds due jobs and runs each in its own thread, under a lease."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import bson
from pymongo.errors import PyMongoError

from squinney import checks
from squinney.errors import NotFound, SquinneyError
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db, Document
from squinney.mongo.server_time import after
from squinney.patterns import jobs as records
from squinney.patterns.jobs import Job
from squinney.patterns.leases import Lease, Leases
from squinney.service.jobs.holding import holding

log = logging.getLogger(__name__)

Observe = Callable[[str, str, float], None]
JITTER = 0.1
MAX_BACKOFF_SECONDS = 3600.0
MAX_RESULT_BYTES = 10_000
MAX_ERROR_LENGTH = 500
RECORD_TRIES = 5


class JobWorker:
    """Runs jobs until stopped. Any number of workers, in any number of processes, share the jobs.

    The server's clock decides when a job is due; a lease in MongoDB lets one worker at a time run it. If a worker dies,
    its job stays due, and another worker runs it once the lease has expired. `observe(name, outcome, seconds)` is
    called after every run.
    """

    def __init__(
        self,
        db: Db,
        jobs: Sequence[Job],
        *,
        holder: str | None = None,
        lease_seconds: float = 30,
        look_every_seconds: float = 1,
        observe: Observe = lambda name, outcome, seconds: None,
    ) -> None:
        self._db = pinned(db)
        self._jobs = {job.name: job for job in jobs}
        self._leases = Leases(db, holder=holder)
        self._lease_seconds = lease_seconds
        self._look_every_seconds = look_every_seconds
        self._observe = observe
        self._running: dict[str, threading.Thread] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start working in a thread of this process."""
        self._thread = threading.Thread(target=self.work, name="squinney-worker", daemon=True)
        self._thread.start()

    def stop(self, *, grace_seconds: float = 10) -> bool:
        """Start no more jobs and wait for the running ones; return True if all of them ended.

        A job that did not end is taken over by another worker after this process has ended.
        """
        self._stop.set()
        until = time.monotonic() + grace_seconds
        if self._thread:  # first, so that no further job starts
            self._thread.join(grace_seconds)
        with self._lock:
            threads = list(self._running.values())
        for thread in threads:
            # guard: stopping waits for running jobs
            thread.join(max(0.0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in threads)

    def work(self) -> None:
        """Run due jobs until `stop()`. After an error, of MongoDB or of a machine without threads, it tries again."""
        are_registered = False
        while not self._stop.is_set():
            try:
                if not are_registered:
                    self.register_jobs()
                    are_registered = True
                for name in self.due():
                    self._begin(name)
            # guard: a worker survives errors of the server
            except (SquinneyError, PyMongoError, RuntimeError) as error:  # RuntimeError: no thread can be started
                log.warning("the worker will try again: %s", error)
            self._stop.wait(random.uniform(0.5, 1.0) * self._look_every_seconds)

    @operation()
    def register_jobs(self) -> None:
        """Create the missing records of jobs; such a job is due immediately.

        Atomic: one upsert per job.
        After a crash: run it again.
        """
        for name in self._jobs:
            # guard: a new worker does not make recorded jobs due
            defaults = {"next_at": {"$ifNull": ["$next_at", "$$NOW"]}, "runs": {"$ifNull": ["$runs", 0]}}
            self._db[records.NAME].update_one(records.RECORD(name=name), [{"$set": defaults}], upsert=True)

    @operation(reads_only=True)
    def due(self) -> list[str]:
        """Return the names of the jobs that are due and not running in this worker."""
        with self._lock:
            names = [name for name in self._jobs if name not in self._running]
        return [record["_id"] for record in records.DUE.find(self._db, names=names, projection={"_id": 1})]

    def _begin(self, name: str) -> None:
        thread = threading.Thread(target=self._run_in_thread, args=(name,), name=f"squinney-job-{name}", daemon=True)
        with self._lock:  # which the thread needs to end
            thread.start()
            self._running[name] = thread

    def _run_in_thread(self, name: str) -> None:
        try:
            self.run(name)
        except SquinneyError as error:
            log.warning("job %s could not be run: %s", name, error.message)
        except Exception:
            log.exception("job %s could not be run", name)
        finally:
            with self._lock:
                self._running.pop(name, None)

    def run(self, name: str, *, even_if_not_due: bool = False) -> str | None:
        """Run a job if it is due and no other worker is running it; return `ok`, `failed`, or None if it did not run.

        Atomic: the lease decides which worker runs the job. The result is one update, which a worker that has lost its
        lease cannot make.
        After a crash: the job stays due, and another worker runs it once the lease has expired.
        Raises: `NotFound`, `Unavailable`.
        """
        job = self._jobs.get(name)
        if job is None:
            raise NotFound(f"there is no job {name}", job=name)
        with holding(self._leases, records.lease_of(name), seconds=self._lease_seconds) as lease:
            # guard: a worker without the lease does not run the job
            if lease is None or not self._claim(name, lease, even_if_not_due=even_if_not_due):
                return None
            return self._run(job, lease)

    @operation()
    def _claim(self, name: str, lease: Lease, *, even_if_not_due: bool) -> bool:
        """Mark the job as running if it is still due: another worker may have run it before this one got the lease."""
        # guard: a worker checks again under the lease that a job is due
        where = records.RECORD(name=name) if even_if_not_due else records.DUE(names=[name])
        running = {"holder": {"$literal": self._leases.holder}, "started_at": "$$NOW"}
        claimed = self._db[records.NAME].update_one(
            {**where, "_id": name}, [{"$set": {"running": running, "term": lease.term}}]
        )
        return claimed.matched_count > 0

    def _run(self, job: Job, lease: Lease) -> str:
        started = time.monotonic()
        outcome = "ok"
        try:
            # guard: results are not evaluated as expressions
            change: Document = {"result": {"$literal": _storable(job.run(self._db))}}
        except Exception as error:
            self._log_failure(job, error)
            message = checks.storable(f"{type(error).__name__}: {error}", max_length=MAX_ERROR_LENGTH)
            outcome, change = "failed", {"error": {"$literal": message}}
        seconds = time.monotonic() - started
        self._observe(job.name, outcome, seconds)
        self._record(job, lease, {"outcome": outcome, "duration_seconds": round(seconds, 3), **change})
        return outcome

    def _log_failure(self, job: Job, error: Exception) -> None:
        """Log a failure, without a traceback if the cause is a `SquinneyError` or the worker's stop."""
        if isinstance(error, SquinneyError) or self._stop.is_set():
            log.warning("job %s failed: %s: %s", job.name, type(error).__name__, error)
        else:
            log.exception("job %s failed", job.name)

    def _record(self, job: Job, lease: Lease, last: Document) -> None:
        """Store the outcome of a run, with retries. If all fail, the job is still due and runs again."""
        for attempt in range(RECORD_TRIES):
            try:
                self._record_once(job, lease, last)
                return
            except (SquinneyError, PyMongoError) as error:
                log.warning("the outcome of job %s could not be stored yet: %s", job.name, error)
                self._stop.wait(2**attempt)

    @operation()
    def _record_once(self, job: Job, lease: Lease, last: Document) -> None:
        failed = last["outcome"] == "failed"
        failures: Any = {"$add": [{"$ifNull": ["$failures", 0]}, 1]} if failed else 0
        stored = {**last, "holder": "$running.holder", "started_at": "$running.started_at", "finished_at": "$$NOW"}
        changes: list[Document] = [
            # `$set` would merge the new `last` into the old one.
            {"$set": {"last": None, "failures": failures, "runs": {"$add": ["$runs", 1]}}},
            {"$set": {"last": stored, "next_at": _next(job, failed=failed)}},
            {"$unset": "running"},
        ]
        # guard: a worker that lost its lease records nothing
        self._db[records.NAME].update_one({"_id": job.name, "term": lease.term}, changes)


def _next(job: Job, *, failed: bool) -> Document:
    """Return the time of the next run: after the interval with some jitter, doubled for each failure in a row."""
    spread = random.uniform(1 - JITTER, 1 + JITTER)
    if not failed:
        return after(job.every_seconds * spread)
    longest = max(job.every_seconds, MAX_BACKOFF_SECONDS)
    # guard: the pause after a failure grows each time
    factor = {"$pow": [2, {"$min": ["$failures", 20]}]}
    seconds = {"$min": [{"$multiply": [job.every_seconds * spread, factor]}, longest]}
    return {"$add": ["$$NOW", {"$multiply": [seconds, 1000]}]}


def _storable(result: Mapping[str, Any] | None) -> Document:
    try:
        stored = dict(result or {})
        if len(bson.encode(stored)) <= MAX_RESULT_BYTES:
            return stored
        return {"note": "the result was too large to keep"}
    except (bson.errors.BSONError, TypeError, ValueError, OverflowError):
        return {"note": repr(result)[:MAX_ERROR_LENGTH]}
