"""`squinney prove SYSTEM`: workers, `kill -9`, and the invariants, before your eyes."""

from __future__ import annotations

import os
import random
import signal
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
from squinney.service.commands.systems import systems_of
from squinney.system import Proof

MODES = ("native", "two-phase")
KNOWN = ", ".join(system.name for system in assembly.SYSTEMS if system.proof)


@dataclass
class Figures:
    """What the run has come to."""

    seconds: float = 0
    operations: int = 0
    kills: int = 0
    recovered: Counter[str] = field(default_factory=Counter)
    server: str = ""


def prove(
    context: typer.Context,
    system: Annotated[str, typer.Argument(help=f"Which system: {KNOWN}.")],
    seconds: Annotated[float, typer.Option(help="How long, at the most.")] = 60,
    operations: Annotated[int, typer.Option(help="Stop after so many; 0 for no limit.")] = 0,
    workers: Annotated[int, typer.Option(help="How many processes.", min=1, max=64)] = 4,
    kill_every: Annotated[float, typer.Option(help="Seconds between two kills.", min=0.05)] = 1,
    as_json: Json = False,
) -> None:
    """Let workers in both transaction modes run, kill -9 one every second, and check every promise.

    It works in a database of its own, which is dropped at the end. Exits with 1 where a promise is broken.
    """
    found = assembly.system_named(system, systems_of(context))
    if found is None or found.proof is None:
        raise NotFound(f"there is no proof of {system}; there is one of: {KNOWN}")
    with connected(context) as connection:
        uri = settings_of(context).uri or (connection.embedded.uri if connection.embedded else "")
        db = connection.client[f"prove_{system}_{new_id()[-8:]}"]
        try:
            schema.apply(db, [*assembly.CORE_COLLECTIONS, *found.collections])
            found.proof.prepare(db)
            crew = ProofWorkers(system, uri, db.name, workers)
            figures = _run(found.proof, db, crew, seconds, operations, kill_every, quiet=as_json)
            figures.server = connection.client.admin.command("buildInfo")["version"]
            verdict = dict(found.proof.check(db))
        finally:
            connection.client.drop_database(db.name)
    _report(figures, verdict, as_json)


class ProofWorkers:
    """Worker processes that are replaced when they are killed."""

    def __init__(self, system: str, uri: str, database: str, size: int) -> None:
        self._command = [sys.executable, "-m", "squinney.service.commands.prove_worker", system]
        # By the environment: a URI may hold a password, and arguments are for all to see.
        self._environment = {**os.environ, "MONGODB_URI": uri, "SQUINNEY_DATABASE": database}
        self._started = 0
        self._processes = [self._start() for _ in range(size)]

    def _start(self) -> subprocess.Popen[bytes]:
        mode = MODES[self._started % 2]
        self._started += 1
        arguments = [*self._command, mode, str(self._started), str(os.getpid())]
        # In a session of its own: Ctrl-C is for us alone, and we end the workers.
        return subprocess.Popen(  # noqa: S603
            arguments, env=self._environment, stdin=subprocess.DEVNULL, start_new_session=True
        )

    def kill_one(self) -> None:
        """End a worker as a power cut would, and start another of the other mode."""
        position = random.randrange(len(self._processes))
        self._kill(self._processes[position])
        self._processes[position] = self._start()

    def kill_all(self) -> None:
        """End every worker."""
        for process in self._processes:
            self._kill(process)

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        process.send_signal(signal.SIGKILL)
        process.wait()


def _run(
    proof: Proof, db: Db, crew: ProofWorkers, seconds: float, operations: int, kill_every: float, *, quiet: bool
) -> Figures:
    figures = Figures()
    began = time.monotonic()
    next_kill = began + 2 * kill_every
    try:
        with Live(console=console, auto_refresh=False, transient=True) as live:
            while figures.seconds < seconds and not 0 < operations <= figures.operations:
                time.sleep(0.25)
                if time.monotonic() >= next_kill:
                    crew.kill_one()
                    figures.kills += 1
                    next_kill = time.monotonic() + kill_every
                figures.recovered.update(proof.settle(db))
                figures.operations = proof.progress(db)
                figures.seconds = time.monotonic() - began
                if not quiet:
                    live.update(_line(figures), refresh=True)
    finally:
        crew.kill_all()
    figures.kills += 1
    figures.recovered.update(_settle_all(proof, db))
    figures.operations = proof.progress(db)
    return figures


def _settle_all(proof: Proof, db: Db) -> Counter[str]:
    """Recover until nothing is left to do: what the last kill left has to pass its deadline first."""
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
    recovered = ", ".join(f"{count} {what}" for what, count in sorted(figures.recovered.items())) or "none yet"
    return (
        f"{figures.seconds:5.1f} s   {figures.operations:,} acknowledged ({rate:,.0f}/s)   "
        f"{figures.kills} kills   unfinished runs: {recovered}"
    )


def _report(figures: Figures, verdict: dict[str, str], as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "seconds": round(figures.seconds, 1),
                "operations": figures.operations,
                "kills": figures.kills,
                "server": figures.server,
                "recovered": dict(figures.recovered),
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
