"""Keeping up with a log that grows and is rotated, by rename or by copy and truncate."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from squinney.analytics.imports import Imported
from squinney.errors import Unavailable

log = logging.getLogger(__name__)

# Reads new lines of an open log from its checkpoint on; the flag says that it will not grow any more.
Read = Callable[[BinaryIO, bool], Imported]


class Follower:
    """Follows one path. A source is known by its content, so all that a rotation takes is to read everything once more.

    When the path leads to another file, the old one, which is still open, is read to its end first. When the file was
    copied and cut, its unread end is in the copy, which by custom is called `<path>.1`.
    """

    def __init__(self, path: Path, read: Read, on_import: Callable[[Imported], None] | None = None) -> None:
        self._path = path
        self._read = read
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
        if self._file is None:
            self._file = self._opened()
        if self._file and self._has_changed(self._file):
            self._import(self._file, finished=False)

    def _opened(self) -> BinaryIO | None:
        try:
            return self._path.open("rb")
        except FileNotFoundError:
            return None

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
            self._import_copy()
        self._source = source or self._source
        self._tell(imported)

    def _import_copy(self) -> None:
        """The file holds another log now; the rest of the last one may be in its copy."""
        copy = self._path.with_name(self._path.name + ".1")
        if copy.is_file():
            with copy.open("rb") as file:
                self._tell(self._read(file, True))

    def _tell(self, imported: Imported) -> None:
        if self._on_import and imported.counts.lines:
            self._on_import(imported)
