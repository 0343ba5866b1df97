"""The commands `squinney analytics import`, `follow`, `imports`, `rejects` and `forget`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, BinaryIO, cast

import typer
from rich.progress import BarColumn, Progress, ProgressColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Column

from squinney.analytics import COLLECTIONS, EventLog, feed_hits
from squinney.analytics import forget as forget_import
from squinney.analytics.errors import NotUnderstood
from squinney.analytics.events.documents import Import
from squinney.analytics.events.imports import Imported
from squinney.analytics.events.imports import Progress as ImportProgress
from squinney.analytics.events.lines import decoded_line
from squinney.analytics.parsers import NAMES
from squinney.cli.connecting import connected, stop_signal
from squinney.cli.parameters import Cursor, Json, Limit
from squinney.cli.printing import console, print_json, print_line, print_page, print_result
from squinney.errors import Invalid
from squinney.mongo import schema
from squinney.mongo.schema import Db

Site = Annotated[str, typer.Option(help="The site of the log's events.")]
Format = Annotated[str, typer.Option(help=f"auto, {', '.join(NAMES)}, or a log_format or LogFormat string.")]
FieldOption = Annotated[list[str] | None, typer.Option("--field", help="Store only this field; may be repeated.")]
MapOption = Annotated[
    list[str] | None, typer.Option("--map", help="For JSON lines: OURS=THEIRS, as time=timestamp; may be repeated.")
]
HitsOption = Annotated[bool, typer.Option("--hits", help="Also count each event as a hit of its page.")]


@contextmanager
def database(context: typer.Context) -> Iterator[Db]:
    """Yield the database, with its collections created."""
    with connected(context) as connection:
        schema.create_missing(connection.db, COLLECTIONS)
        yield connection.db


def _import_options(format: str, fields: list[str] | None, mapped: list[str] | None, site: str) -> dict[str, Any]:
    pairs = [pair.partition("=") for pair in mapped or []]
    if any(not ours or not theirs for ours, _, theirs in pairs):
        raise Invalid("--map takes OURS=THEIRS, such as time=timestamp", field="map")
    return {
        "format": format,
        "fields": set(fields) if fields else None,
        "field_map": {ours: theirs for ours, _, theirs in pairs} or None,
        "site": site,
    }


def import_logs(
    context: typer.Context,
    files: Annotated[list[Path], typer.Argument(help="Logs, plain or compressed; - is standard input.")],
    site: Site = "",
    source: Annotated[str | None, typer.Option(help="Identify the log by this name, not by its content.")] = None,
    format: Format = "auto",
    fields: FieldOption = None,
    mapped: MapOption = None,
    hits: HitsOption = False,
    as_json: Json = False,
) -> None:
    """Import logs; each line is stored once, even if the import is interrupted or repeated."""
    options = _import_options(format, fields, mapped, site)
    if source is not None and len(files) > 1:
        raise Invalid("--source allows only one file: import several files one by one", field="source")
    results = []
    refused: list[NotUnderstood] = []
    hidden = as_json or not console.is_terminal
    bar = Progress(*columns(), console=console, disable=hidden, transient=True, expand=True)
    with database(context) as db, bar:
        log = EventLog(db)
        for path in files:
            name = "standard input" if str(path) == "-" else decoded_line(os.fsencode(path.name))
            task = bar.add_task(name, total=None, lines=0, rejected=0, rate="")
            try:
                imported = log.import_file(
                    cast(BinaryIO, sys.stdin.buffer) if str(path) == "-" else path,
                    source=source,
                    progress=_shown(bar, task),
                    after_checkpoint=_feeding(db) if hits else None,
                    **options,
                )
            except NotUnderstood as error:  # the other logs are imported, and then this is the command's error
                refused.append(error)
                imported = error.imported
            results.append((name, imported))
    for name, imported in results:
        _report(name, imported, as_json)
    if refused:
        raise refused[0]


def _feeding(db: Db) -> Callable[[Import], Any]:
    return lambda source: feed_hits(db, source["_id"])


def columns() -> list[ProgressColumn]:
    """Return the columns of the progress bar, which fit into one line of 80 characters; a long name is truncated."""
    one_line = Column(no_wrap=True)
    return [
        TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1)),
        BarColumn(bar_width=10),
        TextColumn("{task.fields[lines]:,} lines", table_column=one_line),
        TextColumn("{task.fields[rate]}", table_column=one_line),
        TextColumn("{task.fields[rejected]:,} rejected", table_column=one_line),
        TimeRemainingColumn(compact=True, table_column=one_line),
    ]


def _shown(bar: Progress, task: TaskID) -> Any:
    def update(progress: ImportProgress) -> None:
        elapsed = bar.tasks[task].elapsed or 0
        rate = f"{progress.counts.lines / elapsed:,.0f} /s" if elapsed else ""
        bar.update(
            task,
            completed=progress.bytes_read,
            total=progress.of_bytes,
            lines=progress.counts.lines,
            rejected=progress.counts.rejected,
            rate=rate,
        )

    return update


def _report(name: str, imported: Imported, as_json: bool) -> None:
    counts = imported.counts
    if as_json:
        print_json({"name": name, "source": imported.source, "added": asdict(counts), "note": imported.note})
        return
    line = f"{name}: {counts.lines:,} lines, {counts.stored:,} stored, {counts.rejected:,} rejected"
    if imported.note:
        line += f" ({imported.note})"
    print_line(line)
    if counts.rejected and imported.source:
        print_line(f"  see the reasons with: squinney analytics rejects {imported.source['_id']}")


def follow(
    context: typer.Context,
    path: Path,
    site: Site = "",
    format: Format = "auto",
    fields: FieldOption = None,
    mapped: MapOption = None,
    hits: HitsOption = False,
    poll: Annotated[float, typer.Option(help="Seconds between two checks for new lines.", min=0.05)] = 1,
) -> None:
    """Import a growing log continuously, across rotations, until interrupted."""
    options = _import_options(format, fields, mapped, site)
    stop = stop_signal()
    with database(context) as db:
        total = [0, 0]

        def report(imported: Imported) -> None:
            total[0] += imported.counts.stored
            total[1] += imported.counts.rejected
            print_line(f"{datetime.now(UTC):%H:%M:%S}  {total[0]:,} stored, {total[1]:,} rejected")

        feed = _feeding(db) if hits else None
        EventLog(db).follow(path, stop=stop, poll_seconds=poll, on_import=report, after_checkpoint=feed, **options)


def imports(context: typer.Context, cursor: Cursor = None, limit: Limit = 50, as_json: Json = False) -> None:
    """List the imported sources, the last updated first."""
    with database(context) as db:
        page = EventLog(db).imports(cursor=cursor, limit=limit)
    counted = [Column(name, justify="right") for name in ("lines", "stored", "rejected")]
    print_page(
        page, as_json, [Column("source", no_wrap=True), "name", "site", "format", *counted, "state"], _import_row
    )


def _import_row(source: Import) -> list[str]:
    counts = [f"{count:,}" for count in (source["lines"], source["stored"], source["rejected"])]
    return [source["_id"], source["name"], source["site"], source["format"], *counts, source["state"]]


def rejects(
    context: typer.Context, source: str, cursor: Cursor = None, limit: Limit = 50, as_json: Json = False
) -> None:
    """Show the lines of a source that could not be stored as events, and the reasons."""
    with database(context) as db:
        page = EventLog(db).rejects(source, cursor=cursor, limit=limit)
    if as_json:
        print_json({"items": page.items, "next": page.next})
        return
    for reject in page.items:
        print_line(f"line {reject['line_number']:,}: {reject['reason']}\n  {reject['line'][:200]}")
    if page.next:
        print_line(f"more: --cursor {page.next}")


def forget(context: typer.Context, source: str, as_json: Json = False) -> None:
    """Undo an import: delete its events and hits, so that it can be repeated with other options."""
    with database(context) as db:
        done = forget_import(db, source)
    counts = ", ".join(f"{count:,} {kind}" for kind, count in done.items())
    print_result(dict(done), f"{source} is forgotten; deleted: {counts or 'nothing'}", as_json)
