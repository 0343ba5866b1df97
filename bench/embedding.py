"""Embed or reference: the round trips, bytes and time of the same tasks on the same data, stored in different forms."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping, Sequence

import bson
from pymongo.monitoring import CommandListener, CommandStartedEvent, CommandSucceededEvent

from bench import embedding_forms as forms
from bench import report
from bench.embedding_forms import Way
from bench.harness import Contender, Series, compare
from squinney.mongo.connect import Connection, client_for
from squinney.mongo.schema import Db

SIZES = (10, 100, 1_000, 10_000)
COUNTED = 20
HEAD = ["task", "form", "round trips", "bytes", "p50 ms", "p99 ms", "time relative to the first"]
GROUPS = {"phone book": forms.PHONE_BOOK, "blog": forms.BLOG, "bookshelf": forms.BOOKSHELF}


class Wire(CommandListener):
    """Counts commands, and the bytes of requests and responses without the session's fields."""

    SESSION = ("lsid", "$clusterTime", "operationTime", "txnNumber", "$readPreference")

    def __init__(self) -> None:
        self.commands = 0
        self.bytes = 0

    def started(self, event: CommandStartedEvent) -> None:
        self.commands += 1
        self._weigh(event.command)

    def succeeded(self, event: CommandSucceededEvent) -> None:
        self._weigh(event.reply)

    def failed(self, event: object) -> None:
        raise RuntimeError(f"a task failed: {event}")

    def _weigh(self, message: Mapping[str, object]) -> None:
        self.bytes += len(bson.encode({name: part for name, part in message.items() if name not in self.SESSION}))


def run(connection: Connection, *, rounds: int = 7, seconds: float = 0.4) -> None:
    """Measure every task in every form and write the page."""
    db = connection.client["bench_embedding"]
    connection.client.drop_database(db.name)
    fill(db)
    uri = connection.embedded.uri if connection.embedded else os.environ["MONGODB_URI"]
    tables = {
        name: [row for task, ways in tasks.items() for row in _rows(db, uri, task, ways, rounds, seconds)]
        for name, tasks in GROUPS.items()
    }
    growth = {size: _growth(db, size, rounds, seconds) for size in SIZES}
    version = connection.client.admin.command("buildInfo")["version"]
    connection.client.drop_database(db.name)
    _write(tables, growth, version, rounds, seconds)


def fill(db: Db) -> None:
    """Insert all data in all forms."""
    forms.fill_phone_book(db)
    forms.fill_blog(db)
    forms.fill_books(db)
    for size in SIZES:
        forms.fill_growing(db, size)


def _compare(db: Db, ways: Sequence[Way], rounds: int, seconds: float) -> list[Series]:
    def work_of(way: Way) -> Callable[[int], None]:
        chance = random.Random(5)
        return lambda thread: way.do(db, chance)

    contenders = [Contender(way.form, work_of(way)) for way in ways]
    return compare(contenders, threads=1, rounds=rounds, seconds=seconds)


def _rows(db: Db, uri: str, task: str, ways: Sequence[Way], rounds: int, seconds: float) -> list[list[str]]:
    costs = [weigh(uri, db.name, way) for way in ways]
    series = _compare(db, ways, rounds, seconds)
    return [
        [
            task if position == 0 else "",
            contender.name,
            f"{trips:g}",
            f"{size:,.0f}",
            f"{contender.percentile(0.5):.2f}",
            f"{contender.percentile(0.99):.2f}",
            f"{series[0].ratio_to(contender):.2f}x",
        ]
        for position, (contender, (trips, size)) in enumerate(zip(series, costs, strict=True))
    ]


def weigh(uri: str, database: str, way: Way) -> tuple[float, float]:
    """Return the average round trips and bytes of one operation."""
    wire, chance = Wire(), random.Random(4)
    with client_for(uri, event_listeners=[wire]) as client:
        client.admin.command("ping")
        wire.commands = wire.bytes = 0
        for _ in range(COUNTED):
            way.do(client[database], chance)
        return wire.commands / COUNTED, wire.bytes / COUNTED  # before the client ends its sessions


def _growth(db: Db, size: int, rounds: int, seconds: float) -> dict[str, list[Series]]:
    return {task: _compare(db, ways, rounds, seconds) for task, ways in forms.growing(size).items()}


def _growth_rows(growth: dict[int, dict[str, list[Series]]]) -> list[list[str]]:
    return [
        [
            f"{size:,}" if position == 0 else "",
            task,
            f"{embedded.percentile(0.5):.2f}",
            f"{referenced.percentile(0.5):.2f}",
            f"{referenced.ratio_to(embedded):.2f}x",
        ]
        for size, tasks in growth.items()
        for position, (task, (embedded, referenced)) in enumerate(tasks.items())
    ]


def _first_expensive_size(growth: dict[int, dict[str, list[Series]]], task: str) -> str:
    """Return the first size at which embedding costs a quarter more; smaller differences are noise."""
    for size, tasks in growth.items():
        embedded, referenced = tasks[task]
        if (ratio := referenced.ratio_to(embedded)) > 1.25:
            return f"{size:,} comments ({ratio:.1f}x)"
    return f"none of these sizes, up to {SIZES[-1]:,} comments"


def _write(
    tables: dict[str, list[list[str]]],
    growth: dict[int, dict[str, list[Series]]],
    version: str,
    rounds: int,
    seconds: float,
) -> None:
    summary = (
        "The first size at which embedding costs at least a quarter more than referencing: for adding a comment, "
        f"{_first_expensive_size(growth, 'add a comment')}; for reading the newest 20, "
        f"{_first_expensive_size(growth, 'the newest 20')}."
    )
    parts = [_between(name, report.table(HEAD, rows)) for name, rows in tables.items()]
    head = ["comments in the post", "task", "embedded, p50 ms", "referenced, p50 ms", "embedded relative to referenced"]
    parts.append(_between("growth", report.table(head, _growth_rows(growth)) + f"\n\n{summary}"))
    drawn = {
        f"{task}, {series[position].name}": [growth[size][task][position].percentile(0.5) for size in SIZES]
        for task, series in growth[SIZES[0]].items()
        for position in range(2)
    }
    sizes = [f"{size:,}" for size in SIZES]
    parts.append(report.bars("embedding", "Comments in the post, and the time of a task", sizes, drawn, "p50 ms"))
    note = (
        f"One thread, {rounds} interleaved rounds of {seconds:g} s for each form, majority reads and writes. Bytes are "
        f"those of request and response together, as BSON, without the session's fields. {report.machine(version)} "
        f"Load average at the end {os.getloadavg()[0]:.0f}."
    )
    report.write_page("embedding", "Embedded or referenced: costs", [*parts, note])
    report.copy_to_readme("embedding", summary)
    print("\n\n".join([*parts, note]))


def _between(name: str, text: str) -> str:
    """Put markers around a part of the page, so that another page can include it."""
    return f"## The {name}\n\n<!-- {name} -->\n\n{text}\n\n<!-- /{name} -->"
