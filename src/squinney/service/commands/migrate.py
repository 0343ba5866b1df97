"""`squinney migrate`: upgrades stored documents while the service runs."""

from __future__ import annotations

from dataclasses import asdict
from threading import Event
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from squinney import assembly
from squinney.cli.connecting import open_systems, stop_signal
from squinney.cli.exit_codes import INTERRUPTED
from squinney.cli.parameters import Json, Systems
from squinney.cli.printing import console, print_json, print_line
from squinney.errors import NotFound
from squinney.mongo import schema
from squinney.mongo.schema import Db
from squinney.patterns.batches import Batches, Progress
from squinney.system import System


def migrate(
    context: typer.Context,
    system: Annotated[str | None, typer.Argument(help="Migrate only this system.")] = None,
    systems: Systems = None,
    as_json: Json = False,
) -> None:
    """Rename older collections, create what is missing, and upgrade old documents while the service runs.

    After Ctrl-C the next run continues. If an older version named collections differently, end its processes first.
    """
    with open_systems(context, rename=True) as built:
        chosen = [candidate for candidate in built.systems if system in (None, candidate.name)]
        if not chosen:
            known = ", ".join(candidate.name for candidate in built.systems)
            raise NotFound(f"there is no system {system}; known systems: {known}")
        schema.apply(built.db, assembly.collections(chosen), adopt=context.obj.adopt)
        stop = stop_signal()
        reports = run_all(built.db, chosen, stop, quiet=as_json)
    if as_json:
        print_json(reports)
    elif not reports:
        print_line("nothing to migrate")
    if stop.is_set():
        raise typer.Exit(INTERRUPTED)
    if any(report["failed"] for report in reports.values()):
        raise typer.Exit(1)


def run_all(db: Db, systems: list[System], stop: Event, *, quiet: bool = False) -> dict[str, dict[str, Any]]:
    """Run all migrations of the systems; return their reports by name."""
    reports = {}
    for migration in [migration for system in systems for migration in system.migrations(db)]:
        if stop.is_set():
            break
        progress = _run(migration, stop, quiet)
        reports[migration.name] = asdict(progress)
        if not quiet:
            _show(migration.name, progress)
    return reports


def _run(migration: Batches, stop: Event, quiet: bool) -> Progress:
    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()]
    with Bar(*columns, console=console, disable=quiet) as bar:
        task = bar.add_task(migration.name)
        return migration.run(
            stop=stop, report=lambda progress: bar.update(task, completed=progress.scanned, total=progress.total)
        )


def _show(name: str, progress: Progress) -> None:
    ending = "" if progress.finished_at else "; stopped, run again to continue"
    print_line(f"{name}: {progress.scanned} read, {progress.upgraded} upgraded, {progress.failed} failed{ending}")
    for failure in progress.failures:
        print_line(f"    {failure}")
