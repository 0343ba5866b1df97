"""`squinney backup`: a backup of one moment, taken while the site runs."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from squinney import assembly
from squinney.cli.connecting import connected, settings_of
from squinney.cli.parameters import Json, Systems
from squinney.cli.printing import errors, print_line, print_result
from squinney.service.backup import Backup, back_up
from squinney.service.backup.taking import Report


def backup(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(help="A new folder.")],
    systems: Systems = None,
    as_json: Json = False,
) -> None:
    """Write all collections that Squinney made to a folder, as they were in one moment, while the site runs."""
    declared = assembly.collections(assembly.chosen_systems(settings_of(context).system_names))
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # like Ctrl-C: the unfinished folder is removed
    with connected(context) as connection, shown_progress("backup") as report:
        taken = back_up(connection.db, folder, declared=declared, report=report)
    print_result(summary(taken), f"{folder}: {described(taken)}", as_json)
    for part in taken.parts:
        if not part.of_the_moment and not as_json:
            print_line(f"{part.name} was read a little later: no snapshot contains a capped collection")


def summary(taken: Backup) -> dict[str, object]:
    """Return the figures of a backup."""
    return {
        "moment": taken.moment,
        "database": taken.database,
        "collections": len(taken.parts),
        "documents": taken.documents,
        "bytes": taken.bytes,
    }


def described(taken: Backup) -> str:
    """Return the figures of a backup in a line."""
    size = f"{taken.bytes / 1e6:.1f} MB"
    return f"{len(taken.parts)} collections, {taken.documents} documents, {size}, as of {taken.moment.isoformat()}"


@contextmanager
def shown_progress(what: str) -> Iterator[Report]:
    """Show a bar, or a line for each tenth if this is not a terminal."""
    if not errors.is_terminal:
        yield _lines(what)
        return
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, TextColumn("{task.description}"), console=errors, transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda name, done, total: bar.update(task, description=name, completed=done, total=total)


def _lines(what: str) -> Report:
    printed = 0

    def report(name: str, done: int, total: int) -> None:
        nonlocal printed
        if (tenths := 10 * done // max(total, 1)) > printed:
            printed = tenths
            errors.print(f"{what}: {10 * tenths} % of {total / 1e6:.1f} MB, {name}", highlight=False)

    return report
