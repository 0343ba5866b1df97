"""Following a log that grows and is rotated, by rename or by copy and truncate."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Generic, Protocol, TypeVar

from squinney.analytics.errors import ImportRunning
from squinney.analytics.files.rotated import FileState, RotatedLog, RotatedLogs, opened
from squinney.errors import Invalid, Unavailable

log = logging.getLogger(__name__)

# After a graceful restart, Apache's old processes write into the old log until their requests are finished.
SILENT_SECONDS = 300.0


class Read(Protocol):
    """What an import of an open log returns: the record of its source, if it has one, and the number of new lines."""

    @property
    def source(self) -> Any: ...
    @property
    def lines(self) -> int: ...


R = TypeVar("R", bound=Read)
# Returns True if an open log, or its beginning, was imported before.
IsKnown = Callable[[BinaryIO], bool]


class Follower(Generic[R]):
    """Follows one path. Sources are identified by content, so after a rotation it is safe to read every file again.

    When the path points to a new file, the old file is still open and is read until it has not changed for a while: a
    server that restarts gracefully writes into both. When the file was copied and truncated, its unread end is in the
    copy, which is named `<path>.1` or, with a date, `<path>-20260517`. After a pause of the follower or of MongoDB
    there may be several rotated logs; they are read back to the newest one that is already known, and all of them if
    none is known any more. Whatever cannot be read is named in a warning.
    """

    def __init__(
        # `read` imports the new lines of an open log, from its checkpoint on, wherever the file's position is.
        self,
        path: Path,
        read: Callable[[BinaryIO], R],
        is_known: IsKnown,
        was_followed: Callable[[], bool],
        on_import: Callable[[R], None] | None = None,
    ) -> None:
        self._path = path
        self._read = read
        self._is_known = is_known
        self._was_followed = was_followed
        self._on_import = on_import
        self._rotated = RotatedLogs(path)
        self._current: _OpenLog | None = None
        self._replaced: list[_OpenLog] = []
        self._source: str | None = None
        self._is_behind = True
        self._has_caught_up = False
        self._done: set[FileState] = set()  # the rotated logs that were read, or are older than the first call

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
        self._read_replaced()
        if self._current is None:
            # It is opened before the rotated logs are read: if it is rotated meanwhile, it is still read to its end.
            self._current = self._opened()
            self._is_behind = self._is_behind or self._current is not None
        if self._is_behind:
            self._catch_up()
            self._is_behind = False
        if self._current and self._current.has_changed():
            self._import(self._current.file)

    def _read_replaced(self) -> None:
        for old in list(self._replaced):
            if old.has_changed():
                self._notify(self._read(old.file))
            elif time.monotonic() - old.since > SILENT_SECONDS:
                old.file.close()
                self._replaced.remove(old)

    def _opened(self) -> _OpenLog | None:
        try:
            return _OpenLog(opened(self._path))
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
        if not self._is_known(file):  # if it was truncated, the rest of its copy is read first
            self._catch_up()
        imported = self._read(file)
        source = imported.source["_id"] if imported.source else None
        if source and source != self._source:  # it may have been truncated just before it was read
            self._catch_up()
        self._source = source or self._source
        self._notify(imported)

    def _catch_up(self) -> None:
        """Import the rotated logs from the newest known one on, the oldest first."""
        while True:
            with suppress(FileNotFoundError):  # one was renamed or compressed just before it was opened
                missed, is_connected = self._missed()
                # guard: a log that was rotated before its first line was read is imported
                if is_connected or self._has_caught_up or self._must_read(missed):
                    for rotated in reversed(missed):
                        self._read_rotated(rotated)
                self._done.update(rotated.state for rotated in missed)
                self._has_caught_up = True
                return

    def _missed(self) -> tuple[list[RotatedLog], bool]:
        """Return the rotated logs to read, the newest first, and whether they reach back to one that was read."""
        missed: list[RotatedLog] = []
        is_connected = False
        for is_dated in (False, True):
            for rotated in self._rotated.newest_first(is_dated=is_dated):
                # guard: logs from before the first call are not imported
                if rotated.state in self._done:
                    is_connected = True
                    break
                missed.append(rotated)
                if self._is_known_rotated(rotated):
                    is_connected = True
                    break
        return missed, is_connected

    def _must_read(self, missed: list[RotatedLog]) -> bool:
        """Decide at the start, when no rotated log is known, whether they were written after the last call."""
        if self._current and self._is_known(self._current.file):
            return False
        names = ", ".join(rotated.path.name for rotated in missed)
        # guard: if the known log is gone, all logs are imported
        if self._was_followed():
            log.warning(
                "following %s: no log imported as %s before is here any more, so lines at its end may be lost;"
                " importing all that is here: %s",
                self._path,
                self._path.name,
                names or self._path.name,
            )
            return True
        if names:
            log.warning("following %s from now on: older logs are not imported: %s", self._path, names)
        return False

    def _is_known_rotated(self, rotated: RotatedLog) -> bool:
        try:
            with rotated.open() as file:
                return self._is_known(file)
        except Invalid:  # reading it gives the warning
            return False

    def _read_rotated(self, rotated: RotatedLog) -> None:
        try:
            with rotated.open() as file:
                self._notify(self._read(file))
        except Invalid as error:
            log.warning("following %s: %s is not imported: %s", self._path, rotated.path.name, error.message)

    def _notify(self, imported: R) -> None:
        if self._on_import and imported.lines:
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
