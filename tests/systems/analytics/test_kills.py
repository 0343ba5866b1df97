"""Imports killed with SIGKILL; the next import completes them exactly."""

from __future__ import annotations

import random
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
from tests.processes import wait_until_gone
from tests.sizes import IN_FULL, heavy

from squinney.analytics import EventLog
from squinney.mongo.connect import client_for
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db

KILLS = 10 if IN_FULL else 4
TIMES = 8  # so many times ten thousand lines: enough to die in the midst of
PROGRAM = """
import sys
from squinney.analytics import EventLog
from squinney.mongo.connect import client_for
log = EventLog(client_for(sys.argv[1])[sys.argv[2]])
print("ready", flush=True)
log.import_file(sys.argv[3], after_checkpoint=lambda _: print("checkpoint", flush=True))
"""
SHARED = PROGRAM.replace("sys.argv[3], ", "sys.argv[3], processes=2, uri=sys.argv[1], ")


def run_until_killed(program: str, uri: str, *arguments: str, rng: random.Random, longest: float = 0.25) -> int:
    """Start the program, and kill it some time before or after its first checkpoint; its child processes end with it.

    The server may still execute the program's last write after the kill; this function waits for it.

    Returns the number of child processes.
    """
    app = f"killed-{secrets.token_hex(6)}"
    command = [sys.executable, "-c", program, f"{uri}&appName={app}", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    for _ in range(rng.choice([1, 2, 2])):
        process.stdout.readline()
    time.sleep(rng.uniform(0, longest))
    started = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert psutil.wait_procs(started, timeout=30)[1] == []
    with client_for(uri) as client:
        wait_until_gone(client, app)
    return len(started)


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
        stored.append(analytics_db["events"].count_documents({}))
    assert any(0 < count < TIMES * 9_999 for count in stored)  # they died in the middle of it
    imported = log.import_file(path)

    assert imported.source["lines"] == TIMES * 10_000
    assert imported.source["stored"] == analytics_db["events"].count_documents({}) == TIMES * 9_999
    assert imported.source["rejected"] == analytics_db["rejects"].count_documents({}) == TIMES
    assert imported.source["offset"] == path.stat().st_size


@heavy
def test_an_import_with_two_processes_is_exact_after_kills_and_leaves_no_process(
    log: EventLog, analytics_db: Db, real_log: Path, tmp_path: Path, mongod: Embedded
) -> None:
    path = tmp_path / "access.log"
    path.write_bytes(real_log.read_bytes() * TIMES)
    rng = random.Random(5)
    started = [
        run_until_killed(SHARED, mongod.uri, analytics_db.name, str(path), rng=rng, longest=1.0)
        for _ in range(3 if IN_FULL else 2)
    ]
    assert sum(started) > 0
    imported = log.import_file(path, processes=2, uri=mongod.uri)
    assert imported.source["stored"] == analytics_db["events"].count_documents({}) == TIMES * 9_999
    assert imported.source["rejected"] == analytics_db["rejects"].count_documents({}) == TIMES
    assert imported.source["offset"] == path.stat().st_size


def test_when_the_second_process_is_killed_the_first_stores_its_chunks(
    log: EventLog, analytics_db: Db, real_log: Path, tmp_path: Path, mongod: Embedded
) -> None:
    path = tmp_path / "access.log"
    path.write_bytes(real_log.read_bytes() * TIMES)
    killed: list[int] = []

    def kill(_: object) -> None:
        for child in psutil.Process().children():
            if not killed and "spawn_main" in " ".join(child.cmdline()):
                killed.append(child.pid)
                child.kill()

    imported = log.import_file(path, processes=2, uri=mongod.uri, after_checkpoint=kill)
    assert len(killed) == 1
    assert imported.source["stored"] == analytics_db["events"].count_documents({}) == TIMES * 9_999
    assert imported.source["state"] == "done"
