"""Restoring a backup into a database that has nothing in its collections."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from bson.raw_bson import RawBSONDocument

from squinney.errors import Conflict
from squinney.mongo.deadlines import operation
from squinney.mongo.ownership import RECORDS, RESTORING
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db
from squinney.service.backup.contents import RAW, BackedUpCollection, Backup, documents_of, read_backup, require_whole
from squinney.service.backup.taking import Report

_BATCH = 1_000
_MADE_BY_THE_SERVER = {"_id_"}


@operation(None)
def restore(db: Db, folder: Path, *, report: Report = lambda *_: None) -> Backup:
    """Make the collections and indexes of a backup, then insert its documents.

    Collections that exist must be empty, so that they may be sharded before. No other process may use the database:
    until the end, every command and `squinney.prepare` refuse it.

    Atomic: each document by itself.
    After a crash: run it again; it removes what it had restored, and starts over.
    Raises: `NotFound` and `Invalid` if the folder has no whole backup, and `Conflict` if a collection has documents:
    before anything is changed; `Unavailable`.
    """
    db = pinned(db)
    backup = read_backup(folder)
    require_whole(folder, backup)
    _remove_unfinished(db)
    targets = [(pinned(db.client[db.name + part.suffix]), part) for part in backup.parts]
    _require_empty(targets)
    _begin(db, targets)
    for target, part in targets:
        if part.name != RECORDS:
            _make(target, part)
    done = 0
    for target, part in targets:
        remaining = documents_of(folder, part)
        while documents := list(islice(remaining, _BATCH)):
            _insert(target, part, documents)
            done += sum(len(document.raw) for document in documents)
            report(part.name, done, backup.bytes)
    db[RECORDS].delete_one({"_id": RESTORING})
    return backup


def _require_empty(targets: list[tuple[Db, BackedUpCollection]]) -> None:
    # guard: a restore overwrites nothing
    filled = [part.name for db, part in targets if part.name != RECORDS and db[part.name].find_one({}, {"_id": 1})]
    if filled:
        names = ", ".join(filled[:3]) + (f" and {len(filled) - 3} more" if len(filled) > 3 else "")
        raise Conflict(f"a backup is restored into an empty database: {targets[0][0].name} has documents in {names}")


def _begin(db: Db, targets: list[tuple[Db, BackedUpCollection]]) -> None:
    """Record which collections are about to be made or filled, before the first."""
    existing = {target.name: {*target.list_collection_names()} for target, _ in targets}
    collections = [
        {"db": target.name, "name": part.name, "made": part.name not in existing[target.name]}
        for target, part in targets
        if part.name != RECORDS
    ]
    db[RECORDS].insert_one({"_id": RESTORING, "collections": collections})


def _remove_unfinished(db: Db) -> None:
    """Remove what a restore that was ended has left; it began with empty collections."""
    marker = db[RECORDS].find_one({"_id": RESTORING})
    for recorded in marker["collections"] if marker else ():
        collection = pinned(db.client[recorded["db"]])[recorded["name"]]
        if recorded["made"]:
            collection.drop()
        else:
            collection.delete_many({})
    db[RECORDS].delete_one({"_id": RESTORING})


def _make(db: Db, part: BackedUpCollection) -> None:
    if not db.list_collection_names(filter={"name": part.name}):
        db.create_collection(part.name, check_exists=False, **part.options)
    if indexes := list(_indexes(part)):
        db.command("createIndexes", part.name, indexes=indexes)


def _indexes(part: BackedUpCollection) -> Iterator[dict[str, Any]]:
    for index in part.indexes:
        if index["name"] not in _MADE_BY_THE_SERVER and not index.get("clustered"):
            yield {name: value for name, value in index.items() if name not in ("v", "ns")}


def _insert(db: Db, part: BackedUpCollection, documents: Sequence[RawBSONDocument]) -> None:
    collection = db[part.name].with_options(codec_options=RAW)
    if part.name == RECORDS:  # an existing collection has a record already
        for document in documents:
            collection.replace_one({"_id": document["_id"]}, document, upsert=True)
    else:
        # The documents were accepted once, perhaps under an older validator.
        collection.insert_many(documents, ordered=bool(part.options.get("capped")), bypass_document_validation=True)
