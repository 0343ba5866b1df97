"""Roll-ups of a million events from empty, and of one per cent more."""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime, timedelta

from bson.timestamp import Timestamp

from bench import report
from bench._analytics_page import Aim, fresh, met
from squinney.analytics import Rollups
from squinney.mongo.connect import Connection
from squinney.mongo.schema import Db

EVENTS = 1_000_000
BATCH = 20_000


def rollups(connection: Connection, rounds: int, quick: bool) -> list[str]:
    """The newer events are of the last day, as those of a live log are."""
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
    time.sleep(1.1)  # arrival is in seconds: what is new must not share one with what is old
    rolled.run()
    _insert_raw(db, first, step, whole, whole + part)
    began = time.perf_counter()
    rolled.run()
    increment = time.perf_counter() - began
    connection.client.drop_database(db.name)
    rows = [
        (f"{whole:,} events from empty", f"{from_empty:.1f}", ""),
        (f"{part:,} newer ones", f"{increment:.2f}", f"{increment / from_empty:.1%}"),
    ]
    said = f"Events of 100 keys over 100 days, at all five levels ({ran.buckets['hourly']:,} hours)."
    aim = Aim("per cent of the whole, for 1% newer events", 5, 100 * increment / from_empty, at_most=True)
    return ["## Roll-ups", said, report.table(["what", "seconds", "of the whole"], rows), met([aim])]


def _insert_raw(db: Db, first: datetime, step: timedelta, start: int, end: int) -> None:
    chance = random.Random(start)
    for begin in range(start, end, BATCH):
        batch = [
            {
                "arrived": Timestamp(0, 0),
                "time": first + number * step,
                "path": f"/{chance.randrange(100)}",
                "bytes": chance.randrange(100_000),
            }
            for number in range(begin, min(end, begin + BATCH))
        ]
        db["events"].insert_many(batch, ordered=False)
