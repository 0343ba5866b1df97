"""Imports of a combined log into pages, compared with a document an event, mongoimport and GoAccess; memory and reads.

The log is the real one of the tests, repeated. `mongoimport` and `goaccess` are measured if they are on the PATH.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import bson

from bench import report
from bench._analytics_page import Aim, fresh, met
from squinney.analytics import EventLog, parsers
from squinney.analytics.events.documents import EVENTS, FLAT_INDEXES
from squinney.analytics.events.lines import decoded_line
from squinney.analytics.parsers.encoded import encoder
from squinney.mongo.connect import Connection
from squinney.mongo.schema import Db

LINES = 200_000
BATCH = 5_000
MEMORY_MB = 150
FLAT = "flat"  # the collection with a document for each event
PAGES = "`import_file`: pages, all indexes"
BOOK = "a document an event (the book), `insert_many` of parsed dicts, four indexes"
PLAIN = "the same without indexes"
MONGOIMPORT, GOACCESS = "`mongoimport` of the same events as JSON", "GoAccess, parsing into its store"
Row = tuple[str, ...]


@dataclass
class Runs:
    """The results of one contender per round: lines per second, and microseconds of processor time per line."""

    rates: list[float] = field(default_factory=list)
    server: list[float] = field(default_factory=list)
    own: list[float] = field(default_factory=list)
    stored: list[float] = field(default_factory=list)

    def against(self, other: Runs) -> float:
        """Return the median ratio of this rate to the other contender's rate."""
        return statistics.median(mine / theirs for mine, theirs in zip(self.rates, other.rates, strict=True))

    def row(self, base: Runs) -> Row:
        """Return the cells of this contender's row."""
        each = ", ".join(f"{rate:,.0f}" for rate in self.rates)
        times = f"{statistics.median(self.server):.1f} + {statistics.median(self.own):.1f}"
        stored = f"{statistics.median(self.stored):.0f}" if self.stored else ""
        return f"{statistics.median(self.rates):,.0f}", each, f"{self.against(base):.2f}x", times, stored


def imports(connection: Connection, rounds: int, quick: bool) -> list[str]:
    """Measure all contenders in turns, each with an empty database with all indexes."""
    with tempfile.TemporaryDirectory(prefix="squinney-bench-") as folder:
        log = sample_log(Path(folder), LINES // (10 if quick else 1))
        lines = log.read_bytes().count(b"\n")
        contenders = _contenders(connection, log)
        runs = _runs(connection, contenders, lines, rounds)
        paths = _encoding_paths(log)
    rows: list[Row] = [
        (name, *runs[name].row(runs[BOOK])) if name in runs else (name, str(work), "", "", "", "")
        for name, work in contenders.items()
    ]
    setup = (
        f"A combined log of {lines:,} lines, written with majority. Processor time is that of the server plus that of "
        "the contender, in microseconds per line; bytes are those of the collection and its indexes on disk, per line."
    )
    head = ["contender", "lines/s, median", "rounds", "against the book", "processor time", "bytes"]
    return ["## Imports", setup, report.table(head, rows), met(_aims(runs)), _ceiling(runs), paths]


def _ceiling(runs: dict[str, Runs]) -> str:
    cores = os.cpu_count() or 1
    least = min(statistics.median(measured.server) for name, measured in runs.items() if name != GOACCESS)
    most = round(cores * 1e6 / least, -3)
    return (
        f"The server needs at least {least:.1f} us of processor time per line, so {cores} cores cannot store "
        f"more than about {most:,.0f} lines/s, even if parsing took no time. GoAccess stores only counts, not lines."
    )


def _encoding_paths(log: Path) -> str:
    """Measure the processor time of both paths from a line to BSON, and take the best round, since neither waits."""
    lines = log.read_bytes().split(b"\n", 10_000)[:10_000]
    parse, encode = parsers.parser_for("combined"), encoder()

    def general(line: bytes) -> None:
        with suppress(parsers.Malformed):
            bson.encode(parse(decoded_line(line)))

    fast_us, general_us = _best(encode, lines), _best(general, lines)
    return (
        f"Processor time from a line to BSON: {general_us:.1f} us on the general path with a string and a dict, "
        f"{fast_us:.1f} us on the fast path from the bytes (best of ten)."
    )


def _best(work: Callable[[bytes], object], lines: list[bytes]) -> float:
    def once() -> float:
        began = time.process_time()
        for line in lines:
            work(line)
        return (time.process_time() - began) / len(lines) * 1e6

    return min(once() for _ in range(10))


def _aims(runs: dict[str, Runs]) -> list[Aim]:
    aims = [
        Aim("pages, against a document an event", 2.0, runs[PAGES].against(runs[BOOK])),
        Aim("bytes stored a line", 80, statistics.median(runs[PAGES].stored), at_most=True),
    ]
    if GOACCESS in runs:
        aims.append(Aim("pages, against GoAccess", 1.2, runs[PAGES].against(runs[GOACCESS])))
    return aims


def sample_log(folder: Path, lines: int) -> Path:
    """Write the real log, repeated each year; it is searched for in the same folders as by the tests."""
    folders = [Path(os.environ.get("SQUINNEY_TEST_DATA", "."))]
    folders += [parent / "shared" / "data" for parent in Path(__file__).resolve().parents]
    sample = next((path / "access.log.gz" for path in folders if (path / "access.log.gz").exists()), None)
    if sample is None:
        raise SystemExit("the sample log was not found: set SQUINNEY_TEST_DATA to the folder with access.log.gz")
    content = gzip.decompress(sample.read_bytes())
    path = folder / "access.log"
    copies = lines // content.count(b"\n")
    with path.open("wb") as file:
        for number in range(copies):
            file.write(content.replace(b"/2015:", b"/%d:" % (2015 - number)))
    return path


def _contenders(connection: Connection, log: Path) -> dict[str, Callable[[Db], None] | str]:
    events = _events(log)
    as_json = log.with_suffix(".json")
    with as_json.open("w") as file:
        for event in events:
            file.write(json.dumps({**event, "time": {"$date": event["time"].isoformat()}}) + "\n")
    uri = uri_of(connection)
    return {
        PAGES: lambda db: _import(db, log),
        BOOK: lambda db: _insert_many(db, events, indexed=True),
        PLAIN: lambda db: _insert_many(db, events, indexed=False),
        MONGOIMPORT: _program("mongoimport", _mongoimport(as_json, uri)),
        GOACCESS: _program("goaccess", _goaccess(log)),
    }


def _runs(
    connection: Connection, contenders: dict[str, Callable[[Db], None] | str], lines: int, rounds: int
) -> dict[str, Runs]:
    runs = {name: Runs() for name, work in contenders.items() if callable(work)}
    for number in range(rounds):
        for name in list(runs) if number % 2 == 0 else reversed(runs):
            db = fresh(connection)
            work: Any = contenders[name]
            server, own, began = _server_seconds(connection), sum(os.times()[:4]), time.perf_counter()
            work(db)
            runs[name].rates.append(lines / (time.perf_counter() - began))
            runs[name].own.append((sum(os.times()[:4]) - own) / lines * 1e6)
            runs[name].server.append((_server_seconds(connection) - server) / lines * 1e6)
            if stored := _bytes_stored(db):
                runs[name].stored.append(stored / lines)
            print(f"{name}: {runs[name].rates[-1]:,.0f} lines/s", flush=True)
    return runs


def _server_seconds(connection: Connection) -> float:
    used = connection.client.admin.command("serverStatus")["extra_info"]
    return float(used["user_time_us"] + used["system_time_us"]) / 1e6


def uri_of(connection: Connection) -> str:
    """Return the URI for programs and processes with their own connection."""
    return connection.embedded.uri if connection.embedded else os.environ["MONGODB_URI"]


def _events(log: Path) -> list[dict[str, Any]]:
    parse = parsers.parser_for("combined")
    events, offset = [], 0
    for line in log.read_bytes().split(b"\n"):
        with suppress(parsers.Malformed):
            if (event := parse(decoded_line(line))) is not None:
                events.append({"_id": f"0123456789abcdef-{offset:012x}", **event})
        offset += len(line) + 1
    return events


def _insert_many(db: Db, events: list[dict[str, Any]], *, indexed: bool) -> None:
    if indexed:
        db[FLAT].create_indexes([index.model() for index in FLAT_INDEXES])
    for start in range(0, len(events), BATCH):
        db[FLAT].insert_many(events[start : start + BATCH], ordered=False)


def _import(db: Db, log: Path) -> None:
    EventLog(db).import_file(log)


def _bytes_stored(db: Db) -> int:
    """Return the size on disk of the events and their indexes, after a checkpoint."""
    db.client.admin.command("fsync")
    sizes = [db.command("collStats", name) for name in (EVENTS, FLAT) if db[name].find_one({}, {"_id": 1})]
    return sum(size["storageSize"] + size["totalIndexSize"] for size in sizes)


def _program(name: str, work: Callable[[str, Db], None]) -> Callable[[Db], None] | str:
    program = shutil.which(name)
    return f"{name} is not on the PATH" if program is None else lambda db: work(program, db)


def _mongoimport(path: Path, uri: str) -> Callable[[str, Db], None]:
    def work(program: str, db: Db) -> None:
        target = ["--uri", uri, "--db", db.name, "--collection", FLAT, "--writeConcern", "majority"]
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


def memory(connection: Connection, rounds: int, quick: bool) -> list[str]:
    """Measure the peak memory of an import, for two sizes of a log; `ru_maxrss` would include the parent's memory."""
    if not Path("/proc/self/status").exists():
        return ["## Memory", "Not measured: this system has no /proc."]
    peaks = []
    with tempfile.TemporaryDirectory(prefix="squinney-bench-") as folder:
        for times in (1, 4):
            fresh(connection)
            path = sample_log(Path(folder), LINES * times // (10 if quick else 2))
            program = [sys.executable, "-c", MEMORY, uri_of(connection), str(path)]
            done = subprocess.run(program, capture_output=True, text=True, check=True)
            peaks.append((path.stat().st_size >> 20, int(done.stdout) >> 10))
    peak_texts = " and ".join(f"{peak} MiB for a log of {size} MiB" for size, peak in peaks)
    aim = Aim("peak memory in MiB", MEMORY_MB, max(peak for _, peak in peaks), at_most=True)
    text = f"The peak memory of the importing process is {peak_texts}, including Python and the driver."
    return ["## Memory", text, met([aim])]


def reads(connection: Connection, rounds: int, quick: bool) -> list[str]:
    """Measure the first page of each kind of reading, warm, in pages and with a document an event."""
    db = fresh(connection)
    with tempfile.TemporaryDirectory(prefix="squinney-bench-") as folder:
        log = sample_log(Path(folder), LINES * 5 // (50 if quick else 1))
        lines = log.read_bytes().count(b"\n")
        EventLog(db).import_file(log)
        _insert_many(db, _events(log), indexed=True)
    rows = []
    slowest = 0.0
    for name, (first, last, wanted) in ASKED.items():
        pages = median_ms(lambda: EventLog(db).page(first, last, limit=100, **wanted))  # noqa: B023
        where = {**wanted, "time": {"$gte": first, "$lt": last}}
        flat = median_ms(lambda: list(db[FLAT].find(where).sort("time", 1).limit(100)))  # noqa: B023
        rows.append((name, f"{pages:.1f}", f"{flat:.1f}"))
        slowest = max(slowest, pages)
    connection.client.drop_database(db.name)
    table = report.table(["the first", "pages, ms", "a document an event, ms"], rows)
    aim = Aim("the slowest first page in ms", 5, slowest, at_most=True)
    return ["## Reads", f"Medians of 30, warm, of {lines:,} lines.", table, met([aim])]


START, END = datetime(1000, 1, 2, tzinfo=UTC), datetime(2016, 1, 1, tzinfo=UTC)
MINUTE = datetime(2015, 5, 18, 10, 5, tzinfo=UTC)
ASKED: dict[str, tuple[datetime, datetime, dict[str, str]]] = {
    "100 events of a busy path": (START, END, {"path": "/favicon.ico"}),
    "100 events of a host": (START, END, {"host": "66.249.73.135"}),
    "100 events of a rare path": (START, END, {"path": "/robots.txt.bak"}),
    "100 events of a minute": (MINUTE, MINUTE + timedelta(minutes=1), {}),
}


def median_ms(work: Callable[[], object]) -> float:
    times = []
    for _ in range(30):
        began = time.perf_counter()
        work()
        times.append((time.perf_counter() - began) * 1e3)
    return statistics.median(times)
