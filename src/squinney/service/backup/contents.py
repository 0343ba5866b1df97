"""What a backup's folder contains: a file of documents for each collection, and `backup.json`, which describes all."""

from __future__ import annotations

import gzip
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from bson import decode_file_iter, json_util
from bson.codec_options import CodecOptions
from bson.errors import InvalidBSON
from bson.raw_bson import RawBSONDocument

from squinney.errors import Invalid, NotFound

CONTENTS = "backup.json"
FORMAT = 1
_EXACT = json_util.CANONICAL_JSON_OPTIONS.with_options(tz_aware=True)  # else numbers of options would change their type
RAW: CodecOptions[Any] = CodecOptions(document_class=RawBSONDocument)
_CHUNK = 1 << 20


@dataclass(frozen=True)
class BackedUpCollection:
    """One collection of a backup, and the SHA-256 of its file: gzip of the documents in BSON, one after another.

    Some collections are in a database of their own; `suffix` is what follows the main database's name in its name.
    `of_the_moment` is false for a capped collection, which was read a little later than the others.
    """

    suffix: str
    name: str
    file: str
    options: Mapping[str, Any]
    indexes: Sequence[Mapping[str, Any]]
    documents: int
    bytes: int
    sha256: str
    of_the_moment: bool = True

    @property
    def can_be_emptied(self) -> bool:
        """Return whether documents can be deleted from it; otherwise only the whole collection can."""
        return "capped" not in self.options


@dataclass(frozen=True)
class Backup:
    """A backup: the moment of which it is, and its parts."""

    database: str
    version: str
    server: str
    moment: datetime
    parts: Sequence[BackedUpCollection]

    @property
    def documents(self) -> int:
        """Return the number of documents."""
        return sum(part.documents for part in self.parts)

    @property
    def bytes(self) -> int:
        """Return the size of the documents before compression."""
        return sum(part.bytes for part in self.parts)

    def write(self, folder: Path) -> None:
        """Write the description, and have the disk keep it."""
        text = json_util.dumps({"format": FORMAT, **asdict(self)}, json_options=_EXACT, indent=1)
        with (folder / CONTENTS).open("w") as file:
            file.write(text)
            flush(file)


def read_backup(folder: Path) -> Backup:
    """Read the description of a backup.

    Raises: `NotFound`; `Invalid` if it is not one that this version can read.
    """
    path = folder / CONTENTS
    if not path.is_file():
        raise NotFound(f"{folder} is not a backup: it has no {CONTENTS}")
    try:
        stored = json_util.loads(path.read_text(), json_options=_EXACT)
        if stored.pop("format") != FORMAT:
            raise Invalid(f"{folder} was written by a newer version of Squinney", field="folder")
        return Backup(**{**stored, "parts": [BackedUpCollection(**part) for part in stored["parts"]]})
    except (ValueError, TypeError, KeyError) as error:
        raise Invalid(f"{path} is damaged ({type(error).__name__})", field="folder") from error


def require_whole(folder: Path, backup: Backup) -> None:
    """Refuse a backup of which a file is missing or was changed.

    Raises: `Invalid` with the names of the files.
    """
    # guard: a damaged backup is refused before anything is restored
    damaged = [part.file for part in backup.parts if _sha256(folder / part.file) != part.sha256]
    if damaged:
        raise Invalid(f"{folder} is damaged: {', '.join(damaged)}", field="folder")


def documents_of(folder: Path, part: BackedUpCollection) -> Iterator[RawBSONDocument]:
    """Yield the documents of a collection, not decoded.

    Raises: `Invalid` if the file is damaged.
    """
    try:
        with gzip.open(folder / part.file) as file:
            yield from decode_file_iter(cast(BinaryIO, file), codec_options=RAW)
    except (InvalidBSON, EOFError, gzip.BadGzipFile) as error:
        raise Invalid(f"{folder} is damaged: {part.file}", field="folder") from error


def flush(file: IO[Any]) -> None:
    """Have the disk keep what was written."""
    file.flush()
    os.fsync(file.fileno())


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
