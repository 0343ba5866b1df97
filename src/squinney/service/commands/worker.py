"""`squinney worker` and `squinney jobs`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Column, Table

from squinney import assembly
from squinney.http.commands import (
    Json,
    console,
    format_counts,
    open_systems,
    print_json,
    print_line,
    settings_of,
    stop_signal,
)
from squinney.service import logs
from squinney.service.jobs import JobStatus, Worker, statuses

GRACE_SECONDS = 30.0
jobs_app = typer.Typer(help="List the background jobs, or run one now.", no_args_is_help=True)


def worker(
    context: typer.Context,
    lease: Annotated[
        float, typer.Option(min=1, help="Seconds after which another worker takes over the jobs of a dead one.")
    ] = 30,
) -> None:
    """Run the background jobs until stopped; any number of workers can share them."""
    logs.set_up(settings_of(context).log_format)
    stop = stop_signal()
    with open_systems(context) as systems:
        running = Worker(systems.db, assembly.jobs(systems.systems), lease_seconds=lease)
        running.start()
        print_line(f"Running {len(assembly.jobs(systems.systems))} jobs (press Ctrl-C to stop)")
        stop.wait()
        running.stop(grace_seconds=GRACE_SECONDS)


@jobs_app.command("list")
def list_jobs(context: typer.Context, as_json: Json = False) -> None:
    """List every job with its last run."""
    with open_systems(context) as systems:
        found = statuses(systems.db, assembly.jobs(systems.systems))
    if as_json:
        print_json([{**asdict(job), "state": job.state} for job in found])
        return
    table = Table(Column("job", no_wrap=True), "state", "last run", Column("took", justify="right"), "result", "next")
    for job in found:
        table.add_row(*_row(job))
    console.print(table)


def _row(job: JobStatus) -> list[str]:
    last = job.last
    result = last.get("error") or ", ".join(f"{name}: {count}" for name, count in last.get("result", {}).items())
    return [
        job.name,
        job.state,
        f"{last['finished_at']:%Y-%m-%d %H:%M:%S}" if last else "",
        f"{last['duration_seconds']:.2f} s" if last else "",
        result,
        f"{job.next_at:%Y-%m-%d %H:%M:%S}" if job.next_at else "",
    ]


@jobs_app.command("run")
def run_job(context: typer.Context, name: str) -> None:
    """Run a job now, unless a worker is running it; exit with 1 if it fails."""
    with open_systems(context) as systems:
        worker = Worker(systems.db, assembly.jobs(systems.systems))
        worker.register_jobs()
        outcome = worker.run(name, even_if_not_due=True)
        last = next(job.last for job in statuses(systems.db, assembly.jobs(systems.systems)) if job.name == name)
    if outcome is None:
        print_line(f"{name} is already running")
    elif outcome == "failed":
        print_line(f"{name} failed: {last.get('error')}")
        raise typer.Exit(1)
    else:
        print_line(f"{name}: {format_counts(last.get('result', {}))}")
