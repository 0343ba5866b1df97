"""The servers of a test run: real ones, in memory where there is enough, gone when the run ends."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from pathlib import Path

from squinney.mongo.embedded import Embedded, process

# Dropping a database waits for the next flush of the journal, by default a tenth of a second; but an idle server that
# flushes every two milliseconds takes 4% of a core. Files of dropped databases stay open until a checkpoint behind the
# history that snapshots may ask for: by default five minutes. In a small cache the files of so many databases would be
# searched for something to evict all the time.
ARGUMENTS = (
    *("--wiredTigerEngineConfigString", "cache_size=1G"),
    *("--journalCommitInterval", "20", "--syncdelay", "5"),
    *("--setParameter", "ttlMonitorSleepSecs=1"),
    *("--setParameter", "diagnosticDataCollectionEnabled=false"),
    *("--setParameter", "minSnapshotHistoryWindowInSeconds=5"),
)
MEMORY = Path("/dev/shm")  # noqa: S108 - made and removed by us
MEMORY_BYTES = 2 * 2**30


def fast_folder() -> Path | None:
    """Memory, where there is enough: collections are created three times as fast there."""
    usable = MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > MEMORY_BYTES
    return MEMORY if usable else None


def new_run_folder() -> Path:
    """A name for the folder of a run, which is made when its first server starts."""
    return (fast_folder() or Path(tempfile.gettempdir())) / f"squinney-test-{secrets.token_hex(6)}"


def serve(folder: Path) -> Embedded:
    """The server of a folder, started if nobody has."""
    return Embedded.start(folder, test_commands=True, arguments=ARGUMENTS)


def remove(run_folder: Path) -> None:
    """End what a crashed worker left and remove the folder."""
    if not run_folder.exists():
        return
    for folder in run_folder.iterdir():
        if process.is_running(folder):
            process.end(folder)
    shutil.rmtree(run_folder)
