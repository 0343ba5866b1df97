"""Following a log that grows and is rotated, by rename or by copy and truncate."""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import BinaryIO

from squinney.analytics.errors import ImportRunning
from squinney.analytics.events.imports import Imported
from squinney.errors import Invalid, Unavailable

log = logging.getLogger(__name__)

# After a graceful restart, Apache's old processes write into the old log until their requests are finished.
SILENT_SECONDS = 300.0
ENDINGS = ("", ".gz", ".bz2", ".xz", ".zst")

# Imports the new lines of an open log, from its checkpoint on, wherever the file's position is.
Read = Callable[[BinaryIO], Imported]
# Returns True if an open log, or its beginning, was imported before.
IsKnown = Callable[[BinaryIO], bool]


class Follower:
    """Follows one path. Sources are identified by content, so after a rotation it is safe to read every file again.

    When the path points to a new file, the old file is still open and is read until it has not changed for a while: a
    server that restarts gracefully writes into both. When the file was copied and truncated, its unread end is in the
    copy, which is named `<path>.1` or, with a date, `<path>-20260517`. After a pause of the follower or of MongoDB
    there may be several rotated logs; they are read back to the newest one that is already known.
    """

    def __init__(
        self, path: Path, read: Read, is_known: IsKnown, on_import: Callable[[Imported], None] | None = None
    ) -> None:
        self._path = path
        self._read = read
        self._is_known = is_known
        self._on_import = on_import
        self._current: _OpenLog | None = None
        self._replaced: list[_OpenLog] = []
        self._source: str | None = None

    def run(self, stop: threading.Event, poll_seconds: float) -> None:
        """Poll the log until `stop` is set; while MongoDB is unreachable it waits, and loses no line."""
        try:
            while not stop.is_set():
                try:
                    self.poll()
                # A rotated log may be renamed or compressed just before it is opened.
                except (Unavailable, ImportRunning, FileNotFoundError) as error:
                    log.warning("following %s is waiting: %s", self._path, error)
                    for one in self._open_logs():
                        one.seen = None
                stop.wait(poll_seconds)
            self.poll()
        finally:
            for one in self._open_logs():
                one.file.close()

    def _open_logs(self) -> list[_OpenLog]:
        return [self._current, *self._replaced] if self._current else self._replaced

    def poll(self) -> None:
        """Import the lines that are new since the last call."""
        if self._current and self._is_replaced(self._current.file):
            self._replaced.append(self._current)
            self._current = None
        for old in list(self._replaced):
            if old.has_changed():
                self._notify(self._read(old.file))
            elif time.monotonic() - old.since > SILENT_SECONDS:
                old.file.close()
                self._replaced.remove(old)
        if self._current is None and self._path.exists():
            self._catch_up()
            self._current = self._opened()
        if self._current and self._current.has_changed():
            self._import(self._current.file)

    def _opened(self) -> _OpenLog | None:
        try:
            return _OpenLog(self._path.open("rb"))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Invalid(f"{self._path}: {error.strerror}", field="path") from error

    def _is_replaced(self, file: BinaryIO) -> bool:
        try:
            now = os.stat(self._path)
        except FileNotFoundError:
            return False
        opened = os.fstat(file.fileno())
        return (now.st_dev, now.st_ino) != (opened.st_dev, opened.st_ino)

    def _import(self, file: BinaryIO) -> None:
        imported = self._read(file)
        source = imported.source["_id"] if imported.source else None
        if self._source and source != self._source:
            self._catch_up()
        self._source = source or self._source
        self._notify(imported)

    def _catch_up(self) -> None:
        """Import the rest of the newest known rotated log, and the logs rotated after it."""
        missed: list[Path] = []
        for path in self._rotated():
            missed.append(path)
            with path.open("rb") as file:
                known = self._is_known(file)
            if known:
                break
        else:  # all rotated logs are older than the first call of `follow`
            return
        for path in reversed(missed):
            with path.open("rb") as file:
                self._notify(self._read(file))

    def _rotated(self) -> Iterator[Path]:
        """Yield the readable rotated logs, the newest first: those with a number, then those with a date."""
        for number in count(1):
            names = (self._path.with_name(f"{self._path.name}.{number}{ending}") for ending in ENDINGS)
            found = next((path for path in names if _is_readable(path)), None)
            if found is None:
                break
            yield found
        yield from sorted(self._dated(), key=lambda path: path.name, reverse=True)

    def _dated(self) -> Iterator[Path]:
        """Yield the logs named by logrotate's `dateext`: the date is after the name, or before its extension."""
        stem, ending = self._path.stem, self._path.suffix
        pattern = re.compile(rf"({re.escape(self._path.name)}|{re.escape(stem)})-\d[\d_.-]*({re.escape(ending)})?")
        for path in self._path.parent.iterdir():
            name = next((path.name.removesuffix(end) for end in ENDINGS[1:] if path.name.endswith(end)), path.name)
            if pattern.fullmatch(name) and _is_readable(path):
                yield path

    def _notify(self, imported: Imported) -> None:
        if self._on_import and imported.counts.lines:
            self._on_import(imported)


@dataclass
class _OpenLog:
    """An open log. One that was replaced by a new file is kept, as the server may still write to it."""

    file: BinaryIO
    seen: tuple[int, int] | None = None
    since: float = 0.0

    def has_changed(self) -> bool:
        """Return True if the file was written to since the last call."""
        state = os.fstat(self.file.fileno())
        now = state.st_size, state.st_mtime_ns
        if now == self.seen:
            return False
        self.seen, self.since = now, time.monotonic()
        return True


def _is_readable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.R_OK)
