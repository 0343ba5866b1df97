"""`squinney migrate`: brings stored documents up to date in the background."""

from __future__ import annotations

from dataclasses import asdict
from threading import Event
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from squinney.errors import NotFound
from squinney.http.commands import Json, console, print_json, ready, say, stop_signal
from squinney.mongo.schema import Db
from squinney.patterns.migrations import Migration, Progress
from squinney.service.commands.exit_codes import INTERRUPTED
from squinney.service.commands.systems import systems_of
from squinney.system import System


def migrate(
    context: typer.Context,
    system: Annotated[str | None, typer.Argument(help="One system only.")] = None,
    as_json: Json = False,
) -> None:
    """Upgrade old documents, beside whoever works on them; Ctrl-C leaves the rest to the next run."""
    every = systems_of(context)
    chosen = [one for one in every if system in (None, one.name)]
    if not chosen:
        known = ", ".join(one.name for one in every)
        raise NotFound(f"there is no system {system}; there are: {known}")
    with ready(context) as systems:
        stop = stop_signal()
        reports = run_all(systems.db, chosen, stop, quiet=as_json)
    if as_json:
        print_json(reports)
    elif not reports:
        say("There is nothing to migrate.")
    if stop.is_set():
        raise typer.Exit(INTERRUPTED)
    if any(report["failed"] for report in reports.values()):
        raise typer.Exit(1)


def run_all(db: Db, systems: list[System], stop: Event, *, quiet: bool = False) -> dict[str, dict[str, Any]]:
    """Run every migration of the systems; returns each one's report by its collection."""
    reports = {}
    for migration in [migration for system in systems for migration in system.migrations(db)]:
        if stop.is_set():
            break
        progress = _run(migration, stop, quiet)
        reports[migration.name] = asdict(progress)
        if not quiet:
            _show(migration.name, progress)
    return reports


def _run(migration: Migration, stop: Event, quiet: bool) -> Progress:
    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()]
    with Bar(*columns, console=console, disable=quiet) as bar:
        task = bar.add_task(migration.name)
        return migration.run(
            stop=stop, report=lambda progress: bar.update(task, completed=progress.scanned, total=progress.total)
        )


def _show(name: str, progress: Progress) -> None:
    ending = "" if progress.finished_at else "; stopped, to be continued"
    say(f"{name}: {progress.scanned} seen, {progress.upgraded} upgraded, {progress.failed} failed{ending}")
    for failure in progress.failures:
        say(f"    {failure}")
