"""The rotated logs of a path: `<path>.1`, `<path>.2.gz` and so on, and those named with a date."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from squinney.errors import Invalid

ENDINGS = ("", ".gz", ".bz2", ".xz", ".zst")

FileState = tuple[int, int, int, int]
Age = tuple[str, int]  # the name with its date, or a number; the newest log has the greatest


@dataclass(frozen=True)
class RotatedLog:
    """A rotated log as it was when it was found: its name may belong to another log a moment later."""

    path: Path
    state: FileState

    def open(self) -> BinaryIO:
        """Open the log.

        Raises: `FileNotFoundError` if it has another name now, and `Invalid` if it cannot be read.
        """
        try:
            file = opened(self.path)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise Invalid(f"{self.path}: {error.strerror}", field="path") from error
        # guard: a rotated log is read only if it is the one that was found
        if state_of(os.fstat(file.fileno()))[:2] != self.state[:2]:
            file.close()
            raise FileNotFoundError(f"{self.path} was renamed")
        return file


class RotatedLogs:
    """Finds the rotated logs of a path."""

    def __init__(self, path: Path) -> None:
        self._folder = path.parent
        name, stem, suffix = map(re.escape, (path.name, path.stem, path.suffix))
        ending = "|".join(map(re.escape, ENDINGS))
        self._numbered = re.compile(rf"{name}\.(\d{{1,9}})(?:{ending})")
        self._dated = re.compile(rf"((?:{name}|{stem})-\d[\d_.-]*?(?:{suffix})?)(?:{ending})")

    def newest_first(self, *, is_dated: bool) -> Iterator[RotatedLog]:
        """Yield the logs with a number, or those named by logrotate's `dateext`.

        The folder is listed anew for each log: a rotation meanwhile gives logs only greater numbers, so none is missed.
        """
        last: Age | None = None
        while True:
            older = [(age, path) for age, path in self._listed(is_dated) if last is None or age < last]
            if not older:
                return
            # While a log is being compressed it is there twice, and whole only under the shorter name.
            last, path = max(older, key=lambda log: (log[0], -len(log[1].name)))
            yield RotatedLog(path, state_of(path.stat()))

    def _listed(self, is_dated: bool) -> Iterator[tuple[Age, Path]]:
        pattern = self._dated if is_dated else self._numbered
        for path in self._folder.iterdir() if self._folder.is_dir() else ():
            match = pattern.fullmatch(path.name)
            if match and path.is_file():
                yield (match[1], 0) if is_dated else ("", -int(match[1])), path


def opened(path: Path) -> BinaryIO:
    """Open without a buffer, which could contain what was in the file before it was truncated."""
    return cast(BinaryIO, path.open("rb", buffering=0))


def state_of(stat: os.stat_result) -> FileState:
    """Return what differs between two files, and for one file before and after it was written to."""
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns
