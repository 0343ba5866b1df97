"""`squinney prove SYSTEM`: runs workers, kills them with `kill -9`, and checks the invariants."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import typer
from rich.live import Live
from rich.table import Table
from rich.text import Text

from squinney import assembly
from squinney.cli.connecting import connected, settings_of
from squinney.cli.parameters import Json
from squinney.cli.printing import console, print_json
from squinney.service.proving.engine import Engine, ProofLimits
from squinney.service.proving.progress import Progress
from squinney.service.proving.subjects import Stage, system_subject

KNOWN = ", ".join(system.name for system in assembly.SYSTEMS if system.proof)
STAGES = [Stage("kills", 1, "", kills=1)]


def prove(
    context: typer.Context,
    system: Annotated[str, typer.Argument(help=f"One of: {KNOWN}.")],
    seconds: Annotated[float, typer.Option(help="Stop after this many seconds.")] = 60,
    operations: Annotated[int, typer.Option(help="Stop after this many operations; 0 means no limit.")] = 0,
    workers: Annotated[int, typer.Option(help="The number of worker processes.", min=1, max=64)] = 4,
    kill_every: Annotated[float, typer.Option(help="Seconds between kills.", min=0.05)] = 1,
    as_json: Json = False,
) -> None:
    """Run workers, kill one every second with kill -9, and check every promise.

    The run uses its own database, which is dropped at the end. Exits with 1 if a promise is broken.
    """
    subject = system_subject(system, settings_of(context).system_names)
    limits = ProofLimits(seconds=seconds, operations=operations, workers=workers, kill_every=kill_every)
    with connected(context) as connection, Live(console=console, auto_refresh=False, transient=True) as live:

        def show(progress: Progress) -> None:
            if not as_json:
                live.update(_line(progress), refresh=True)

        uri = settings_of(context).uri or (connection.embedded.uri if connection.embedded else "")
        progress = Engine(connection.client, uri, subject, limits).run(STAGES, show)
    _report(progress, as_json)


def _recovered(progress: Progress) -> Counter[str]:
    return sum((lane.recovered for lane in progress.lanes), Counter())


def _verdict(progress: Progress) -> dict[str, str]:
    return {promise: broken for lane in progress.lanes for promise, broken in lane.verdict.items()}


def _line(progress: Progress) -> str:
    operations = sum(lane.operations for lane in progress.lanes)
    kills = sum(len(lane.kills) for lane in progress.lanes)
    rate = operations / progress.seconds if progress.seconds else 0
    recovered = ", ".join(f"{count} {name}" for name, count in sorted(_recovered(progress).items())) or "nothing yet"
    return (
        f"{progress.seconds:5.1f} s   {operations:,} acknowledged ({rate:,.0f}/s)   "
        f"{kills} kills   settled: {recovered}"
    )


def _report(progress: Progress, as_json: bool) -> None:
    verdict = _verdict(progress)
    if as_json:
        print_json(
            {
                "seconds": round(progress.seconds, 1),
                "operations": sum(lane.operations for lane in progress.lanes),
                "kills": sum(len(lane.kills) for lane in progress.lanes),
                "recovered": _recovered(progress),
                "server": progress.server,
                "promises": {promise: not broken for promise, broken in verdict.items()},
                "broken": {promise: broken for promise, broken in verdict.items() if broken},
            }
        )
    else:
        console.print(_line(progress), highlight=False)
        table = Table("promise", "")
        for promise, broken in verdict.items():
            table.add_row(promise, Text(f"broken: {broken}", "red") if broken else Text("holds", "green"))
        console.print(table)
    if any(verdict.values()):
        raise typer.Exit(1)
