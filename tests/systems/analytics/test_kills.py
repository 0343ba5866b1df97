"""Processes killed with SIGKILL while they import; what remains is finished exactly."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from squinney.analytics import EventLog
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db

KILLS = 10
PROGRAM = """
import sys
from squinney.analytics import EventLog
from squinney.mongo.connect import client_for
log = EventLog(client_for(sys.argv[1])[sys.argv[2]])
print("ready", flush=True)
log.import_file(sys.argv[3])
"""


def run_until_killed(program: str, *arguments: str, chance: random.Random) -> None:
    """Start it, and kill it at some moment of its work."""
    process = subprocess.Popen([sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(chance.uniform(0, 0.25))
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()


def test_killed_ten_times_an_import_is_still_exact(
    log: EventLog, analytics_db: Db, real_log: Path, tmp_path: Path, mongod: Embedded
) -> None:
    path = tmp_path / "access.log"
    path.write_bytes(real_log.read_bytes() * 8)
    chance = random.Random(4)
    for _ in range(KILLS):
        run_until_killed(PROGRAM, mongod.uri, analytics_db.name, str(path), chance=chance)
    imported = log.import_file(path)

    assert imported.source["lines"] == 80_000
    assert imported.source["stored"] == analytics_db["events"].count_documents({}) == 8 * 9_999
    assert imported.source["rejected"] == analytics_db["rejects"].count_documents({}) == 8
    assert imported.source["offset"] == path.stat().st_size
