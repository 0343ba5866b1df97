"""`squinney analytics`: logs, hits and roll-ups from the command line."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, BinaryIO, cast

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Column, Table

from squinney.analytics import (
    COLLECTIONS,
    EventLog,
    Hits,
    Retention,
    Rollups,
    Sessions,
    advise_shard_key,
    feed_hits,
    rollup_collections,
)
from squinney.analytics import verify as verify_rollups
from squinney.analytics.documents import Import
from squinney.analytics.imports import Imported
from squinney.analytics.imports import Progress as ImportProgress
from squinney.analytics.places import Strategy, Unit
from squinney.analytics.rollups import Finest
from squinney.analytics.shard_advice import CANDIDATES
from squinney.cli.context import connected, console, print_json, settings_of
from squinney.errors import Invalid
from squinney.mongo import schema
from squinney.mongo.schema import Db

app = typer.Typer(help="Logs, hits and roll-ups.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="For machines.")]
Site = Annotated[str, typer.Option(help="The site whose pages these are.")]
Format = Annotated[str, typer.Option(help="auto, combined, common, nginx, caddy or json.")]
FieldOption = Annotated[list[str] | None, typer.Option("--field", help="Keep only these fields; repeat it.")]
MapOption = Annotated[list[str] | None, typer.Option("--map", help="For JSON lines: time=timestamp; repeat it.")]
DurabilityOption = Annotated[
    str, typer.Option("--durability", help="acknowledged, journaled, replicated, or a number of members.")
]
HitsOption = Annotated[bool, typer.Option("--hits", help="Count the events as hits of the site, each once.")]
Start = Annotated[datetime | None, typer.Option("--start", help="UTC; a week ago if not given.")]
End = Annotated[datetime | None, typer.Option("--end", help="UTC, not included; now if not given.")]
Zone = Annotated[str, typer.Option("--time-zone", help="The calendar to count by.")]


@contextmanager
def _database(context: typer.Context) -> Iterator[tuple[Db, str]]:
    """The database, with the collections it takes, and the address for further processes."""
    with connected(context) as connection:
        there = set(connection.db.list_collection_names())
        schema.apply(connection.db, [one for one in COLLECTIONS if one.name not in there])
        embedded = connection.embedded.uri if connection.embedded else ""
        yield connection.db, settings_of(context).uri or embedded


def _say(line: str) -> None:
    console.print(line, highlight=False, markup=False, soft_wrap=True)


def _range(start: datetime | None, end: datetime | None) -> tuple[datetime, datetime]:
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    last = end.replace(tzinfo=UTC) if end else now
    return (start.replace(tzinfo=UTC) if start else last - timedelta(days=7)), last


def _import_options(
    format: str, fields: list[str] | None, mapped: list[str] | None, durability: str, site: str
) -> dict[str, Any]:
    pairs = [pair.partition("=") for pair in mapped or []]
    if any(not ours or not theirs for ours, _, theirs in pairs):
        raise Invalid("--map takes OURS=THEIRS, such as time=timestamp", field="map")
    return {
        "format": format,
        "fields": set(fields) if fields else None,
        "field_map": {ours: theirs for ours, _, theirs in pairs} or None,
        "durability": int(durability) if durability.isdigit() else durability,
        "site": site,
    }


# ---- logs ----


@app.command("import")
def import_logs(
    context: typer.Context,
    files: Annotated[list[Path], typer.Argument(help="Logs, plain or compressed; - is standard input.")],
    site: Site = "",
    source: Annotated[str | None, typer.Option(help="Know it by this name, not by its content.")] = None,
    format: Format = "auto",
    fields: FieldOption = None,
    mapped: MapOption = None,
    durability: DurabilityOption = "replicated",
    processes: Annotated[int, typer.Option(help="How many to share the work.", min=1, max=64)] = 1,
    hits: HitsOption = False,
    as_json: Json = False,
) -> None:
    """Import logs, each line once, however often it is repeated or cut off."""
    options = _import_options(format, fields, mapped, durability, site)
    results = []
    with _database(context) as (db, uri), _bar(quiet=as_json) as bar:
        log = EventLog(db)
        for path in files:
            name = "standard input" if str(path) == "-" else path.name
            task = bar.add_task(name, total=None, lines=0, rejected=0, rate="")
            imported = log.import_file(
                cast(BinaryIO, sys.stdin.buffer) if str(path) == "-" else path,
                source=source,
                processes=processes,
                uri=uri,
                progress=_shown(bar, task),
                after_checkpoint=(lambda known: _feed(db, known)) if hits else None,
                **options,
            )
            if hits and imported.source:
                feed_hits(db, imported.source["_id"])
            results.append((name, imported))
    for name, imported in results:
        _report(name, imported, as_json)


def _feed(db: Db, source: Import) -> None:
    feed_hits(db, source["_id"])


@contextmanager
def _bar(*, quiet: bool) -> Iterator[Progress]:
    columns = [
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TextColumn("{task.fields[lines]:,} lines"),
        TextColumn("{task.fields[rate]}"),
        TextColumn("{task.fields[rejected]:,} rejected"),
        TimeRemainingColumn(),
    ]
    with Progress(*columns, console=console, disable=quiet or not console.is_terminal, transient=True) as bar:
        yield bar


def _shown(bar: Progress, task: TaskID) -> Any:
    def show(progress: ImportProgress) -> None:
        elapsed = bar.tasks[task].elapsed or 0
        rate = f"{progress.counts.lines / elapsed:,.0f} lines/s" if elapsed else ""
        bar.update(
            task,
            completed=progress.bytes_read,
            total=progress.of_bytes,
            lines=progress.counts.lines,
            rejected=progress.counts.rejected,
            rate=rate,
        )

    return show


def _report(name: str, imported: Imported, as_json: bool) -> None:
    counts = imported.counts
    if as_json:
        print_json({"name": name, "source": imported.source, "added": asdict(counts), "note": imported.note})
        return
    line = f"{name}: {counts.lines:,} lines, {counts.stored:,} stored, {counts.rejected:,} rejected"
    if imported.note:
        line += f" ({imported.note})"
    _say(line)
    if counts.rejected and imported.source:
        _say(f"  why: squinney analytics rejects {imported.source['_id']}")


@app.command()
def follow(
    context: typer.Context,
    path: Path,
    site: Site = "",
    format: Format = "auto",
    fields: FieldOption = None,
    mapped: MapOption = None,
    durability: DurabilityOption = "replicated",
    hits: HitsOption = False,
    poll: Annotated[float, typer.Option(help="Seconds between two looks.", min=0.05)] = 1,
) -> None:
    """Keep up with a growing log, through its rotations, until interrupted."""
    options = _import_options(format, fields, mapped, durability, site)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with _database(context) as (db, _):
        total = [0, 0]

        def show(imported: Imported) -> None:
            total[0] += imported.counts.stored
            total[1] += imported.counts.rejected
            _say(f"{datetime.now(UTC):%H:%M:%S}  {total[0]:,} stored, {total[1]:,} rejected")

        feed = (lambda known: _feed(db, known)) if hits else None
        EventLog(db).follow(path, stop=stop, poll_seconds=poll, on_import=show, after_checkpoint=feed, **options)


@app.command()
def imports(context: typer.Context, cursor: str | None = None, limit: int = 50, as_json: Json = False) -> None:
    """List the imported sources, the last used first."""
    with _database(context) as (db, _):
        page = EventLog(db).imports(cursor=cursor, limit=limit)
    if as_json:
        print_json({"items": page.items, "next": page.next})
        return
    counted = [Column(name, justify="right") for name in ("lines", "stored", "rejected")]
    table = Table(Column("source", no_wrap=True), "name", "site", "format", *counted, "state")
    for one in page.items:
        counts = [f"{one[name]:,}" for name in ("lines", "stored", "rejected")]
        table.add_row(one["_id"], one["name"], one["site"], one["format"], *counts, one["state"])
    console.print(table)
    if page.next:
        _say(f"more: --cursor {page.next}")


@app.command()
def rejects(
    context: typer.Context, source: str, cursor: str | None = None, limit: int = 50, as_json: Json = False
) -> None:
    """Show the lines of a source that are no events, and why."""
    with _database(context) as (db, _):
        page = EventLog(db).rejects(source, cursor=cursor, limit=limit)
    if as_json:
        print_json({"items": page.items, "next": page.next})
        return
    for reject in page.items:
        _say(f"line {reject['line_number']:,}: {reject['reason']}\n  {reject['line'][:200]}")
    if page.next:
        _say(f"more: --cursor {page.next}")


# ---- hits ----


@app.command()
def top(
    context: typer.Context,
    site: Annotated[str, typer.Argument(help="The site.")] = "",
    start: Start = None,
    end: End = None,
    limit: int = 10,
    as_json: Json = False,
) -> None:
    """Show the pages with the most hits."""
    with _database(context) as (db, _):
        rows = Hits(db).top_pages(site, *_range(start, end), limit=limit)
    if as_json:
        print_json(rows)
        return
    for row in rows:
        _say(f"{row['hits']:>12,}  {row['page']}")


@app.command()
def series(
    context: typer.Context,
    page: str,
    site: Site = "",
    by: Annotated[str, typer.Option(help="minute, hour, day, week or month.")] = "day",
    start: Start = None,
    end: End = None,
    time_zone: Zone = "UTC",
    as_json: Json = False,
) -> None:
    """Show the hits of a page, unit by unit, zeros included."""
    if by not in ("minute", "hour", "day", "week", "month"):
        raise Invalid("by must be minute, hour, day, week or month", field="by")
    with _database(context) as (db, _):
        points = Hits(db).series(site, page, *_range(start, end), cast(Any, by), time_zone=time_zone)
    if as_json:
        print_json([{"at": point.at, "hits": point.hits} for point in points])
        return
    for point in points:
        _say(f"{point.at:%Y-%m-%d %H:%M %Z}  {point.hits:>10,}")


# ---- roll-ups ----


@app.command()
def rollup(
    context: typer.Context,
    key: Annotated[str, typer.Option(help="The field to group by.")] = "path",
    value: Annotated[str, typer.Option(help="The field to sum.")] = "bytes",
    time: Annotated[str, typer.Option(help="The field with the time.")] = "time",
    source: Annotated[str, typer.Option(help="The collection of events.")] = "events",
    name: Annotated[str, typer.Option(help="What its collections begin with.")] = "rollups",
    time_zone: Zone = "UTC",
    finest: Annotated[str, typer.Option(help="hour, or quarter for zones at half hours.")] = "hour",
    stop: Annotated[bool, typer.Option("--stop", help="Roll up no more; the buckets stay.")] = False,
    as_json: Json = False,
) -> None:
    """Bring a roll-up up to date; from then on the background job keeps it so."""
    with _database(context) as (db, _):
        rollups = Rollups(db, source, key, value, time, time_zone, name=name, finest=cast(Finest, finest))
        schema.apply(db, rollup_collections(name))
        if stop:
            rollups.stop()
            _say(f"{name} is not rolled up any more")
            return
        ran = rollups.run()
    if as_json:
        print_json(asdict(ran))
        return
    _say(f"run {ran.run}: " + ", ".join(f"{count:,} {level}" for level, count in ran.buckets.items()))


@app.command()
def verify(
    context: typer.Context,
    run: Annotated[bool, typer.Option(help="Bring the roll-ups up to date first.")] = True,
    as_json: Json = False,
) -> None:
    """Compare every level of every roll-up with the raw events; exits with 1 where one differs."""
    with _database(context) as (db, _):
        for rollups in Rollups.registered(db) if run else []:
            rollups.run()
        problems = [str(problem) for problem in verify_rollups(db)]
        known = [rollups.name for rollups in Rollups.registered(db)]
    if as_json:
        print_json({"rollups": known, "differing": problems})
    else:
        for problem in problems:
            _say(problem)
        _say(f"{', '.join(known) or 'no roll-up'}: {len(problems):,} buckets differ from the events")
    if problems:
        raise typer.Exit(1)


@app.command()
def sessions(context: typer.Context, time_zone: Zone = "UTC", as_json: Json = False) -> None:
    """Derive visitors' sessions from the events, and roll their lengths up by user, hour to year."""
    with _database(context) as (db, _):
        derived = Sessions(db).derive()
        rollups = Sessions(db).rollups(time_zone)
        rollups.run()
        longest = db["visits.yearly"].find({"value.count": {"$gt": 0}}).sort("value.total", -1).limit(10)
        rows = [{"user": row["_id"]["k"], "year": row["_id"]["d"].year, **row["value"]} for row in longest]
    if as_json:
        print_json({"changed": derived.changed, "longest": rows})
        return
    _say(f"{derived.changed:,} sessions changed, of {derived.hosts:,} hosts")
    for row in rows:
        _say(f"{row['total']:>10,} s in {row['count']:>5,} sessions, {row['mean']:>8,.0f} s each  {row['user']}")


# ---- keeping ----


@app.command()
def retention(
    context: typer.Context,
    strategy: Annotated[str | None, typer.Argument(help="keep, ttl, capped, rotate or rotate-databases.")] = None,
    unit: Annotated[str, typer.Option(help="A collection for each day or month.")] = "day",
    keep_days: Annotated[float | None, typer.Option(help="How old events may get.")] = None,
    size_mb: Annotated[int | None, typer.Option(help="How large a capped log may get.")] = None,
    as_json: Json = False,
) -> None:
    """Show the policy for old events, or change it and move them to where it wants them."""
    with _database(context) as (db, _):
        found = Retention(db)
        if strategy is not None:
            seconds = None if keep_days is None else int(keep_days * 86_400)
            size = None if size_mb is None else size_mb << 20
            found.switch(cast(Strategy, strategy), unit=cast(Unit, unit), keep_seconds=seconds, size_bytes=size)
        policy = asdict(found.policy())
    if as_json:
        print_json(policy)
    else:
        _say(", ".join(f"{name}: {value}" for name, value in policy.items() if value))


@app.command("advise-shard-key")
def advise(
    context: typer.Context,
    candidates: Annotated[list[str] | None, typer.Argument(help="Such as path,ssk or _id:hashed.")] = None,
    sample: Annotated[int, typer.Option(help="How many events to judge by.")] = 10_000,
    as_json: Json = False,
) -> None:
    """Judge shard keys for the events by a sample of them and the declared queries."""
    with _database(context) as (db, _):
        keys = [_key(text) for text in candidates] if candidates else CANDIDATES
        found = advise_shard_key(db, keys, sample=sample)
    if as_json:
        print_json([asdict(advice) for advice in found])
        return
    table = Table("key", "values", "hottest", "rises", "routed", "verdict", "because", show_lines=True)
    for advice in found:
        table.add_row(
            ", ".join(f"{name}: {kind}" for name, kind in advice.key.items()),
            f"{advice.cardinality:,}",
            f"{advice.hottest_share:.1%}\n{advice.hottest[:30]}",
            "yes" if advice.monotonic else "no",
            "\n".join(advice.routed) or "none",
            advice.verdict,
            advice.reason,
        )
    console.print(table)


def _key(text: str) -> dict[str, int | str]:
    parts = [part.partition(":") for part in text.split(",")]
    return {name.strip(): "hashed" if kind == "hashed" else 1 for name, _, kind in parts}
