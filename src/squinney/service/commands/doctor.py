"""`squinney doctor`: reports problems and what to do about them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from squinney import assembly
from squinney.cli.connecting import connected, settings_of
from squinney.cli.parameters import Adopt, Json, Systems
from squinney.cli.printing import console, print_json
from squinney.service import doctor as checks
from squinney.service.doctor import Finding

MARKS = {"ok": "[green]ok[/]", "notice": "[yellow]notice[/]", "problem": "[red]problem[/]"}


def doctor(
    context: typer.Context,
    repair: Annotated[bool, typer.Option("--repair", help="Repair problems that do not need a decision.")] = False,
    systems: Systems = None,
    adopt: Adopt = None,
    as_json: Json = False,
) -> None:
    """Examine the server, schema, jobs and data; exit with 1 if there is a problem."""
    chosen = assembly.chosen_systems(settings_of(context).system_names)
    with connected(context) as connection:
        repaired = dict(checks.repair(connection.db, seconds=None, systems=chosen, adopt=adopt or ())) if repair else {}
        findings = list(checks.examine(connection.db, seconds=None, systems=chosen))
    if as_json:
        print_json({"findings": [asdict(finding) for finding in findings], "repaired": repaired})
    else:
        for name, count in repaired.items():
            console.print(f"[green]repaired[/] {name}: {count}", highlight=False, markup=True)
        for finding in findings:
            show_finding(finding)
    if any(finding.level == "problem" for finding in findings):
        raise typer.Exit(1)


def show_finding(finding: Finding) -> None:
    """Print a finding and its advice."""
    console.print(f"{MARKS[finding.level]} {finding.area}:", end=" ", highlight=False, markup=True)
    console.print(finding.message, highlight=False, markup=False, soft_wrap=True)
    if finding.advice:
        console.print(f"    {finding.advice}", style="dim", highlight=False, markup=False, soft_wrap=True)
