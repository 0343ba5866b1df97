"""The first run of a roll-up over a million events, and a second run with one per cent more."""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime, timedelta

from bench import report
from bench._analytics_page import Aim, fresh, met
from squinney.analytics import Rollups
from squinney.analytics.events.pages import PageBuilder
from squinney.mongo.connect import Connection
from squinney.mongo.schema import Db

EVENTS = 1_000_000
BATCH = 20_000


def rollups(connection: Connection, rounds: int, quick: bool) -> list[str]:
    """Measure both runs; the new events are of the last day, as in a live log."""
    db = fresh(connection)
    whole = EVENTS // (10 if quick else 1)
    part = whole // 100
    first = datetime(2026, 1, 1, tzinfo=UTC)
    step = timedelta(days=100) / (whole + part)
    _insert_raw(db, first, step, 0, whole)
    rolled = Rollups(db, key="path", value="bytes", time="time", overlap_seconds=0)
    began = time.perf_counter()
    ran = rolled.run()
    from_empty = time.perf_counter() - began
    time.sleep(1.1)  # arrival has a resolution of seconds, and new events must not share a second with old ones
    rolled.run()
    _insert_raw(db, first, step, whole, whole + part)
    began = time.perf_counter()
    rolled.run()
    increment = time.perf_counter() - began
    connection.client.drop_database(db.name)
    rows = [
        (f"first run, {whole:,} events", f"{from_empty:.1f}", ""),
        (f"second run, {part:,} new events", f"{increment:.2f}", f"{increment / from_empty:.1%}"),
    ]
    setup = f"Events of 100 keys over 100 days, at all five levels ({ran.buckets['hourly']:,} hours)."
    aim = Aim("time of the second run, in per cent of the first", 5, 100 * increment / from_empty, at_most=True)
    return ["## Roll-ups", setup, report.table(["run", "seconds", "of the first"], rows), met([aim])]


def _insert_raw(db: Db, first: datetime, step: timedelta, start: int, end: int) -> None:
    rng = random.Random(start)
    builder = PageBuilder(f"bench{start}")
    for begin in range(start, end, BATCH):
        for number in range(begin, min(end, begin + BATCH)):
            event = {
                "time": first + number * step,
                "path": f"/{rng.randrange(100)}",
                "bytes": rng.randrange(100_000),
            }
            builder.add_document(event, number)
        db["analytics.events"].insert_many([page.document for page in builder.finish()], ordered=False)
