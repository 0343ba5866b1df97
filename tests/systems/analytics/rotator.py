"""A web server whose log is rotated at random, and the processes that import it, to be killed at random."""

from __future__ import annotations

import gzip
import logging
import os
import random
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from squinney.analytics import EventLog, feed_hits, pack
from squinney.analytics.errors import ImportRunning
from squinney.errors import Invalid
from squinney.mongo.connect import client_for

BEGIN = datetime(2015, 5, 17, tzinfo=UTC)
ALIKE = [0, 0, 3, 30, 300]  # lines that all logs of a server begin with
KEPT = [1, 2, 3, 5]  # rotated logs
LOST = "may be lost"


def numbered(number: int, path: str = "/") -> bytes:
    """A line with the number as its bytes; sixteen minutes later than the one before, so that pages are small."""
    at = BEGIN + timedelta(seconds=number * 16)
    return f'203.0.113.7 - - [{at:%d/%b/%Y:%H:%M:%S} +0000] "GET {path} HTTP/1.1" 200 {number} "-" "x"\n'.encode()


class Server:
    """Writes numbered lines into its log. It knows which lines are in each file, and which files were deleted."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        self.path = folder / "access.log"
        self.written = 0
        self.logs = 0
        self.deleted: list[tuple[float, set[int]]] = []
        self._rng = rng
        self.is_dated = rng.random() < 0.4
        self.alike = rng.choice(ALIKE)
        self._kept = rng.choice(KEPT)
        self._compresses_from = rng.choice([1, 2, 99])  # the number from which on rotated logs are compressed
        self._lines: list[tuple[Path, set[int]]] = [(self.path, set())]  # the rotated logs, the oldest first
        self._day = 0
        self._begun = b""

    def write(self, lines: int, *, late: bool = False) -> None:
        """Append lines, the last one sometimes in two parts. Late ones go to the log that was renamed last."""
        numbers = range(self.written, self.written + lines)
        self.written += lines
        path, known = self._lines[-2] if late else self._lines[-1]
        known.update(numbers)
        text = b"".join(map(numbered, numbers))
        if not late and not (path.exists() and path.stat().st_size):
            text = b"".join(numbered(0, "/alike") for _ in range(self.alike)) + text
            self.logs += 1
        if late:
            _append(path, text)
            return
        text, self._begun = self._begun + text, b""
        if lines > 1 and self._rng.random() < 0.3:  # a log always has a whole line that no other log has
            text, self._begun = text[:-20], text[-20:]
        _append(path, text)

    def finish_line(self) -> None:
        """Write the rest of the last line."""
        if self._begun:
            _append(self._lines[-1][0], self._begun)
            self._begun = b""

    def rotate(self) -> None:
        """Rotate as logrotate does: rename the rotated logs, begin a new one, delete the oldest ones, and compress."""
        self.finish_line()
        if not self.path.exists() or not self.path.stat().st_size:
            return
        if not self.is_dated:
            rotated = self._lines[:-1]
            for index, (path, lines) in enumerate(rotated):  # the oldest first, which has the greatest number
                number = len(rotated) - index + 1
                ending = ".gz" if path.suffix == ".gz" else ""
                self._lines[index] = path.rename(self.path.with_name(f"access.log.{number}{ending}")), lines
        self._day += 1
        to = self.path.with_name(f"access.log-{20150516 + self._day}" if self.is_dated else "access.log.1")
        if copied := self._rng.random() < 0.4:
            shutil.copy(self.path, to)
            os.truncate(self.path, 0)
        else:
            self.path.rename(to)
        self._lines[-1:] = [(to, self._lines[-1][1]), (self.path, set())]
        if not copied and self._compresses_from > 1 and self._rng.random() < 0.5:
            self.write(self._rng.randint(1, 5), late=True)
        while len(self._lines) > self._kept + 1:
            path, lines = self._lines.pop(0)
            path.unlink()
            self.deleted.append((time.time(), lines))
        self._compress()

    def _compress(self) -> None:
        for index, (path, lines) in enumerate(self._lines[:-1]):
            if len(self._lines) - 1 - index >= self._compresses_from and path.suffix != ".gz":
                to = path.with_name(path.name + ".gz")
                whole = gzip.compress(path.read_bytes())
                with to.open("wb") as file:  # in two parts, as a compression that takes a while
                    file.write(whole[: len(whole) // 2])
                    file.flush()
                    time.sleep(self._rng.uniform(0, 0.05))
                    file.write(whole[len(whole) // 2 :])
                path.unlink()
                self._lines[index] = to, lines

    def any_log(self) -> set[int]:
        """Return the lines of one of the logs, which identify it."""
        return self._rng.choice(self._lines)[1]

    def path_of(self, lines: set[int]) -> Path | None:
        """Return the present path of the log with these lines, or None if it was deleted."""
        return next((path for path, known in self._lines if known is lines), None)


def _append(path: Path, text: bytes) -> None:
    with path.open("ab", buffering=0) as file:
        file.write(text)


# ---- the processes; each is killed at some moment ----


def _log_of(uri: str, database: str) -> EventLog:
    return EventLog(client_for(uri)[database])


def follow(uri: str, database: str, path: Path, warnings: Path) -> None:
    """Follow the log, count the hits of what it stored, and note every warning."""
    handler = logging.FileHandler(warnings)
    logging.getLogger("squinney").propagate = False
    handler.setFormatter(logging.Formatter("%(created)f %(message)s"))
    logging.getLogger("squinney").addHandler(handler)
    log = _log_of(uri, database)
    db = client_for(uri)[database]
    log.follow(path, poll_seconds=0.02, after_checkpoint=lambda source: feed_hits(db, source["_id"]))


def import_once(uri: str, database: str, path: Path) -> None:
    """Import a log by hand, whatever happens to it meanwhile."""
    with suppress(ImportRunning, Invalid):
        _log_of(uri, database).import_file(path)


def pack_often(uri: str, database: str) -> None:
    """Pack again and again."""
    db = client_for(uri)[database]
    while True:
        pack(db)
        time.sleep(0.01)


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until the condition holds."""
    until = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def until_it_works(work: Callable[[], object]) -> None:
    """Do it again while a killed process still has the log."""
    until = time.monotonic() + 120
    while True:
        try:
            work()
            return
        except (ImportRunning, FileNotFoundError):
            assert time.monotonic() < until
            time.sleep(0.1)
