"""Several server processes serve campaigns with small budgets and caps while some are killed: all promises hold.

`SQUINNEY_PROVE=full python -m pytest -s tests/systems/ads/test_big_race.py` runs it in full and prints the figures.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.sizes import IN_FULL, heavy

from squinney.ads import proof
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db

PROCESSES, THREADS, KILLS = (8, 32, 8) if IN_FULL else (2, 8, 1)
SERVES = 200_000 if IN_FULL else 2_000
MAX_SECONDS = 840 if IN_FULL else 270


class Servers:
    """The server processes and their record files."""

    def __init__(self, uri: str, database: str, folder: Path) -> None:
        self._command = [sys.executable, "-m", "tests.systems.ads.server", uri, database, str(folder)]
        self._folder = folder
        self._running: list[subprocess.Popen[bytes]] = []
        self._begun = 0

    def start(self) -> None:
        """Start one more process."""
        self._begun += 1
        self._running.append(subprocess.Popen([*self._command, f"server {self._begun}", str(THREADS)]))

    def kill(self) -> None:
        """Kill the oldest process, as a power loss would, and start another one."""
        oldest = self._running.pop(0)
        oldest.kill()
        oldest.wait()
        self.start()

    def stop(self) -> None:
        """Stop all processes after their current batch."""
        (self._folder / "stop").touch()
        try:
            for one in self._running:
                assert one.wait(timeout=90) == 0
        finally:
            for one in self._running:
                one.kill()

    def lines(self) -> list[list[str]]:
        """Read the complete lines of all records. The last line of a killed process may be incomplete."""
        files = self._folder.glob("*.log")
        whole = [line for file in files for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]
        return [line.rstrip("\n").split("\t") for line in whole]

    def served(self) -> int:
        """Return the number of ads served so far."""
        return sum(file.read_bytes().count(b"served") for file in self._folder.glob("*.log"))


@heavy
@pytest.mark.timeout(1_000 if IN_FULL else 400)
def test_no_budget_or_cap_is_exceeded_and_every_count_is_right(ads_db: Db, mongod: Embedded, tmp_path: Path) -> None:
    proof.prepare(ads_db)
    servers = Servers(mongod.uri, ads_db.name, tmp_path)
    began, killed = time.monotonic(), 0
    try:
        for _ in range(PROCESSES):
            servers.start()
        while (done := servers.served()) < SERVES:
            assert time.monotonic() < began + MAX_SECONDS, f"{done} of {SERVES} serves"
            if killed < KILLS and done > SERVES * (killed + 1) / (KILLS + 1):
                servers.kill()
                killed += 1
            time.sleep(0.2)
    finally:
        servers.stop()
    seconds = time.monotonic() - began
    lines = servers.lines()
    kinds = Counter(line[0] for line in lines)
    known = [{"user": line[1], "campaign_id": line[2]} for line in lines if line[0] == "served" and line[1]]
    ads_db["served"].insert_many(known)
    ads_db["answered"].insert_many([{"serve": line[1]} for line in lines if line[0] == "answered"])
    promises = proof.check(ads_db)
    settled = ads_db["ads.serves"].count_documents({})
    print(
        f"{kinds['served']:,} serves by {PROCESSES} processes of {THREADS} threads in {seconds:.0f} s, {killed} killed:"
        f" {settled:,} settled, {kinds['answered']:,} answered, {kinds['forged']} forgeries accepted"
    )
    assert set(promises.values()) == {""}, promises
    assert kinds["forged"] == 0
    assert killed == KILLS
