"""The status of each job, for `squinney jobs`, the admin page, `/readyz` and `/metrics`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db
from squinney.mongo.server_time import server_now
from squinney.patterns import jobs as records
from squinney.patterns import leases
from squinney.patterns.jobs import Job


@dataclass(frozen=True)
class JobStatus:
    """The status of a job. `late_seconds` is how long it has been due; `running` has the holder and the start."""

    name: str
    what: str
    every_seconds: float
    next_at: datetime | None = None
    late_seconds: float = 0.0
    runs: int = 0
    failures: int = 0
    running: Mapping[str, Any] | None = None
    last: Mapping[str, Any] = field(default_factory=dict)

    @property
    def state(self) -> str:
        """One of `never run`, `running`, `failing`, `late` and `fine`."""
        if self.running:
            return "running"
        if not self.last:
            return "never run"
        if self.failures:
            return "failing"
        return "late" if self.late_seconds > max(60.0, 2 * self.every_seconds) else "fine"


@operation(reads_only=True)
def statuses(db: Db, jobs: Sequence[Job]) -> list[JobStatus]:
    """Return the status of each job, in the given order.

    Raises: `Unavailable`.
    """
    db = pinned(db)
    now = server_now(db)
    # Leases are read before records: otherwise a job that ends in between would be shown as late.
    held = {lease["_id"] for lease in leases.RUNNING.find(db, names=[records.lease_of(job.name) for job in jobs])}
    stored = {record["_id"]: record for record in records.RECORDS.find(db, names=[job.name for job in jobs])}
    return [_status(job, stored.get(job.name, {}), records.lease_of(job.name) in held, now) for job in jobs]


def _status(job: Job, record: Mapping[str, Any], held: bool, now: datetime) -> JobStatus:
    """Return a job's status. A killed worker leaves its job marked as running, so the lease decides."""
    running = record.get("running") if held else None
    next_at = record.get("next_at")
    late = (now - next_at).total_seconds() if next_at and not running else 0.0
    return JobStatus(
        name=job.name,
        what=job.what,
        every_seconds=job.every_seconds,
        next_at=next_at,
        late_seconds=max(0.0, late),
        runs=record.get("runs", 0),
        failures=record.get("failures", 0),
        running=running,
        last=record.get("last") or {},
    )
