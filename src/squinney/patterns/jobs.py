"""The declaration of a periodic job, and the stored record of its runs; `service/jobs/` runs the jobs.

```
squinney.jobs { _id: name, next_at, runs, failures: consecutive ones, term: the term of the last recorded run's lease,
       running: {holder, started_at}, set while the job runs, and left there if its worker dies: the lease then expires,
       last: {outcome: ok | failed, result, error, holder, started_at, finished_at, duration_seconds} }
```
All times are the server's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from squinney.mongo.queries import Pipeline, Query
from squinney.mongo.schema import Collection, Db

NAME = "squinney.jobs"
COLLECTIONS = [Collection(NAME, formerly="jobs", unsharded="one document per job: some dozens in all")]

RECORD = Query("jobs.record", NAME, where=lambda name: {"_id": name}, example={"name": "j"})
RECORDS = Query("jobs.records", NAME, where=lambda names: {"_id": {"$in": names}}, example={"names": ["j", "k"]})
DUE = Query(
    "jobs.due",
    NAME,
    # guard: the server's clock says when a job is due
    where=lambda names: {"_id": {"$in": names}, "$expr": {"$lte": ["$next_at", "$$NOW"]}},
    example={"names": ["j", "k"]},
)
QUERIES: list[Query | Pipeline] = [RECORD, RECORDS, DUE]


def lease_of(name: str) -> str:
    """Return the name of the lease under which a job runs."""
    return f"job:{name}"


@dataclass(frozen=True)
class Job:
    """A periodic job: `run(db)` must be safe when two runs overlap, and returns what is stored as the last result."""

    name: str
    every_seconds: float
    run: Callable[[Db], Mapping[str, Any]]
    what: str = ""
