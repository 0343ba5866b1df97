"""Processes killed with SIGKILL while they import; what remains is finished exactly."""

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


def run_until_killed(program: str, uri: str, *arguments: str, chance: random.Random, longest: float = 0.25) -> int:
    """Start it, and kill it before or behind its first checkpoint, some time later. What it started ends with it.

    What it had sent by then is done when this returns: its last write may come in behind the kill.

    Returns how many processes that were.
    """
    app = f"killed-{secrets.token_hex(6)}"
    command = [sys.executable, "-c", program, f"{uri}&appName={app}", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    for _ in range(chance.choice([1, 2, 2])):
        process.stdout.readline()
    time.sleep(chance.uniform(0, longest))
    started = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert psutil.wait_procs(started, timeout=30)[1] == []
    with client_for(uri) as client:
        wait_until_gone(client, app)
    return len(started)


@heavy
def test_killed_again_and_again_an_import_is_still_exact(
    log: EventLog, analytics_db: Db, real_log: Path, tmp_path: Path, mongod: Embedded
) -> None:
    path = tmp_path / "access.log"
    path.write_bytes(real_log.read_bytes() * TIMES)
    chance = random.Random(4)
    stored = []
    for _ in range(KILLS):
        run_until_killed(PROGRAM, mongod.uri, analytics_db.name, str(path), chance=chance)
        stored.append(analytics_db["events"].count_documents({}))
    assert any(0 < count < TIMES * 9_999 for count in stored)  # they died in the middle of it
    imported = log.import_file(path)

    assert imported.source["lines"] == TIMES * 10_000
    assert imported.source["stored"] == analytics_db["events"].count_documents({}) == TIMES * 9_999
    assert imported.source["rejected"] == analytics_db["rejects"].count_documents({}) == TIMES
    assert imported.source["offset"] == path.stat().st_size


@heavy
def test_killed_with_a_second_process_it_is_exact_and_leaves_none_behind(
    log: EventLog, analytics_db: Db, real_log: Path, tmp_path: Path, mongod: Embedded
) -> None:
    path = tmp_path / "access.log"
    path.write_bytes(real_log.read_bytes() * TIMES)
    chance = random.Random(5)
    started = [
        run_until_killed(SHARED, mongod.uri, analytics_db.name, str(path), chance=chance, longest=1.0)
        for _ in range(3 if IN_FULL else 2)
    ]
    assert sum(started) > 0
    imported = log.import_file(path, processes=2, uri=mongod.uri)
    assert imported.source["stored"] == analytics_db["events"].count_documents({}) == TIMES * 9_999
    assert imported.source["rejected"] == analytics_db["rejects"].count_documents({}) == TIMES
    assert imported.source["offset"] == path.stat().st_size


def test_when_the_second_process_is_killed_the_first_does_its_part(
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
