"""`make prove`: run every proof at full size, write `docs/benchmarks/proofs.md`, and run the docs in new environments.

`python -m bench.prove ledger` proves one system with its own crash cases, and writes no page.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from tools import run_docs

from bench import report
from squinney import assembly

OPERATIONS = {"ledger": 20_000}
SECONDS = 600
MAX_TEST_SECONDS = 3_600


def prove(name: str) -> dict[str, object]:
    """Run one system's proof with the `squinney` command, on a private MongoDB, and return its figures."""
    with tempfile.TemporaryDirectory(prefix="squinney-prove-") as folder:
        command = [sys.executable, "-m", "squinney.service.commands.main", "--data", f"{folder}/data", "prove", name]
        limits = ["--operations", str(OPERATIONS.get(name, 5_000)), "--seconds", str(SECONDS), "--json"]
        environment = {key: value for key, value in os.environ.items() if key != "MONGODB_URI"}
        result = subprocess.run([*command, *limits], env=environment, stdout=subprocess.PIPE, text=True)
    if not result.stdout:
        raise SystemExit(f"the proof of {name} printed no result: exit code {result.returncode}")
    figures: dict[str, object] = json.loads(result.stdout)
    return figures


def sweep(names: Sequence[str]) -> str:
    """Run the heavy tests at full size and those of the cluster, and return the lines with counts."""
    folders = [f"tests/systems/{name}" for name in names] or ["tests"]
    command = [sys.executable, "-m", "pytest", "-m", "heavy or cluster", "-n", "2", f"--timeout={MAX_TEST_SECONDS}"]
    command += ["tests/crash", "tests/cluster", *folders]
    in_full = {**os.environ, "SQUINNEY_PROVE": "full", "SQUINNEY_SWEEP": ",".join(names)}
    result = subprocess.run(command, env=in_full, stdout=subprocess.PIPE, text=True)
    print(result.stdout)
    if result.returncode:
        raise SystemExit("a test at full size failed")
    counts = [line for line in result.stdout.splitlines() if line.startswith(("crash points:", "schedules:"))]
    return "; ".join(counts)


def guards() -> str:
    """Remove every guard in turn, and return the line that counts the guards tried and those that a test watches."""
    result = subprocess.run([sys.executable, "-m", "tests.mutants"], stdout=subprocess.PIPE, text=True)
    print(result.stdout)
    if result.returncode:
        raise SystemExit("no test failed without one of the guards")
    return result.stdout.splitlines()[-1]


def main(only: Sequence[str]) -> None:
    """Prove everything, then write the page; exit with 1 if a promise is broken."""
    names = [system.name for system in assembly.SYSTEMS if system.proof and (not only or system.name in only)]
    proofs = {name: prove(name) for name in names}
    rows = [
        [name, f"{figures['operations']:,}", f"{figures['seconds']}", str(figures["kills"]), _verdict(figures)]
        for name, figures in proofs.items()
    ]
    head = ["system", "operations acknowledged", "seconds", "kill -9", "promises"]
    print(report.table(head, rows), flush=True)
    points = sweep(only)
    if not only:
        watched = guards()
        machine = report.machine(str(next(iter(proofs.values()))["server"]))
        report.write_page("proofs", "Proofs at full size", [report.table(head, rows), f"{points}. {watched}.", machine])
        report.copy_to_readme("proofs", report.table(head, rows))
    failing = 0 if only else run_docs.main([])
    if failing or any(figures["broken"] for figures in proofs.values()):
        raise SystemExit(1)


def _verdict(figures: dict[str, object]) -> str:
    promises = figures["promises"]
    assert isinstance(promises, dict)
    held = sum(promises.values())
    return f"all {held} hold" if held == len(promises) else f"{len(promises) - held} broken: {figures['broken']}"


if __name__ == "__main__":
    main(sys.argv[1:])
