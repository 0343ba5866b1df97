"""Keeping up with a log that grows and is rotated, by rename or by copy and truncate."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import BinaryIO

from squinney.analytics.events.imports import Imported
from squinney.errors import Invalid, Unavailable

log = logging.getLogger(__name__)

ENDINGS = ("", ".gz", ".bz2", ".xz", ".zst")

# Reads new lines of an open log from its checkpoint on; the flag says that it will not grow any more.
Read = Callable[[BinaryIO, bool], Imported]
# Whether an open log, or a beginning of it, was imported before.
Knows = Callable[[BinaryIO], bool]


class Follower:
    """Follows one path. A source is known by its content, so all that a rotation takes is to read everything once more.

    When the path leads to another file, the old one, which is still open, is read to its end first. When the file was
    copied and cut, its unread end is in the copy, which by custom is called `<path>.1`. Several rotations may have
    happened since the last look, while nobody followed or MongoDB was away: those logs are `<path>.1`, `<path>.2` and
    so on, up to the one that is known.
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
        self._source: str | None = None

    def run(self, stop: threading.Event, poll_seconds: float) -> None:
        """Look every so often, until `stop` is set; while MongoDB is away it waits, and misses nothing."""
        try:
            while not stop.is_set():
                try:
                    self.look()
                except Unavailable as error:
                    log.warning("following %s waits: %s", self._path, error.message)
                    self._seen = None
                stop.wait(poll_seconds)
            self.look()
        finally:
            if self._file:
                self._file.close()

    def look(self) -> None:
        """Read what is new."""
        if self._file and self._is_replaced(self._file):
            self._import(self._file, finished=True)
            self._file.close()
            self._file, self._seen = None, None
        if self._file is None and self._path.exists():
            self._catch_up()
            self._file = self._opened()
        if self._file and self._has_changed(self._file):
            self._import(self._file, finished=False)

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

    def _import(self, file: BinaryIO, *, finished: bool) -> None:
        file.seek(0)
        imported = self._read(file, finished)
        source = imported.source["_id"] if imported.source else None
        if self._source and source != self._source and not finished:
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
                self._tell(self._read(file, True))

    def _rotated(self) -> Iterator[Path]:
        """The logs that were rotated away and can be read, the latest first."""
        for number in count(1):
            names = (self._path.with_name(f"{self._path.name}.{number}{ending}") for ending in ENDINGS)
            found = next((path for path in names if path.is_file() and os.access(path, os.R_OK)), None)
            if found is None:
                return
            yield found

    def _tell(self, imported: Imported) -> None:
        if self._on_import and imported.counts.lines:
            self._on_import(imported)
