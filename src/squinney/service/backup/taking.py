"""Taking a backup: one snapshot of all collections that Squinney made, read while the site runs."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from pymongo.client_session import ClientSession
from pymongo.errors import OperationFailure

from squinney import __version__
from squinney.errors import Conflict, NotFound, Unavailable
from squinney.mongo.deadlines import operation
from squinney.mongo.declared import Collection
from squinney.mongo.ownership import RECORDS, read_ownership
from squinney.mongo.pinned import pinned
from squinney.mongo.problems import SNAPSHOT_TOO_OLD, SnapshotTooOld
from squinney.mongo.schema import Db
from squinney.service.backup.contents import BackedUpCollection, Backup, flush

PARTIAL = ".partial"
SNAPSHOT_UNAVAILABLE = 246  # a collection was dropped or changed since the moment
_COMPRESSION = 1  # the highest speed: the moment must not become older than the server's history
Report = Callable[[str, int, int], None]  # a collection's name, bytes done, bytes in all

TOO_LONG = (
    "the backup takes longer than the server keeps its history: give the server a larger "
    "minSnapshotHistoryWindowInSeconds, or use `mongodump --oplog` or a snapshot of the file system (docs/backup.md)"
)


@dataclass
class _Writing:
    """A backup that is being written to `folder`."""

    folder: Path
    session: ClientSession
    total: int
    report: Report
    done: int = 0
    parts: list[BackedUpCollection] = field(default_factory=list)

    def add(self, db: Db, suffix: str, info: Mapping[str, Any]) -> None:
        """Write the documents of a collection."""
        name, options = info["name"], info.get("options", {})
        capped = bool(options.get("capped"))
        indexes = [dict(index) for index in db[name].list_indexes()]
        file = f"{len(self.parts):04}.bson.gz"
        # guard: all collections are of the same moment
        session = None if capped else self.session
        batches: Any = db[name].find_raw_batches({}, batch_size=10_000, session=session)
        with (self.folder / file).open("wb") as stored:
            counted = self._written(name, batches, stored)
        self.parts.append(BackedUpCollection(suffix, name, file, options, indexes, *counted, of_the_moment=not capped))

    def _written(self, name: str, batches: Iterable[bytes], stored: BinaryIO) -> tuple[int, int, str]:
        """Write batches of documents; return the number of documents, the bytes, and the SHA-256 of the file."""
        hashing = _Hashing(stored)
        documents = size = 0
        with gzip.GzipFile(fileobj=hashing, mode="wb", compresslevel=_COMPRESSION, mtime=0, filename="") as packed:
            for batch in batches:
                packed.write(batch)
                documents += _count(batch)
                size += len(batch)
                self.done += len(batch)
                self.report(name, self.done, max(self.done, self.total))
        flush(stored)
        return documents, size, hashing.digest.hexdigest()


class _Hashing:
    """A file that computes the SHA-256 of what is written to it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()


def back_up(db: Db, folder: Path, *, declared: list[Collection], report: Report = lambda *_: None) -> Backup:
    """Write all collections that Squinney made to a new folder, as they were in one moment, while they are in use.

    Until it is whole, its name ends with `.partial`. A capped collection is read last, since no snapshot contains it.

    Raises: `NotFound` if there is nothing to back up; `Conflict` if the folder exists; `SnapshotTooOld` if the server
    does not keep its history long enough; `Unavailable`; `OSError` if the disk is full.
    """
    partial = _made(folder)
    try:
        backup = _read(pinned(db), partial, declared, report)
        backup.write(partial)
        _sync(partial)
        partial.rename(folder)
        _sync(folder.parent)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return backup


def _made(folder: Path) -> Path:
    # guard: a backup has its name only when it is whole
    partial = folder.with_name(folder.name + PARTIAL)
    # guard: a backup overwrites nothing
    if folder.exists():
        raise Conflict(f"{folder} exists: a backup needs a new folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        partial.mkdir(mode=0o700)  # the documents are nobody else's business
    except FileExistsError:
        raise Conflict(f"{partial} is of a backup that is running, or was killed: then remove it") from None
    return partial


@operation(None, reads_only=True)
def _read(db: Db, folder: Path, declared: list[Collection], report: Report) -> Backup:
    read_ownership(db, declared)  # refuses a database that is half restored
    if RECORDS not in db.list_collection_names():
        raise NotFound(f"the database {db.name} has nothing that Squinney made")
    try:
        with db.client.start_session(snapshot=True) as session:
            moment = db.command({"find": RECORDS, "filter": {}, "limit": 1}, session=session)["cursor"]["atClusterTime"]
            collections = sorted(
                _our_collections(db, session, declared),
                key=lambda collection: bool(collection[2].get("options", {}).get("capped")),
            )
            writing = _Writing(
                folder, session, sum(_size(database, info["name"]) for database, _, info in collections), report
            )
            for database, suffix, info in collections:
                writing.add(database, suffix, info)
    except OperationFailure as error:
        if error.code == SNAPSHOT_TOO_OLD:
            raise SnapshotTooOld(TOO_LONG) from error
        if error.code == SNAPSHOT_UNAVAILABLE:
            raise Unavailable("a collection or an index was made or dropped during the backup: try again") from error
        raise
    server = db.client.server_info()["version"]
    return Backup(db.name, __version__, server, moment.as_datetime(), writing.parts)


def _our_collections(
    db: Db, session: ClientSession, declared: list[Collection]
) -> Iterator[tuple[Db, str, Mapping[str, Any]]]:
    """Yield what we made: database, suffix of its name, and description, here and in the databases of parts."""
    patterns = [re.compile(re.escape(db.name) + collection.parts_in) for collection in declared if collection.parts_in]
    others = sorted(db.client.list_database_names()) if patterns else []
    parts = [name for name in others if any(pattern.fullmatch(name) for pattern in patterns)]
    for database in [db, *(pinned(db.client[name]) for name in parts)]:
        ours = {record["_id"] for record in database[RECORDS].find({}, {"_id": 1}, session=session)} | {RECORDS}
        for info in sorted(database.list_collections(), key=lambda info: str(info["name"])):
            if info["name"] in ours:
                yield database, database.name.removeprefix(db.name), info


def _size(db: Db, name: str) -> int:
    stats = db[name].aggregate([{"$collStats": {"storageStats": {}}}])
    return sum(int(shard["storageStats"].get("size", 0)) for shard in stats)


def _count(batch: bytes) -> int:
    """Return the number of documents: each begins with its length."""
    count = position = 0
    while position < len(batch):
        position += int.from_bytes(batch[position : position + 4], "little")
        count += 1
    return count


def _sync(folder: Path) -> None:
    if os.name != "posix":  # elsewhere a folder cannot be opened
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
