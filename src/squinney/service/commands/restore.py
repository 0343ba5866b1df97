"""`squinney restore`: restores a backup into an empty database."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from squinney import assembly
from squinney.cli.connecting import connected, settings_of
from squinney.cli.parameters import Json, Systems
from squinney.cli.printing import print_json, print_line
from squinney.service import backup as backups
from squinney.service import doctor
from squinney.service.commands.backup import described, shown_progress, summary
from squinney.service.commands.doctor import show_finding


def restore(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(help="The folder of a backup.")],
    systems: Systems = None,
    as_json: Json = False,
) -> None:
    """Restore a backup into an empty database, then examine it; exit with 1 if `doctor` finds a problem.

    After Ctrl-C run it again: it starts over. Until it has ended, other commands refuse the database.
    """
    chosen = assembly.chosen_systems(settings_of(context).system_names)
    with connected(context) as connection:
        with shown_progress("restore") as report:
            restored = backups.restore(connection.db, folder, report=report)
        findings = [
            finding for finding in doctor.examine(connection.db, seconds=None, systems=chosen) if finding.level != "ok"
        ]
    if as_json:
        print_json({**summary(restored), "findings": [asdict(finding) for finding in findings]})
    else:
        print_line(f"restored {described(restored)}")
        for finding in findings:
            show_finding(finding)
    if any(finding.level == "problem" for finding in findings):
        raise typer.Exit(1)
