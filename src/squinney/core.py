"""What every system needs beside its own collections: keys of guarded runs, leases, jobs, tasks and positions."""

from __future__ import annotations

from collections import Counter

from squinney import shared_rates, transactions
from squinney.mongo.schema import Collection
from squinney.patterns import follow, leases, migrations, queue
from squinney.patterns import jobs as job_records
from squinney.patterns.jobs import Job
from squinney.transactions import end_abandoned

_DEMO = Collection("squinney.demo", formerly="demo", unsharded="one small document per system")
CORE = (transactions, migrations, leases, queue, follow, job_records, shared_rates)
CORE_COLLECTIONS = [*(collection for pattern in CORE for collection in pattern.COLLECTIONS), _DEMO]
CORE_QUERIES = [
    query for pattern in (transactions, leases, queue, follow, job_records, shared_rates) for query in pattern.QUERIES
]
CORE_JOBS = [
    Job(
        "end-abandoned-transactions",
        every_seconds=5,
        run=lambda db: +Counter(ended=end_abandoned(db)),
        what="ends the open transactions of dead processes",
    )
]
