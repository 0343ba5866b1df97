"""`squinney prove SYSTEM`: runs workers, kills them with `kill -9`, and checks the invariants."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Annotated

import typer
from rich.live import Live
from rich.table import Table
from rich.text import Text

from squinney import assembly
from squinney.errors import NotFound
from squinney.http.commands import Json, connected, console, print_json, settings_of
from squinney.mongo import schema
from squinney.mongo.schema import Db
from squinney.patterns.ids import new_id
from squinney.system import Proof

MODES = ("native", "two-phase")
KNOWN = ", ".join(system.name for system in assembly.SYSTEMS if system.proof)


@dataclass
class Figures:
    """The results of a run."""

    seconds: float = 0
    operations: int = 0
    kills: int = 0
    recovered: Counter[str] = field(default_factory=Counter)
    server: str = ""


def prove(
    context: typer.Context,
    system: Annotated[str, typer.Argument(help=f"One of: {KNOWN}.")],
    seconds: Annotated[float, typer.Option(help="Stop after this many seconds.")] = 60,
    operations: Annotated[int, typer.Option(help="Stop after this many operations; 0 means no limit.")] = 0,
    workers: Annotated[int, typer.Option(help="The number of worker processes.", min=1, max=64)] = 4,
    kill_every: Annotated[float, typer.Option(help="Seconds between kills.", min=0.05)] = 1,
    as_json: Json = False,
) -> None:
    """Run workers in both transaction modes, kill one every second with kill -9, and check every promise.

    The run uses its own database, which is dropped at the end. Exits with 1 if a promise is broken.
    """
    found = assembly.system_named(system, assembly.with_systems(settings_of(context).system_packages))
    if found is None or found.proof is None:
        raise NotFound(f"{system} has no proof; systems with one: {KNOWN}")
    with connected(context) as connection:
        uri = settings_of(context).uri or (connection.embedded.uri if connection.embedded else "")
        db = connection.client[f"prove_{system}_{new_id()[-8:]}"]
        try:
            schema.apply(db, [*assembly.CORE_COLLECTIONS, *found.collections])
            found.proof.prepare(db)
            processes = ProofWorkers(system, uri, db.name, workers)
            figures = _run(found.proof, db, processes, seconds, operations, kill_every, quiet=as_json)
            figures.server = connection.client.admin.command("buildInfo")["version"]
            verdict = dict(found.proof.check(db))
        finally:
            connection.client.drop_database(db.name)
    _report(figures, verdict, as_json)


class ProofWorkers:
    """A fixed number of worker processes; a killed one is replaced."""

    def __init__(self, system: str, uri: str, database: str, size: int) -> None:
        self._command = [sys.executable, "-m", "squinney.service.commands.prove_worker", system]
        # In the environment: a URI may contain a password, and other users can see arguments.
        self._environment = {**os.environ, "MONGODB_URI": uri, "SQUINNEY_DATABASE": database}
        self._started = 0
        self._processes = [self._start() for _ in range(size)]

    def _start(self) -> subprocess.Popen[bytes]:
        mode = MODES[self._started % 2]
        self._started += 1
        arguments = [*self._command, mode, str(self._started), str(os.getpid())]
        # In its own session, so that Ctrl-C reaches only this process, which then kills the workers.
        return subprocess.Popen(  # noqa: S603
            arguments, env=self._environment, stdin=subprocess.DEVNULL, start_new_session=True
        )

    def kill_one(self) -> None:
        """Kill a random worker, as a power cut would, and start a new one in the next transaction mode."""
        position = random.randrange(len(self._processes))
        self._kill(self._processes[position])
        self._processes[position] = self._start()

    def kill_all(self) -> None:
        """Kill all workers."""
        for process in self._processes:
            self._kill(process)

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        process.wait()


def _run(
    proof: Proof, db: Db, processes: ProofWorkers, seconds: float, operations: int, kill_every: float, *, quiet: bool
) -> Figures:
    figures = Figures()
    began = time.monotonic()
    next_kill = began + 2 * kill_every
    try:
        with Live(console=console, auto_refresh=False, transient=True) as live:
            while figures.seconds < seconds and not 0 < operations <= figures.operations:
                time.sleep(0.25)
                if time.monotonic() >= next_kill:
                    processes.kill_one()
                    figures.kills += 1
                    next_kill = time.monotonic() + kill_every
                figures.recovered.update(proof.settle(db))
                figures.operations = proof.progress(db)
                figures.seconds = time.monotonic() - began
                if not quiet:
                    live.update(_line(figures), refresh=True)
    finally:
        processes.kill_all()
    figures.kills += 1
    figures.recovered.update(_settle_all(proof, db))
    figures.operations = proof.progress(db)
    return figures


def _settle_all(proof: Proof, db: Db) -> Counter[str]:
    """Recover until no run is unfinished; the runs of killed workers must pass their deadlines first."""
    settled: Counter[str] = Counter()
    until = time.monotonic() + 30
    while True:
        settled.update(proof.settle(db))
        under_way = db["transactions"].count_documents({"state": {"$in": ["new", "commit", "rollback"]}})
        if not under_way or time.monotonic() > until:
            break
        time.sleep(0.2)
    return settled


def _line(figures: Figures) -> str:
    rate = figures.operations / figures.seconds if figures.seconds else 0
    recovered = ", ".join(f"{count} {name}" for name, count in sorted(figures.recovered.items())) or "none yet"
    return (
        f"{figures.seconds:5.1f} s   {figures.operations:,} acknowledged ({rate:,.0f}/s)   "
        f"{figures.kills} kills   unfinished runs: {recovered}"
    )


def _report(figures: Figures, verdict: dict[str, str], as_json: bool) -> None:
    if as_json:
        print_json(
            {
                **vars(figures),
                "seconds": round(figures.seconds, 1),
                "promises": {promise: not broken for promise, broken in verdict.items()},
                "broken": {promise: broken for promise, broken in verdict.items() if broken},
            }
        )
    else:
        console.print(_line(figures), highlight=False)
        table = Table("promise", "")
        for promise, broken in verdict.items():
            table.add_row(promise, Text(f"broken: {broken}", "red") if broken else Text("holds", "green"))
        console.print(table)
    if any(verdict.values()):
        raise typer.Exit(1)
