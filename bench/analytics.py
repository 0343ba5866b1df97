"""Analytics: imports beside the raw driver, mongoimport and GoAccess; hits, series and roll-ups beside the raw driver.

The log is the real one that the tests use, repeated. `mongoimport` and `goaccess` take part where they are on the PATH.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bson.timestamp import Timestamp
from pymongo import UpdateOne

from bench import report
from bench.harness import Contender, Series, compare
from squinney.analytics import COLLECTIONS, BufferedHits, EventLog, Hits, Rollups, parsers
from squinney.analytics.sources import event_id
from squinney.analytics.storing import as_text, made_ready
from squinney.mongo import schema
from squinney.mongo.connect import Connection
from squinney.mongo.schema import Db

LINES = 100_000
ROLLED = 1_000_000
PAGES = 100
BATCH = 5_000
AT = datetime(2026, 11, 16, 23, 30, tzinfo=UTC)
Row = tuple[str, ...]


def run(connection: Connection, *, rounds: int = 3, seconds: float = 2.0) -> None:
    """Measure everything and write the page."""
    quick = seconds < 1
    with tempfile.TemporaryDirectory(prefix="squinney-bench-") as folder:
        log = _log(Path(folder), LINES // (5 if quick else 1))
        parts = [
            *_imports(connection, log, rounds),
            *_memory(connection, log, 2 if quick else 4),
            *_hits(connection, rounds, seconds),
            *_series(connection, rounds, seconds),
            *_layouts(connection, rounds, seconds),
            *_rollups(connection, ROLLED // (10 if quick else 1)),
        ]
    version = connection.client.admin.command("buildInfo")["version"]
    parts.append(
        f"{rounds} interleaved rounds; medians. {report.machine(version)} The machine was shared with other work while "
        "this was measured: the ratios are of contenders that took turns, the rates are lower than on an idle one."
    )
    report.write_page("analytics", "Analytics beside the raw driver and its peers", parts)


def _fresh(connection: Connection) -> Db:
    connection.client.drop_database("bench_analytics")
    db: Db = connection.client["bench_analytics"]
    schema.apply(db, COLLECTIONS)
    return db


def _log(folder: Path, lines: int) -> Path:
    """The real log, as often as it takes; the places it is looked for in are those of the tests."""
    places = [Path(os.environ.get("SQUINNEY_TEST_DATA", "."))]
    places += [parent / "shared" / "data" for parent in Path(__file__).resolve().parents]
    found = next((place / "access.log.gz" for place in places if (place / "access.log.gz").exists()), None)
    if found is None:
        raise SystemExit("the sample log is not here: set SQUINNEY_TEST_DATA to the folder with access.log.gz")
    content = gzip.decompress(found.read_bytes())
    path = folder / "access.log"
    path.write_bytes(content * (lines // content.count(b"\n")))
    return path


# ---- imports ----


def _imports(connection: Connection, log: Path, rounds: int) -> list[str]:
    lines = log.read_bytes().count(b"\n")
    events = _events(log)
    as_json = log.with_suffix(".json")
    with as_json.open("w") as file:
        for event in events:
            plain = {**event, "time": {"$date": event["time"].isoformat()}}
            del plain["arrived"]
            file.write(json.dumps(plain) + "\n")
    uri = connection.embedded.uri if connection.embedded else os.environ["MONGODB_URI"]
    contenders: dict[str, Callable[[Db], None] | str] = {
        "`insert_many` of ready dicts, one thread": lambda db: _insert_many(db, events),
        "`import_file`, one process": lambda db: _import(db, log, 1, uri),
        "`import_file`, two processes": lambda db: _import(db, log, 2, uri),
        "`mongoimport` of the same as JSON": _program("mongoimport", _mongoimport(as_json, uri)),
        "GoAccess, parsing to its store": _program("goaccess", _goaccess(log)),
    }
    rates: dict[str, list[float]] = {name: [] for name, work in contenders.items() if callable(work)}
    for number in range(rounds):
        for name in list(rates) if number % 2 == 0 else reversed(rates):
            db = _fresh(connection)
            work: Any = contenders[name]
            began = time.perf_counter()
            work(db)
            rates[name].append(lines / (time.perf_counter() - began))
            print(f"{name}: {rates[name][-1]:,.0f} lines/s", flush=True)
    base = rates["`insert_many` of ready dicts, one thread"]
    rows: list[Row] = []
    for name, work in contenders.items():
        if isinstance(work, str):
            rows.append((name, work, ""))
        else:
            ratio = statistics.median(mine / theirs for mine, theirs in zip(rates[name], base, strict=True))
            rows.append((name, f"{statistics.median(rates[name]):,.0f}", f"{ratio:.2f}x"))
    said = f"A combined log of {lines:,} lines, with the four indexes in place, written with majority."
    return ["## Imports", said, report.table(["how", "lines/s", "against insert_many"], rows)]


def _events(log: Path) -> list[dict[str, Any]]:
    events, offset = [], 0
    for line in log.read_bytes().split(b"\n"):
        with suppress(parsers.Malformed):
            events.append(made_ready(parsers.parser_for("combined")(as_text(line)), event_id("bench", offset)))
        offset += len(line) + 1
    return events


def _insert_many(db: Db, events: list[dict[str, Any]]) -> None:
    for start in range(0, len(events), BATCH):
        db["events"].insert_many(events[start : start + BATCH], ordered=False)


def _import(db: Db, log: Path, processes: int, uri: str) -> None:
    EventLog(db).import_file(log, processes=processes, uri=uri)


def _program(name: str, work: Callable[[str, Db], None]) -> Callable[[Db], None] | str:
    found = shutil.which(name)
    return f"{name} is not on the PATH" if found is None else lambda db: work(found, db)


def _mongoimport(path: Path, uri: str) -> Callable[[str, Db], None]:
    def work(program: str, db: Db) -> None:
        target = ["--uri", uri, "--db", db.name, "--collection", "events", "--writeConcern", "majority"]
        subprocess.run([program, *target, "--quiet", "--file", str(path)], check=True)

    return work


def _goaccess(log: Path) -> Callable[[str, Db], None]:
    def work(program: str, db: Db) -> None:
        store = log.parent / "goaccess"
        shutil.rmtree(store, ignore_errors=True)
        store.mkdir()
        options = ["--log-format=COMBINED", "--persist", f"--db-path={store}", "--no-progress", "-o", f"{store}/x.json"]
        subprocess.run([program, str(log), *options], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    return work


MEMORY = """
import sys
from squinney.analytics import EventLog
from squinney.mongo.connect import client_for
EventLog(client_for(sys.argv[1])["bench_analytics"]).import_file(sys.argv[2])
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def _memory(connection: Connection, log: Path, times: int) -> list[str]:
    """The most memory an import takes, for a log and for several times as much; ru_maxrss would count its parent's."""
    if not Path("/proc/self/status").exists():
        return []
    uri = connection.embedded.uri if connection.embedded else os.environ["MONGODB_URI"]
    long = log.with_name("long.log")
    with long.open("wb") as file:
        for _ in range(times):
            file.write(log.read_bytes())
    peaks = []
    for path in (log, long):
        _fresh(connection)
        done = subprocess.run(
            [sys.executable, "-c", MEMORY, uri, str(path)], capture_output=True, text=True, check=True
        )
        peaks.append((path.stat().st_size >> 20, int(done.stdout) >> 10))
    long.unlink()
    print("memory", peaks, flush=True)
    said = " and ".join(f"{peak} MiB for a log of {size} MiB" for size, peak in peaks)
    return [f"The importing process takes at most {said}, Python and the driver included."]


# ---- hits ----


def _hits(connection: Connection, rounds: int, seconds: float) -> list[str]:
    db = _fresh(connection)
    chance = random.Random(1)
    buffered = BufferedHits(db)

    def upsert(_: int) -> None:
        _upsert_raw(db, [chance.randrange(PAGES)])

    def bulk(_: int) -> None:
        _upsert_raw(db, [chance.randrange(PAGES) for _ in range(1_000)])

    def buffer(_: int) -> None:
        for _ in range(1_000):
            buffered.record("s", f"/{chance.randrange(PAGES)}", AT)

    # Rounds must be longer than the buffer's age, or its flushes would fall outside of them.
    seconds = max(seconds, 2.0)
    contenders = [
        Contender("one upsert per hit, raw driver", upsert),
        Contender("unordered bulk of 1,000 upserts, raw driver", bulk),
        Contender("`BufferedHits`", buffer),
    ]
    series = compare(contenders, threads=1, rounds=rounds, seconds=seconds)
    buffered.close()
    assert buffered.lost == 0
    sizes = [1, 1_000, 1_000]
    rates = [one.rate * size for one, size in zip(series, sizes, strict=True)]
    rows = [
        (one.name, f"{rate:,.0f}", f"{rate / rates[0]:,.1f}x", f"{rate / rates[1]:,.1f}x")
        for one, rate in zip(series, rates, strict=True)
    ]
    head = ["how", "hits/s", "against one upsert", "against bulk"]
    return ["## Hits", f"{PAGES} pages, one thread, one document per page and day.", report.table(head, rows)]


def _upsert_raw(db: Db, pages: list[int]) -> None:
    minute = {"total": 1, "hourly.23": 1, "minute.23.30": 1}
    writes = [UpdateOne({"_id": f"raw-{page}"}, {"$inc": minute}, upsert=True) for page in pages]
    db["hits.daily"].bulk_write(writes, ordered=False)


def _series(connection: Connection, rounds: int, seconds: float) -> list[str]:
    db = _fresh(connection)
    hits = Hits(db)
    start = datetime(2026, 10, 1, tzinfo=UTC)
    end = start + timedelta(days=30)
    hits.record_many([("s", "/", start + timedelta(minutes=n), 1) for n in range(30 * 1_440)])

    def raw(_: int) -> None:
        where = {"metadata.site": "s", "metadata.page": "/", "metadata.date": {"$gte": start, "$lt": end}}
        found = db["hits.daily"].find(where, {"_id": 0, "metadata.date": 1, "hourly": 1}).sort("metadata.date", 1)
        days = {day["metadata"]["date"]: day["hourly"] for day in found}
        hours = [start + timedelta(hours=n) for n in range(720)]
        points = [(at, days.get(at.replace(hour=0), {}).get(str(at.hour), 0)) for at in hours]
        assert len(points) == 720

    def ours(_: int) -> None:
        assert len(hits.hours("s", "/", start, end)) == 720

    series = compare(
        [Contender("raw driver", raw), Contender("`Hits.hours`", ours)], threads=1, rounds=rounds, seconds=seconds
    )
    rows = [(one.name, f"{one.percentile(0.5):.2f}", f"{1 / one.ratio_to(series[0]):.2f}x") for one in series]
    return ["30 days of hours, complete, in one query:", report.table(["how", "ms, median", "time against raw"], rows)]


# ---- layouts of the counters ----


def _layouts(connection: Connection, rounds: int, seconds: float) -> list[str]:
    """The book's layouts, at the last minute of the day, where the order of fields matters most."""
    db = _fresh(connection)
    flat = {f"{minute:04}": 0 for minute in range(1_440)}
    nested = {str(hour): {str(minute): 0 for minute in range(60)} for hour in range(24)}
    kinds: dict[str, tuple[dict[str, Any], str]] = {
        "flat minutes": ({"total": 0, "minute": flat}, "minute.1430"),
        "minutes within hours": ({"total": 0, "minute": nested}, "minute.23.50"),
    }
    contenders = []
    for name, (zeros, path) in kinds.items():
        for ahead in (True, False):
            collection = db[f"{name}-{ahead}".replace(" ", "-")]
            document = zeros if ahead else {"total": 0}
            collection.insert_many([{"_id": page, **document} for page in range(PAGES)])
            label = f"{name}, {'pre-allocated' if ahead else 'as they come'}"
            contenders.append(Contender(label, _incrementer(collection, path)))
    series: list[Series] = compare(contenders, threads=1, rounds=rounds, seconds=seconds)
    rows = [(one.name, f"{one.rate:,.0f}", f"{one.ratio_to(series[0]):.2f}x") for one in series]
    first = _first_hits(db, connection)
    head = ["layout of a day's document", "increments/s", "against the first"]
    return ["## Layouts and pre-allocation", "One increment per write, raw driver.", report.table(head, rows), first]


def _incrementer(collection: Any, path: str) -> Callable[[int], None]:
    chance = random.Random(2)
    return lambda _: collection.update_one({"_id": chance.randrange(PAGES)}, {"$inc": {"total": 1, path: 1}})


def _first_hits(db: Db, connection: Connection) -> str:
    """The first hit of a page's day, with and without its documents made ahead, and what making them costs."""
    hits = Hits(db)
    tomorrow = AT + timedelta(days=1)
    began = time.perf_counter()
    for page in range(PAGES):
        hits.preallocate("s", f"/ready/{page}", tomorrow)
    ahead = (time.perf_counter() - began) / PAGES * 1000
    times = {}
    for kind in ("ready", "new"):
        began = time.perf_counter()
        for page in range(PAGES):
            hits.record("s", f"/{kind}/{page}", tomorrow)
        times[kind] = (time.perf_counter() - began) / PAGES * 1000
    return (
        f"The first hit of a page's day takes {times['ready']:.2f} ms where `preallocate` ran before, and "
        f"{times['new']:.2f} ms where it did not; making the documents ahead takes {ahead:.2f} ms."
    )


# ---- roll-ups ----


def _rollups(connection: Connection, events: int) -> list[str]:
    db = _fresh(connection)
    whole, part = events, events // 100
    first = datetime(2026, 1, 1, tzinfo=UTC)
    step = timedelta(days=100) / (whole + part)
    _insert_raw(db, first, step, 0, whole)
    rollups = Rollups(db, key="path", value="bytes", time="time", overlap_seconds=0)
    began = time.perf_counter()
    ran = rollups.run()
    from_empty = time.perf_counter() - began
    time.sleep(1.1)  # arrival is in seconds: what is new must not share one with what is old
    rollups.run()
    _insert_raw(db, first, step, whole, whole + part)
    began = time.perf_counter()
    rollups.run()
    increment = time.perf_counter() - began
    connection.client.drop_database(db.name)
    rows = [
        (f"{whole:,} events from empty", f"{from_empty:.1f}", ""),
        (f"{part:,} newer ones", f"{increment:.2f}", f"{increment / from_empty:.1%}"),
    ]
    said = f"Events of 100 keys over 100 days, at all five levels ({ran.buckets['hourly']:,} hours)."
    return ["## Roll-ups", said, report.table(["what", "seconds", "of the whole"], rows)]


def _insert_raw(db: Db, first: datetime, step: timedelta, start: int, end: int) -> None:
    chance = random.Random(start)
    for begin in range(start, end, 20_000):
        batch = [
            {
                "arrived": Timestamp(0, 0),
                "time": first + number * step,
                "path": f"/{chance.randrange(100)}",
                "bytes": chance.randrange(100_000),
            }
            for number in range(begin, min(end, begin + 20_000))
        ]
        db["events"].insert_many(batch, ordered=False)
