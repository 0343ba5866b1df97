"""A periodic job as a system declares it, and the record kept of its runs; `service/jobs/` runs them.

```
jobs { _id: name, next_at, runs, failures: in a row, term: of the lease of the last run that was recorded,
       running: {holder, started_at} while it runs, or did when its worker died: the lease tells which,
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

NAME = "jobs"
COLLECTIONS = [Collection(NAME, unsharded="one document per job: some dozens in all")]

RECORD = Query("jobs.record", NAME, where=lambda name: {"_id": name}, example={"name": "j"})
RECORDS = Query("jobs.records", NAME, where=lambda names: {"_id": {"$in": names}}, example={"names": ["j", "k"]})
DUE = Query(
    "jobs.due",
    NAME,
    where=lambda names: {"_id": {"$in": names}, "$expr": {"$lte": ["$next_at", "$$NOW"]}},
    example={"names": ["j", "k"]},
)
QUERIES: list[Query | Pipeline] = [RECORD, RECORDS, DUE]


def lease_of(name: str) -> str:
    """The name of the lease under which a job runs."""
    return f"job:{name}"


@dataclass(frozen=True)
class Job:
    """`run(db)` every so many seconds; what it returns is kept as its last result. Safe when two run at once."""

    name: str
    every_seconds: float
    run: Callable[[Db], Mapping[str, Any]]
    what: str = ""
