"""Hits: buffered, single and bulk upserts; a series of hours; the book's layouts; pre-allocation."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from pymongo import UpdateOne

from bench import report
from bench._analytics_page import Aim, fresh, met
from bench.harness import Contender, Series, compare
from squinney.analytics import BufferedHits, Hits
from squinney.mongo.connect import Connection
from squinney.mongo.schema import Db

PAGES = 100
AT = datetime(2026, 11, 16, 23, 30, tzinfo=UTC)
BULK = 1_000
DAYS = 30
ONCE, MANY, BUFFERED = (
    "one upsert per hit, plain driver",
    f"unordered bulk of {BULK:,} upserts, plain driver",
    "`BufferedHits`",
)


def hits(connection: Connection, rounds: int, quick: bool) -> list[str]:
    """Count hits of 100 pages in one thread. A round is longer than the flush interval, so that it includes flushes."""
    db = fresh(connection)
    rng = random.Random(1)
    pages = [f"/{number}" for number in range(PAGES)]
    buffered = BufferedHits(db)

    def upsert(_: int) -> None:
        _upsert_raw(db, [rng.choice(pages)])

    def bulk(_: int) -> None:
        _upsert_raw(db, [rng.choice(pages) for _ in range(BULK)])

    def buffer(_: int) -> None:
        for page in [rng.choice(pages) for _ in range(BULK)]:
            buffered.record("s", page, AT)

    contenders = [Contender(ONCE, upsert), Contender(MANY, bulk), Contender(BUFFERED, buffer)]
    series = compare(contenders, threads=1, rounds=rounds, seconds=2.0 if quick else 5.0)
    buffered.close()
    assert buffered.lost == 0
    once, many, ours = series
    rates = [once.rate, many.rate * BULK, ours.rate * BULK]
    against = [
        (contender.ratio_to(once) * size, contender.ratio_to(many) * size / BULK)
        for contender, size in zip(series, SIZES, strict=True)
    ]
    rows = [
        (contender.name, f"{rate:,.0f}", f"{ratios[0]:,.1f}x", f"{ratios[1]:,.2f}x")
        for contender, rate, ratios in zip(series, rates, against, strict=True)
    ]
    aims = [
        Aim("`BufferedHits` against one upsert per hit", 200, against[2][0]),
        Aim("`BufferedHits` against bulk upserts", 20, against[2][1]),
    ]
    head = ["contender", "hits/s", "against one upsert", "against bulk"]
    setup = (
        f"{PAGES} pages, one thread. The plain driver writes one document per page and day, "
        "`BufferedHits` also the month's document."
    )
    return ["## Hits", setup, report.table(head, rows), met(aims)]


SIZES = (1, BULK, BULK)


def _upsert_raw(db: Db, pages: list[str]) -> None:
    minute = {"total": 1, "hourly.23": 1, "minute.23.30": 1}
    writes = [UpdateOne({"_id": f"raw{page}"}, {"$inc": minute}, upsert=True) for page in pages]
    db["analytics.hits_daily"].bulk_write(writes, ordered=False)


def series(connection: Connection, rounds: int, quick: bool) -> list[str]:
    """Read 30 days of hours with `Hits`, and the same with the plain driver and the same index."""
    db = fresh(connection)
    counted = Hits(db)
    start = datetime(2026, 10, 1, tzinfo=UTC)
    end = start + timedelta(days=DAYS)
    counted.record_many([("s", "/", start + timedelta(minutes=n), 1) for n in range(DAYS * 1_440)])

    def raw(_: int) -> None:
        where = {"metadata.site": "s", "metadata.page": "/", "metadata.date": {"$gte": start, "$lt": end}}
        documents = (
            db["analytics.hits_daily"].find(where, {"_id": 0, "metadata.date": 1, "hourly": 1}).sort("metadata.date", 1)
        )
        days = {day["metadata"]["date"]: day["hourly"] for day in documents}
        hours = [start + timedelta(hours=n) for n in range(DAYS * 24)]
        points = [(at, days.get(at.replace(hour=0), {}).get(str(at.hour), 0)) for at in hours]
        assert len(points) == DAYS * 24

    def ours(_: int) -> None:
        assert len(counted.hours("s", "/", start, end)) == DAYS * 24

    contenders = [Contender("plain driver", raw), Contender("`Hits.hours`", ours)]
    measured = compare(contenders, threads=1, rounds=rounds, seconds=0.5 if quick else 3.0)
    rows = [
        (contender.name, f"{contender.percentile(0.5):.2f}", f"{1 / contender.ratio_to(measured[0]):.2f}x")
        for contender in measured
    ]
    aim = Aim("time compared with the plain driver", 1.2, 1 / measured[1].ratio_to(measured[0]), at_most=True)
    table = report.table(["contender", "ms, median", "against the plain driver"], rows)
    return ["## A series", "30 days of hours, zeros included, in one query.", table, met([aim])]


# ---- layouts of the counters ----

FLAT, NESTED, SPLIT = "flat minutes", "minutes within hours", "split by granularity"
MONTH = datetime(2026, 10, 1, tzinfo=UTC)
HOURS = {str(hour): 7 for hour in range(24)}
MINUTES = {str(minute): 7 for minute in range(1_440)}
BY_HOUR = {str(hour): {str(minute): 7 for minute in range(60)} for hour in range(24)}


def layouts(connection: Connection, rounds: int, quick: bool) -> list[str]:
    """Compare the book's layouts with 30 days of full documents; hits are of the last hour, the slowest one if flat."""
    db = fresh(connection)
    pages = range(4 if quick else 20)
    for kind in (FLAT, NESTED, SPLIT):
        _fill(db, kind, pages)
    kinds = (_writer, _day_reader, _month_reader)
    writes, hours, month = (
        compare(
            [Contender(kind, make(db, kind, pages)) for kind in (FLAT, NESTED, SPLIT)],
            threads=1,
            rounds=rounds,
            seconds=0.5 if quick else 2.0,
        )
        for make in kinds
    )
    rows = [
        (write.name, f"{write.rate * 100:,.0f}", f"{write.ratio_to(writes[0]):.2f}x", _ms(hour), _ms(days))
        for write, hour, days in zip(writes, hours, month, strict=True)
    ]
    head = ["layout", "hits/s", "against the first", "a day of hours, ms", "a month of days, ms"]
    setup = (
        f"The book's three layouts, {len(pages)} pages with {DAYS} days of every minute; unordered bulks of 100 hits "
        "in the last hour of the last day; plain driver. The split layout writes a second document, the month's."
    )
    return ["## Layouts", setup, report.table(head, rows)]


def _ms(contender: Series) -> str:
    return f"{contender.percentile(0.5):.2f}"


def _fill(db: Db, kind: str, pages: range) -> None:
    minute = MINUTES if kind == FLAT else BY_HOUR
    for page in pages:
        db[f"layout {kind}"].insert_many(
            [
                {
                    "_id": f"{page}-{day}",
                    "page": page,
                    "day": day,
                    "total": 1_440 * 7,
                    "hourly": HOURS,
                    "minute": minute,
                }
                for day in range(DAYS)
            ]
        )
    db[f"layout {kind}"].create_index([("page", 1), ("day", 1)])
    if kind == SPLIT:
        days = {str(day): 1_440 * 7 for day in range(DAYS)}
        db["layout months"].insert_many([{"_id": page, "total": DAYS * 1_440 * 7, "daily": days} for page in pages])


def _writer(db: Db, kind: str, pages: range) -> Callable[[int], None]:
    rng = random.Random(2)
    last = DAYS - 1

    def write(_: int) -> None:
        hits = [(rng.choice(pages), rng.randrange(60)) for _ in range(100)]
        path = "minute.{}" if kind == FLAT else "minute.23.{}"
        base = 1_380 if kind == FLAT else 0
        db[f"layout {kind}"].bulk_write(
            [
                UpdateOne(
                    {"_id": f"{page}-{last}"}, {"$inc": {"total": 1, "hourly.23": 1, path.format(base + minute): 1}}
                )
                for page, minute in hits
            ],
            ordered=False,
        )
        if kind == SPLIT:
            months = [UpdateOne({"_id": page}, {"$inc": {"total": 1, f"daily.{last}": 1}}) for page, _ in hits]
            db["layout months"].bulk_write(months, ordered=False)

    return write


def _day_reader(db: Db, kind: str, pages: range) -> Callable[[int], None]:
    rng = random.Random(3)

    def read(_: int) -> None:
        day = db[f"layout {kind}"].find_one({"_id": f"{rng.choice(pages)}-7"}, {"hourly": 1})
        assert day is not None
        assert len(day["hourly"]) == 24

    return read


def _month_reader(db: Db, kind: str, pages: range) -> Callable[[int], None]:
    rng = random.Random(4)

    def read_days(_: int) -> None:
        documents = db[f"layout {kind}"].find({"page": rng.choice(pages)}, {"day": 1, "total": 1}).sort("day", 1)
        assert len([day["total"] for day in documents]) == DAYS

    def read_month(_: int) -> None:
        month = db["layout months"].find_one({"_id": rng.choice(pages)}, {"daily": 1})
        assert month is not None
        assert len(month["daily"]) == DAYS

    return read_month if kind == SPLIT else read_days


# ---- pre-allocation ----


def preallocation(connection: Connection, rounds: int, quick: bool) -> list[str]:
    """Measure a day of hits on documents created in advance and on new ones, and the time to create them."""
    db = fresh(connection)
    counted = Hits(db)
    ahead: list[float] = []
    first: dict[str, list[float]] = {"ready": [], "new": []}
    day: dict[str, list[float]] = {"ready": [], "new": []}
    pages = 10 if quick else 50
    for number in range(rounds):
        at = MONTH + timedelta(days=number)
        ahead.append(_each(pages, lambda page: counted.preallocate("s", f"/ready/{page}", at)))  # noqa: B023
        for kind in ("ready", "new") if number % 2 == 0 else ("new", "ready"):
            first[kind].append(_each(pages, lambda page: counted.record("s", f"/{kind}/{page}", at)))  # noqa: B023
            day[kind].append(_a_day(counted, kind, pages, at))
    rows = [
        (what, f"{statistics.median(first[kind]):.2f}", f"{statistics.median(day[kind]):,.0f}")
        for kind, what in (("ready", "created in advance"), ("new", "created by the first hit"))
    ]
    head = ["documents", "first hit of a page's day, ms", "hits/s over a day"]
    cost = f"Creating a page's day and month in advance takes {statistics.median(ahead):.2f} ms, not in the first row."
    return ["## Pre-allocation", report.table(head, rows), cost]


def _each(pages: int, work: Callable[[int], None]) -> float:
    began = time.perf_counter()
    for page in range(pages):
        work(page)
    return (time.perf_counter() - began) / pages * 1000


def _a_day(counted: Hits, kind: str, pages: int, at: datetime) -> float:
    """Count a hit in every third minute of a day on each page, one call per hour, as a buffer does; return hits/s."""
    written = 0
    began = time.perf_counter()
    for hour in range(24):
        views: list[tuple[Any, ...]] = [
            ("s", f"/{kind}/{page}", at + timedelta(hours=hour, minutes=minute))
            for page in range(pages)
            for minute in range(0, 60, 3)
        ]
        written += counted.record_many(views)
    return written / (time.perf_counter() - began)
