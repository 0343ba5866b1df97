"""`squinney worker` and `squinney jobs`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Column, Table

from squinney import assembly
from squinney.cli.connecting import connected, open_systems, settings_of, stop_signal
from squinney.cli.parameters import Json, Systems
from squinney.cli.printing import console, format_counts, print_json, print_line
from squinney.service.jobs import JobStatus, JobWorker, statuses
from squinney.service.observing import logs
from squinney.service.observing.driver import watch_driver
from squinney.service.observing.metrics import Metrics
from squinney.service.observing.traces import watch_with_spans
from squinney.service.serving.opening import open_to_serve
from squinney.service.serving.own_port import own_port

GRACE_SECONDS = 30.0
jobs_app = typer.Typer(help="List the background jobs, or run one now.", no_args_is_help=True)


def worker(
    context: typer.Context,
    lease: Annotated[
        float, typer.Option(min=1, help="Seconds after which another worker takes over the jobs of a dead one.")
    ] = 30,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="A port for health and metrics, on the address of HOST.")
    ] = None,
    systems: Systems = None,
) -> None:
    """Run the background jobs until stopped; any number of workers can share them."""
    settings = settings_of(context)
    logs.set_up(settings.log_format, settings.log_level)
    watch_driver(settings.slow_ms / 1000)
    watch_with_spans()
    stop = stop_signal()
    with connected(context) as connection:
        built = open_to_serve(connection, assembly.chosen_systems(settings.system_names))
        declared = assembly.jobs(built.systems)
        metrics = Metrics(built.db, declared)
        running = JobWorker(built.db, declared, lease_seconds=lease, observe=metrics.job_run)
        with own_port(settings.host, port, metrics.registry, built, draining=stop.is_set) as listening:
            running.start()
            where = f", health and metrics at {settings.host}:{listening}" if listening else ""
            print_line(f"Running {len(declared)} jobs{where} (press Ctrl-C to stop)")
            stop.wait()
            running.stop(grace_seconds=GRACE_SECONDS)


@jobs_app.command("list")
def list_jobs(context: typer.Context, systems: Systems = None, as_json: Json = False) -> None:
    """List every job with its last run."""
    with open_systems(context) as built:
        jobs = statuses(built.db, assembly.jobs(built.systems))
    if as_json:
        print_json([{**asdict(job), "state": job.state} for job in jobs])
        return
    table = Table(Column("job", no_wrap=True), "state", "last run", Column("took", justify="right"), "result", "next")
    for job in jobs:
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
def run_job(context: typer.Context, name: str, systems: Systems = None) -> None:
    """Run a job now, unless a worker is running it; exit with 1 if it fails."""
    with open_systems(context) as built:
        worker = JobWorker(built.db, assembly.jobs(built.systems))
        worker.register_jobs()
        outcome = worker.run(name, even_if_not_due=True)
        last = next(job.last for job in statuses(built.db, assembly.jobs(built.systems)) if job.name == name)
    if outcome is None:
        print_line(f"{name} is already running")
    elif outcome == "failed":
        print_line(f"{name} failed: {last.get('error')}")
        raise typer.Exit(1)
    else:
        print_line(f"{name}: {format_counts(last.get('result', {}))}")
