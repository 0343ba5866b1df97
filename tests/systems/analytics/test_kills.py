"""Imports killed with SIGKILL; the next import completes them exactly."""

from __future__ import annotations

import random
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.processes import wait_until_gone
from tests.sizes import IN_FULL, heavy
from tests.systems.analytics.conftest import stored_events

from squinney.analytics import EventLog
from squinney.mongo.connect import client_for
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db

KILLS = 10 if IN_FULL else 2
TIMES = 8 if IN_FULL else 4  # so many times ten thousand lines: enough to die in the midst of
PROGRAM = """
import sys
from squinney.analytics import EventLog
from squinney.mongo.connect import client_for
log = EventLog(client_for(sys.argv[1])[sys.argv[2]])
print("ready", flush=True)
log.import_file(sys.argv[3], after_checkpoint=lambda _: print("checkpoint", flush=True))
"""


def run_until_killed(program: str, uri: str, *arguments: str, rng: random.Random, longest: float = 0.25) -> None:
    """Start the program, and kill it some time before or after its first checkpoint.

    The server may still execute the program's last write after the kill; this function waits for it.
    """
    app = f"killed-{secrets.token_hex(6)}"
    command = [sys.executable, "-c", program, f"{uri}&appName={app}", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    for _ in range(rng.choice([1, 2, 2])):
        process.stdout.readline()
    time.sleep(rng.uniform(0, longest))
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    with client_for(uri) as client:
        wait_until_gone(client, app)


@heavy
def test_an_import_is_exact_after_repeated_kills(
    log: EventLog, analytics_db: Db, real_log: Path, tmp_path: Path, mongod: Embedded
) -> None:
    path = tmp_path / "access.log"
    path.write_bytes(real_log.read_bytes() * TIMES)
    rng = random.Random(4)
    stored = []
    for _ in range(KILLS):
        run_until_killed(PROGRAM, mongod.uri, analytics_db.name, str(path), rng=rng)
        stored.append(len(stored_events(analytics_db)))
    assert any(0 < count < TIMES * 9_999 for count in stored)  # they died in the middle of it
    imported = log.import_file(path)

    assert imported.source["lines"] == TIMES * 10_000
    assert imported.source["stored"] == len(stored_events(analytics_db)) == TIMES * 9_999
    assert imported.source["rejected"] == analytics_db["analytics.rejects"].count_documents({}) == TIMES
    assert imported.source["offset"] == path.stat().st_size
