"""Start and remove the MongoDB servers of a test run. Their data is in memory if there is enough of it."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from squinney.errors import NoServer
from squinney.mongo.embedded import Embedded, process
from squinney.mongo.embedded.folders import socket_for

# Dropping a database waits for the next journal flush: by default every 100 ms. A flush every 2 ms would cost an idle
# server 4% of a core. Files of dropped databases stay open until a checkpoint is newer than the snapshot history: by
# default five minutes. With a small cache, the server would search the many open files for pages to evict all the time.
ARGUMENTS = (
    *("--wiredTigerEngineConfigString", "cache_size=1G"),
    *("--journalCommitInterval", "20", "--syncdelay", "5"),
    *("--setParameter", "ttlMonitorSleepSecs=1"),
    *("--setParameter", "diagnosticDataCollectionEnabled=false"),
    *("--setParameter", "minSnapshotHistoryWindowInSeconds=5"),
)
MEMORY = Path("/dev/shm")  # noqa: S108 - the run creates and removes its own folder there
MEMORY_BYTES = 2 * 2**30
RUN_FOLDERS = "squinney-test-"  # then the process id of the run, and a random text


def fast_folder() -> Path | None:
    """Return the in-memory file system if it has 2 GiB free: creating collections is three times as fast there."""
    usable = MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > MEMORY_BYTES
    return MEMORY if usable else None


def new_run_folder() -> Path:
    """Return an unused path for the run's folder. The run's first server creates it."""
    return (fast_folder() or Path(tempfile.gettempdir())) / f"{RUN_FOLDERS}{os.getpid()}-{secrets.token_hex(6)}"


def remove_abandoned(*, beside: Path) -> None:
    """Remove the servers and folders of runs that were killed: their data may take gigabytes of memory."""
    for folder in beside.parent.glob(f"{RUN_FOLDERS}*-*"):
        with suppress(OSError, ValueError, NoServer):  # another user's, or removed by another run
            run = int(folder.name.removeprefix(RUN_FOLDERS).partition("-")[0])
            # guard: a run that has not ended keeps its servers
            if not _is_alive(run) and not any(map(_is_used, folder.iterdir())):
                remove(folder)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _is_used(server: Path) -> bool:
    """Return whether a process uses this server, such as a worker that goes on after the run's main process."""
    with open(server / "users.lock") as users:
        return not process.try_lock(users)


def serve(folder: Path) -> Embedded:
    """Return the server of the folder, and start it if it is not running."""
    return Embedded.start(folder, test_commands=True, arguments=ARGUMENTS)


def remove(run_folder: Path) -> None:
    """Stop servers that a crashed worker left running, and remove the folder."""
    if not run_folder.exists():
        return
    for folder in run_folder.iterdir():
        if process.is_running(folder):
            process.end(folder)
        socket = socket_for(folder)
        with suppress(OSError):
            socket.unlink(missing_ok=True)
            socket.parent.rmdir()
    shutil.rmtree(run_folder)
