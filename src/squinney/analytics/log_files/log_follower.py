"""Following a log that grows and is rotated, by rename or by copy and truncate."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Generic, Protocol, TypeVar

from squinney.analytics.errors import ImportRunning
from squinney.analytics.log_files.rotated import FileState, RotatedLog, RotatedLogs, opened
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


class FindSource(Protocol):
    """Returns the record of an open log, if it, or its beginning, was imported before."""

    def __call__(self, file: BinaryIO, by_beginning: bool = False) -> Any: ...


# Returns True if a log of this name was followed before, other than the given source.
WasFollowed = Callable[[str | None], bool]


class LogFollower(Generic[R]):
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
        find_source: FindSource,
        was_followed: WasFollowed,
        on_import: Callable[[R], None] | None = None,
    ) -> None:
        self._path = path
        self._read = read
        self._find_source = find_source
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
                    for open_log in self._open_logs():
                        open_log.seen = None
                stop.wait(poll_seconds)
            self.poll()
        finally:
            for open_log in self._open_logs():
                open_log.file.close()

    def _open_logs(self) -> list[_OpenLog]:
        return [self._current, *self._replaced] if self._current else self._replaced

    def poll(self) -> None:
        """Import the lines that are new since the last call."""
        if self._current and self._is_replaced(self._current.file):
            self._replaced.append(self._current)
            self._current = None
        if self._current is None:
            # It is opened before the rotated logs are read: if it is rotated meanwhile, it is still read to its end.
            self._current = self._opened()
            self._is_behind = self._is_behind or self._current is not None
        if self._is_behind:
            self._catch_up()
            self._is_behind = False
        self._read_replaced()
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
        known = self._find_source(file)
        if not known or known.get("by_hand"):  # if it was truncated, the rest of its copy is read first
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
                if is_connected or self._must_read(missed):
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
            logs, reach_back = self._back_to_known(self._rotated.newest_first(is_dated=is_dated))
            missed += logs
            is_connected = is_connected or reach_back
        return missed, is_connected

    def _back_to_known(self, logs: Iterator[RotatedLog]) -> tuple[list[RotatedLog], bool]:
        """Return the logs back to the newest one that was followed, or else imported by hand; and if there is one."""
        missed: list[RotatedLog] = []
        by_hand = 0
        for rotated in logs:
            # guard: logs from before the first call are not imported
            if rotated.state in self._done:
                return missed, True
            missed.append(rotated)
            source = self._source_of(rotated)
            # guard: a log imported by hand does not hide the ones before it
            if source and not source.get("by_hand"):
                return missed + ([] if self._has_caught_up else self._older(logs)), True
            by_hand = by_hand or (len(missed) if source else 0)
        if by_hand and not self._was_followed(None):
            return missed[:by_hand], True
        return missed, False

    def _older(self, logs: Iterator[RotatedLog]) -> list[RotatedLog]:
        """Look at the start for lines in logs that are older than the newest known one; name the unknown ones.

        The next one may have been written to when the newest one had begun already.
        """
        known: list[RotatedLog] = []
        unknown: list[RotatedLog] = []
        for rotated in logs:
            (known if self._source_of(rotated, by_beginning=bool(known)) else unknown).append(rotated)
        # guard: a log between known ones is named
        if unknown:
            self._name_as_not_imported(unknown)
        # guard: late lines of the log before the newest known one are imported
        return known[:1]

    def _must_read(self, missed: list[RotatedLog]) -> bool:
        """Decide whether to read logs that do not reach back to a known one."""
        # guard: a log that was rotated before its first line was read is imported
        if self._has_caught_up:
            # guard: logs that were deleted before they were seen are named
            if missed:
                self._warn_of_loss(missed)
            return True
        source = self._find_source(self._current.file) if self._current else None
        # guard: if the known log is gone, all logs are imported
        if (missed or not source) and self._was_followed(source and source["_id"]):
            self._warn_of_loss(missed)
            return True
        self._name_as_not_imported(missed)
        return False

    def _warn_of_loss(self, missed: list[RotatedLog]) -> None:
        log.warning(
            "following %s: no log imported as %s before is here any more, so lines at its end may be lost;"
            " importing all that is here: %s",
            self._path,
            self._path.name,
            _names(missed) or self._path.name,
        )

    def _name_as_not_imported(self, rotated: list[RotatedLog]) -> None:
        if rotated:
            log.warning("following %s from now on: older logs are not imported: %s", self._path, _names(rotated))

    def _source_of(self, rotated: RotatedLog, *, by_beginning: bool = False) -> Any:
        try:
            with rotated.open() as file:
                return self._find_source(file, by_beginning)
        except Invalid:  # reading it gives the warning
            return None

    def _read_rotated(self, rotated: RotatedLog) -> None:
        try:
            with rotated.open() as file:
                self._notify(self._read(file))
        except Invalid as error:
            log.warning("following %s: %s is not imported: %s", self._path, rotated.path.name, error.message)

    def _notify(self, imported: R) -> None:
        if self._on_import and imported.lines:
            self._on_import(imported)


def _names(logs: list[RotatedLog]) -> str:
    return ", ".join(rotated.path.name for rotated in logs)


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
