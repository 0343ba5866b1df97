"""One mongod in the background: starting it, asking whether it lives, ending it.

The truth about "is it running" is a file lock: the server inherits an exclusively locked `server.lock` and keeps it
until it ends, however it ends. A process id left by a crash or a power loss can therefore not mislead anybody.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import time
from collections.abc import Iterator, Sequence
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
    """Start a mongod on `folder/db` that outlives this process; returns when it is about to answer.

    Raises: NoServer with the reason, where it does not come up.
    """
    (folder / "db").mkdir(mode=0o700, exist_ok=True)
    rotate(folder)
    log = folder / "mongod.log"
    before = log.stat().st_size if log.exists() else 0
    with open(folder / "server.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # at most a moment: nobody runs it, somebody may be asking
        code, output = run(
            binary.path,
            ["--fork", "--dbpath", str(folder / "db"), "--logpath", str(log), "--logappend", *_HOUSE, *arguments],
            binary.environment,
            keep_open=[lock.fileno()],
            timeout_seconds=START_SECONDS,
        )
    if code != 0:
        raise NoServer(_why(binary, folder, code, output, log, before))


_HOUSE = [
    *("--logRotate", "reopen"),
    "--quiet",  # no two log lines for each connection
    *("--setParameter", "diagnosticDataCollectionEnabled=false"),
    # A killed process's open transaction holds its documents for this long; the server's own default is a minute.
    *("--setParameter", "transactionLifetimeLimitSeconds=10"),
]


def is_running(folder: Path) -> bool:
    """Whether a mongod started here on `folder` still lives, by its lock."""
    try:
        with open(folder / "server.lock") as lock:
            return not try_lock(lock, fcntl.LOCK_SH)  # shared, so that two who ask do not see each other
    except (FileNotFoundError, NotADirectoryError):
        return False


def process_id(folder: Path) -> int | None:
    """The id of the mongod running on `folder`, which writes it there itself."""
    try:
        return int((folder / "db" / "mongod.lock").read_text())
    except (OSError, ValueError):
        return None


def end(folder: Path, *, patience_seconds: float = STOP_SECONDS) -> None:
    """End the mongod of `folder`: asked first, by force when it does not listen. Its journal makes either safe."""
    for sign, seconds in ((signal.SIGTERM, patience_seconds), (signal.SIGKILL, patience_seconds)):
        send(folder, sign)
        if wait_until_ended(folder, seconds):
            return
    raise NoServer(f"The mongod of {folder} (process {process_id(folder)}) does not end: end it by hand")


def send(folder: Path, sign: signal.Signals) -> None:
    """Send `sign` to the mongod of `folder` if it lives."""
    pid = process_id(folder)
    if pid is not None and is_running(folder):
        with suppress(ProcessLookupError):
            os.kill(pid, sign)


def wait_until_ended(folder: Path, seconds: float) -> bool:
    """Wait until no mongod runs on `folder`; False when `seconds` have passed."""
    deadline = time.monotonic() + seconds
    while is_running(folder):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def rotate(folder: Path) -> bool:
    """Put a log that has grown aside, keeping one old one; a running server must then be told to reopen its log."""
    log = folder / "mongod.log"
    if not log.exists() or log.stat().st_size < LOG_BYTES:
        return False
    os.replace(log, folder / "mongod.log.1")
    return True


def try_lock(file: IO[str], kind: int = fcntl.LOCK_EX) -> bool:
    """Lock `file`, exclusively if not told otherwise, unless somebody is in the way; closing it gives the lock back."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def gate(file: IO[str], folder: Path, seconds: float = START_SECONDS) -> Iterator[None]:
    """One process at a time starts or stops the server of `folder`."""
    deadline = time.monotonic() + seconds
    while not try_lock(file):
        if time.monotonic() > deadline:
            raise NoServer(f"Another process has been starting or stopping the MongoDB of {folder} for {seconds:.0f} s")
        time.sleep(0.02)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)


def _why(binary: Binary, folder: Path, code: int, output: str, log: Path, before: int) -> str:
    """Why the server did not come up, as one sentence that says what to do."""
    written = _written_since(log, before)
    if "No space left on device" in written + output:
        return f"The disk of {folder} is full: make room, or set SQUINNEY_DATA to a folder on another disk"
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
    """Remember which MongoDB wrote the data of `folder`."""
    (folder / "version").write_text(version)


def _writer(folder: Path) -> str:
    try:
        return f"MongoDB {(folder / 'version').read_text()}"
    except OSError:
        return "another MongoDB, a newer one as a rule"


def _written_since(log: Path, before: int) -> str:
    try:
        with open(log, "rb") as file:
            file.seek(before)
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def _last_error(written: str) -> str:
    """The last fatal message of mongod's log, else its last error, else its last line."""
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
