"""How imports, reads and the size of a line change with the number of lines.

`SQUINNEY_BENCH_LINES=100000,1000000,10000000` chooses the numbers; ten million lines need about 4 GB of disk.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from bench import report
from bench._analytics_imports import ASKED, median_ms, sample_log
from bench._analytics_page import fresh
from squinney.analytics import EventLog
from squinney.analytics.events.documents import EVENTS
from squinney.mongo.connect import Connection
from squinney.mongo.schema import Db

LINES = "100000,1000000"


def growth(connection: Connection, rounds: int, quick: bool) -> list[str]:
    """Import logs of several lengths, each into an empty database, and read the first pages warm."""
    wanted = "20000" if quick else os.environ.get("SQUINNEY_BENCH_LINES", LINES)
    rows = [_row(connection, int(lines)) for lines in wanted.split(",")]
    connection.client.drop_database("bench_analytics")
    head = ["lines", "lines/s", "bytes a line, with indexes", *(f"the first {name}, ms" for name in ASKED)]
    return ["## Growth", "Each into an empty database; medians of 30 reads, warm.", report.table(head, rows)]


def _row(connection: Connection, lines: int) -> list[str]:
    db = fresh(connection)
    log = EventLog(db)
    with tempfile.TemporaryDirectory(prefix="squinney-bench-") as folder:
        path = sample_log(Path(folder), lines)
        began = time.perf_counter()
        read = log.import_file(path).lines
        rate = read / (time.perf_counter() - began)
    size = _stored_bytes(db) / read
    reads = [
        median_ms(lambda: log.page(first, last, limit=100, **asked))  # noqa: B023
        for first, last, asked in ASKED.values()
    ]
    return [f"{read:,}", f"{rate:,.0f}", f"{size:.0f}", *(f"{taken:.1f}" for taken in reads)]


def _stored_bytes(db: Db) -> float:
    db.client.admin.command("fsync")
    statistics = db.command("collStats", EVENTS)
    return float(statistics["storageSize"] + statistics["totalIndexSize"])
