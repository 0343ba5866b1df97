"""`squinney demo`: the demo data, loaded and reset."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from squinney.cli.connecting import open_systems, settings_of
from squinney.cli.parameters import Adopt, Systems
from squinney.cli.printing import errors, print_line
from squinney.errors import Invalid
from squinney.system import Assembled


def demo(
    context: typer.Context,
    action: Annotated[str, typer.Argument(help="`load`, or `reset`: remove the demo data and load it again.")] = "load",
    everything: Annotated[
        bool, typer.Option("--all", help="With `reset`: also remove what people have added since. Their logins stay.")
    ] = False,
    yes: Annotated[bool, typer.Option(help="Confirm `reset` on a server that is not the embedded one.")] = False,
    systems: Systems = None,
    adopt: Adopt = None,
) -> None:
    """Load the demo data unless it is already loaded, or reset it."""
    from squinney.service.town.reset import reset_town

    if action not in ("load", "reset"):
        raise Invalid("the action must be load or reset", field="action")
    context.obj.adopt.extend(adopt or ())
    with open_systems(context) as built:
        if action == "reset":
            # guard: data on a server that others use is not removed without a confirmation
            if not (yes or settings_of(context).uri is None):
                raise Invalid("this is not the embedded MongoDB: confirm the reset with --yes", field="yes")
            reset_town(built, everything=everything)
        load_with_progress(built)
        print_line("The demo data is loaded.")


def load_with_progress(systems: Assembled) -> None:
    """Load the demo data, and show what is being loaded: a bar, or lines if this is not a terminal."""
    from squinney.service.town.loading import is_loaded, load_town

    if is_loaded(systems):
        return
    if not errors.is_terminal:
        load_town(systems, progress=_print_part)
        return
    columns = (TextColumn("Demo data:"), BarColumn(), TaskProgressColumn(), TextColumn("{task.description}"))
    with Progress(*columns, TimeElapsedColumn(), console=errors, transient=True) as bar:
        task = bar.add_task("", total=None)
        load_town(
            systems,
            progress=lambda title, done, total: bar.update(task, description=title, completed=done, total=total),
        )


def _print_part(title: str, done: int, total: int) -> None:
    if title:
        errors.print(f"demo data, part {done + 1} of {total}: {title}", highlight=False)
