"""Keeping up with a log that grows and is rotated, by rename or by copy and truncate."""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import BinaryIO

from squinney.analytics.errors import ImportRunning
from squinney.analytics.events.imports import Imported
from squinney.errors import Invalid, Unavailable

log = logging.getLogger(__name__)

# Apache's children of before a graceful restart write into the old log until their requests are over.
SILENT_SECONDS = 300.0
ENDINGS = ("", ".gz", ".bz2", ".xz", ".zst")

# Reads new lines of an open log from its checkpoint on.
Read = Callable[[BinaryIO], Imported]
# Whether an open log, or a beginning of it, was imported before.
Knows = Callable[[BinaryIO], bool]


class Follower:
    """Follows one path. A source is known by its content, so all that a rotation takes is to read everything once more.

    When the path leads to another file, the old one, which is still open, is read on until it has been silent for a
    while: a server that restarts gracefully writes into both. When the file was copied and cut, its unread end is in
    the copy, which is called `<path>.1` or, with a date, `<path>-20260517`. Several rotations may have happened since
    the last look, while nobody followed or MongoDB was away: then there are several, up to the one that is known.
    """

    def __init__(
        self, path: Path, read: Read, knows: Knows, on_import: Callable[[Imported], None] | None = None
    ) -> None:
        self._path = path
        self._read = read
        self._knows = knows
        self._on_import = on_import
        self._file: BinaryIO | None = None
        self._seen: tuple[int, int] | None = None
        self._replaced: list[_Replaced] = []
        self._source: str | None = None

    def run(self, stop: threading.Event, poll_seconds: float) -> None:
        """Look every so often, until `stop` is set; while MongoDB is away it waits, and misses nothing."""
        try:
            while not stop.is_set():
                try:
                    self.look()
                except (Unavailable, ImportRunning) as error:
                    log.warning("following %s waits: %s", self._path, error.message)
                    self._seen = None
                stop.wait(poll_seconds)
            self.look()
        finally:
            for file in (self._file, *(old.file for old in self._replaced)):
                if file:
                    file.close()

    def look(self) -> None:
        """Read what is new."""
        if self._file and self._is_replaced(self._file):
            self._replaced.append(_Replaced(self._file))
            self._file, self._seen = None, None
        self._read_on_in_replaced()
        if self._file is None and self._path.exists():
            self._catch_up()
            self._file = self._opened()
        if self._file and self._has_changed(self._file):
            self._import(self._file)

    def _read_on_in_replaced(self) -> None:
        for old in list(self._replaced):
            state = os.fstat(old.file.fileno())
            if (state.st_size, state.st_mtime_ns) != old.seen:
                old.file.seek(0)
                self._tell(self._read(old.file))
                old.seen, old.since = (state.st_size, state.st_mtime_ns), time.monotonic()
            elif time.monotonic() - old.since > SILENT_SECONDS:
                old.file.close()
                self._replaced.remove(old)

    def _opened(self) -> BinaryIO | None:
        try:
            return self._path.open("rb")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Invalid(f"{self._path}: {error.strerror}", field="path") from error

    def _is_replaced(self, file: BinaryIO) -> bool:
        try:
            now = os.stat(self._path)
        except FileNotFoundError:
            return False
        mine = os.fstat(file.fileno())
        return (now.st_dev, now.st_ino) != (mine.st_dev, mine.st_ino)

    def _has_changed(self, file: BinaryIO) -> bool:
        state = os.fstat(file.fileno())
        now = (state.st_size, state.st_mtime_ns)
        changed, self._seen = now != self._seen, now
        return changed

    def _import(self, file: BinaryIO) -> None:
        file.seek(0)
        imported = self._read(file)
        source = imported.source["_id"] if imported.source else None
        if self._source and source != self._source:
            self._catch_up()
        self._source = source or self._source
        self._tell(imported)

    def _catch_up(self) -> None:
        """Read the rest of the last log that is known, and those that were written and rotated away since."""
        missed: list[Path] = []
        for path in self._rotated():
            missed.append(path)
            with path.open("rb") as file:
                known = self._knows(file)
            if known:
                break
        else:  # logs from before anybody followed
            return
        for path in reversed(missed):
            with path.open("rb") as file:
                self._tell(self._read(file))

    def _rotated(self) -> Iterator[Path]:
        """The logs that were rotated away and can be read, the latest first: by number, then by date."""
        for number in count(1):
            names = (self._path.with_name(f"{self._path.name}.{number}{ending}") for ending in ENDINGS)
            found = next((path for path in names if _is_readable(path)), None)
            if found is None:
                break
            yield found
        yield from sorted(self._dated(), key=lambda path: path.name, reverse=True)

    def _dated(self) -> Iterator[Path]:
        """Those of logrotate's `dateext`: the date comes behind the name, or before its ending."""
        stem, ending = self._path.stem, self._path.suffix
        pattern = re.compile(rf"({re.escape(self._path.name)}|{re.escape(stem)})-\d[\d_.-]*({re.escape(ending)})?")
        for path in self._path.parent.iterdir():
            name = next((path.name.removesuffix(end) for end in ENDINGS[1:] if path.name.endswith(end)), path.name)
            if pattern.fullmatch(name) and _is_readable(path):
                yield path

    def _tell(self, imported: Imported) -> None:
        if self._on_import and imported.counts.lines:
            self._on_import(imported)


@dataclass
class _Replaced:
    """A log that another has taken the place of, and that may still be written to."""

    file: BinaryIO
    seen: tuple[int, int] | None = None
    since: float = field(default_factory=time.monotonic)


def _is_readable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.R_OK)
