"""One mongod in the background: starting it, checking whether it runs, ending it.

A file lock shows whether it runs: the server inherits an exclusively locked `server.lock` and keeps the lock until it
ends in any way. So a process id that a crash or power loss left behind cannot be mistaken for a running server.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from squinney.errors import NoServer
from squinney.mongo.embedded.binary import ELSEWHERE, Binary, explain, run

LOG_BYTES = 8 * 1024 * 1024
WRONG_DATA_CODE = 62
WRONG_DATA = ("unsupported WiredTiger file version", "UPGRADE PROBLEM", "Wrong mongod version")
START_SECONDS = 120.0
STOP_SECONDS = 30.0


def start(binary: Binary, folder: Path, arguments: Sequence[str]) -> None:
    """Start a mongod on `folder/db` that outlives this process; return when it has gone to the background.

    Raises: `NoServer` with the reason, if it does not start.
    """
    (folder / "db").mkdir(mode=0o700, exist_ok=True)
    rotate(folder)
    log = folder / "mongod.log"
    before = log.stat().st_size if log.exists() else 0
    with open(folder / "server.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a process in `is_running` may have it for a moment
        code, output = run(
            binary.path,
            ["--fork", "--dbpath", str(folder / "db"), "--logpath", str(log), "--logappend", *_OPTIONS, *arguments],
            binary.environment,
            keep_open=[lock.fileno()],
            timeout_seconds=START_SECONDS,
        )
    if code != 0:
        raise NoServer(_why(binary, folder, code, output, log, before))


_OPTIONS = [
    *("--logRotate", "reopen"),
    "--quiet",  # omits two log lines per connection
    *("--setParameter", "diagnosticDataCollectionEnabled=false"),
    # The open transaction of a killed process holds its documents for this long; the default is a minute.
    *("--setParameter", "transactionLifetimeLimitSeconds=10"),
    # Without zlib: a client that sends damaged zlib messages can read memory of older servers (CVE-2025-14847).
    *("--networkMessageCompressors", "snappy,zstd"),
]


def is_running(folder: Path) -> bool:
    """Return whether the mongod of `folder` runs, by its lock."""
    try:
        with open(folder / "server.lock") as lock:
            return not try_lock(lock, fcntl.LOCK_SH)  # shared, so that two concurrent callers do not block each other
    except (FileNotFoundError, NotADirectoryError):
        return False


def process_id(folder: Path) -> int | None:
    """Return the process id of the mongod of `folder`, from the lock file that it writes."""
    try:
        return int((folder / "db" / "mongod.lock").read_text())
    except (OSError, ValueError):
        return None


def end(folder: Path) -> None:
    """End the mongod of `folder`, with SIGKILL if it ignores SIGTERM. Its journal makes both safe."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        send(folder, sign)
        if wait_until_ended(folder, STOP_SECONDS):
            return
    raise NoServer(f"The mongod of {folder} (process {process_id(folder)}) does not end: end it manually")


def send(folder: Path, sign: signal.Signals) -> None:
    """Send a signal to the mongod of `folder` if it runs."""
    pid = process_id(folder)
    if pid is not None and is_running(folder):
        with suppress(ProcessLookupError):
            os.kill(pid, sign)


def wait_until_ended(folder: Path, seconds: float) -> bool:
    """Wait until no mongod runs on `folder`; return False after `seconds`."""
    return _wait_for(lambda: not is_running(folder), seconds)


def _wait_for(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def rotate(folder: Path) -> bool:
    """Rename a large log, keeping one old log; return True if a running server must now reopen its log."""
    log = folder / "mongod.log"
    if not log.exists() or log.stat().st_size < LOG_BYTES:
        return False
    os.replace(log, folder / "mongod.log.1")
    return True


def try_lock(file: IO[str], kind: int = fcntl.LOCK_EX) -> bool:
    """Lock `file` without waiting, by default exclusively; return False if another process has it. Closing unlocks."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def gate(file: IO[str], folder: Path) -> Iterator[None]:
    """Let only one process at a time start or stop the server of `folder`."""
    if not _wait_for(lambda: try_lock(file), START_SECONDS):
        raise NoServer(
            f"Another process has been starting or stopping the MongoDB of {folder} for {START_SECONDS:.0f} s"
        )
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)


def _why(binary: Binary, folder: Path, code: int, output: str, log: Path, before: int) -> str:
    """Return why the server did not start, as one sentence with advice."""
    written = _written_since(log, before)
    if "No space left on device" in written + output:
        return f"The disk of {folder} is full: free some space, or set SQUINNEY_DATA to a folder on another disk"
    if code == WRONG_DATA_CODE or any(sign in written for sign in WRONG_DATA):
        return (
            f"The data in {folder} was written by {_writer(folder)}, which this mongod ({binary.version}) cannot read: "
            f"set SQUINNEY_MONGOD to a mongod of that version or the next, or SQUINNEY_DATA to another folder"
        )
    if not written:
        return explain(binary.path, code, output)
    return (
        f"mongod ended with code {code} ({_last_error(written)}): "
        f"see {log}, set SQUINNEY_DATA to another folder, {ELSEWHERE}"
    )


def note_version(folder: Path, version: str) -> None:
    """Store the version of the MongoDB that writes the data of `folder`."""
    (folder / "version").write_text(version)


def _writer(folder: Path) -> str:
    try:
        return f"MongoDB {(folder / 'version').read_text()}"
    except OSError:
        return "another version of MongoDB, probably a newer one"


def _written_since(log: Path, before: int) -> str:
    try:
        with open(log, "rb") as file:
            file.seek(before)
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def _last_error(written: str) -> str:
    """Return the last fatal message of mongod's log, else its last error, else its last line."""
    entries = [entry for line in written.splitlines() if (entry := _entry(line))]
    for severity in ("F", "E"):
        for entry in reversed(entries):
            if entry.get("s") == severity and entry.get("msg") not in _NOISE:
                reason = entry.get("attr", {}).get("error", "")
                return f"{entry.get('msg')} {reason if isinstance(reason, str) else json.dumps(reason)}".strip()[:300]
    return written.splitlines()[-1][:300]


_NOISE = ("\n\n***aborting after fassert() failure\n\n", "Writing fatal message", "Dumping backtrace")


def _entry(line: str) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) else None
