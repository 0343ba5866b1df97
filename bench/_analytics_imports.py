"""Imports of a combined log, compared with the plain driver, mongoimport and GoAccess; and the memory of an import.

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
from pathlib import Path
from typing import Any

import bson

from bench import report
from bench._analytics_page import Aim, fresh, met
from squinney.analytics import EventLog, parsers
from squinney.analytics.events.sources import event_id
from squinney.analytics.events.storing import as_text, with_storage_fields
from squinney.analytics.parsers.encoded import encoder
from squinney.mongo.connect import Connection
from squinney.mongo.schema import Db

LINES = 200_000
BATCH = 5_000
MEMORY_MB = 150
RAW = "`insert_many` of parsed dicts, one thread"
ONE, TWO = "`import_file`, one process", "`import_file`, two processes"
MONGOIMPORT, GOACCESS = "`mongoimport` of the same events as JSON", "GoAccess, parsing into its store"
Row = tuple[str, ...]


@dataclass
class Runs:
    """The results of one contender per round: lines per second, and microseconds of processor time per line."""

    rates: list[float] = field(default_factory=list)
    server: list[float] = field(default_factory=list)
    own: list[float] = field(default_factory=list)

    def against(self, other: Runs) -> float:
        """Return the median ratio of this rate to the other contender's rate."""
        return statistics.median(mine / theirs for mine, theirs in zip(self.rates, other.rates, strict=True))

    def row(self, base: Runs) -> Row:
        """Return the cells of this contender's row."""
        each = ", ".join(f"{rate:,.0f}" for rate in self.rates)
        times = f"{statistics.median(self.server):.1f} + {statistics.median(self.own):.1f}"
        return f"{statistics.median(self.rates):,.0f}", each, f"{self.against(base):.2f}x", times


def imports(connection: Connection, rounds: int, quick: bool) -> list[str]:
    """Measure all contenders in turns, each with an empty database with all indexes."""
    with tempfile.TemporaryDirectory(prefix="squinney-bench-") as folder:
        log = _log(Path(folder), LINES // (10 if quick else 1))
        lines = log.read_bytes().count(b"\n")
        contenders = _contenders(connection, log)
        runs = _runs(connection, contenders, lines, rounds)
        paths = _encoding_paths(log)
    rows: list[Row] = [
        (name, *runs[name].row(runs[RAW])) if name in runs else (name, str(work), "", "", "")
        for name, work in contenders.items()
    ]
    setup = (
        f"A combined log of {lines:,} lines, with the four indexes, written with majority. Processor time is "
        "that of the server plus that of the contender, in microseconds per line."
    )
    head = ["contender", "lines/s, median", "rounds", "against insert_many", "processor time"]
    return ["## Imports", setup, report.table(head, rows), met(_aims(runs)), _ceiling(runs), paths]


def _ceiling(runs: dict[str, Runs]) -> str:
    cores = os.cpu_count() or 1
    least = min(statistics.median(one.server) for name, one in runs.items() if name != GOACCESS)
    most = round(cores * 1e6 / least, -3)
    return (
        f"The server needs at least {least:.1f} us of processor time per line, so {cores} cores cannot store and index "
        f"more than about {most:,.0f} lines/s, even if parsing took no time. GoAccess stores only counts, not lines."
    )


def _encoding_paths(log: Path) -> str:
    """Measure the processor time of both paths from a line to BSON, and take the best round, since neither waits."""
    lines = log.read_bytes().split(b"\n", 10_000)[:10_000]
    parse, encode = parsers.parser_for("combined"), encoder("0123456789abcdef")

    def general(line: bytes) -> None:
        with suppress(parsers.Malformed):
            bson.encode(with_storage_fields(parse(as_text(line)), event_id("0123456789abcdef", 7)))

    fast_us, general_us = _best(lambda line: encode(line, 7), lines), _best(general, lines)
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
        Aim("one process, against `insert_many`", 0.9, runs[ONE].against(runs[RAW])),
        Aim("two processes, against `insert_many`", 1.0, runs[TWO].against(runs[RAW])),
    ]
    if GOACCESS in runs:
        aims.append(Aim("two processes, against GoAccess", 1.2, runs[TWO].against(runs[GOACCESS])))
    return aims


def _log(folder: Path, lines: int) -> Path:
    """Write the real log, repeated, into the folder; it is searched for in the same folders as by the tests."""
    folders = [Path(os.environ.get("SQUINNEY_TEST_DATA", "."))]
    folders += [parent / "shared" / "data" for parent in Path(__file__).resolve().parents]
    found = next((path / "access.log.gz" for path in folders if (path / "access.log.gz").exists()), None)
    if found is None:
        raise SystemExit("the sample log was not found: set SQUINNEY_TEST_DATA to the folder with access.log.gz")
    content = gzip.decompress(found.read_bytes())
    path = folder / "access.log"
    path.write_bytes(content * (lines // content.count(b"\n")))
    return path


def _contenders(connection: Connection, log: Path) -> dict[str, Callable[[Db], None] | str]:
    events = _events(log)
    as_json = log.with_suffix(".json")
    with as_json.open("w") as file:
        for event in events:
            plain = {**event, "time": {"$date": event["time"].isoformat()}}
            del plain["arrived"]
            file.write(json.dumps(plain) + "\n")
    uri = uri_of(connection)
    return {
        RAW: lambda db: _insert_many(db, events),
        ONE: lambda db: _import(db, log, 1, uri),
        TWO: lambda db: _import(db, log, 2, uri),
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
            print(f"{name}: {runs[name].rates[-1]:,.0f} lines/s", flush=True)
    return runs


def _server_seconds(connection: Connection) -> float:
    used = connection.client.admin.command("serverStatus")["extra_info"]
    return float(used["user_time_us"] + used["system_time_us"]) / 1e6


def uri_of(connection: Connection) -> str:
    """Return the URI for programs and processes with their own connection."""
    return connection.embedded.uri if connection.embedded else os.environ["MONGODB_URI"]


def _events(log: Path) -> list[dict[str, Any]]:
    events, offset = [], 0
    for line in log.read_bytes().split(b"\n"):
        with suppress(parsers.Malformed):
            events.append(with_storage_fields(parsers.parser_for("combined")(as_text(line)), event_id("bench", offset)))
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


def memory(connection: Connection, rounds: int, quick: bool) -> list[str]:
    """Measure the peak memory of an import, for two sizes of a log; `ru_maxrss` would include the parent's memory."""
    if not Path("/proc/self/status").exists():
        return ["## Memory", "Not measured: this system has no /proc."]
    peaks = []
    with tempfile.TemporaryDirectory(prefix="squinney-bench-") as folder:
        for times in (1, 4):
            fresh(connection)
            path = _log(Path(folder), LINES * times // (10 if quick else 2))
            program = [sys.executable, "-c", MEMORY, uri_of(connection), str(path)]
            done = subprocess.run(program, capture_output=True, text=True, check=True)
            peaks.append((path.stat().st_size >> 20, int(done.stdout) >> 10))
    peak_texts = " and ".join(f"{peak} MiB for a log of {size} MiB" for size, peak in peaks)
    aim = Aim("peak memory in MiB", MEMORY_MB, max(peak for _, peak in peaks), at_most=True)
    text = f"The peak memory of the importing process is {peak_texts}, including Python and the driver."
    return ["## Memory", text, met([aim])]
