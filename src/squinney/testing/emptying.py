"""Give a test an empty database, with few round trips: one query finds the collections that hold documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pymongo.read_concern import ReadConcern

from squinney.mongo import schema
from squinney.mongo.ownership import RECORDS
from squinney.mongo.schema import Collection, Db, Document

# Finds documents that no majority has yet, too: the next test would see them.
LOCAL = ReadConcern("local")
MANY = 10_000  # documents in one reply
NEVER_FILLED = "no such collection"  # queried last, so that the query works for a database without collections


def collection_names(db: Db) -> list[str]:
    """List the collections of a database, without views, the server's own and the records of what was made."""
    name = {"$not": {"$regex": r"^system\."}, "$ne": RECORDS}
    return db.list_collection_names(filter={"name": name, "type": {"$ne": "view"}})


def non_empty(db: Db, names: Iterable[str]) -> list[str]:
    """Return the names of those collections that hold a document."""
    return [filled["_id"] for filled in read_each(db, names, _name_if_filled)]


def read_each(db: Db, names: Iterable[str], stages: Callable[[str], list[Document]]) -> Iterable[Document]:
    """Read several collections in one command, each by the stages that `stages(name)` returns."""
    first, *others = [*names, NEVER_FILLED]
    unions = [{"$unionWith": {"coll": name, "pipeline": stages(name)}} for name in others]
    return db.get_collection(first, read_concern=LOCAL).aggregate([*stages(first), *unions], batchSize=MANY)


def empty(db: Db, names: Iterable[str]) -> None:
    """Delete every document of the collections, except the records of the collections that were made."""
    for name in non_empty(db, set(names) - {RECORDS}):
        db[name].delete_many({})


class EmptyDatabase:
    """A database as it was made: without documents, with its declared collections and no others.

    Otherwise the verdict on one test would depend on the indexes and collections that an earlier one left.
    """

    def __init__(self, db: Db, collections: Sequence[Collection]) -> None:
        self.db = db
        self._collections = collections
        self._made = _structure_of(db)

    def restore(self) -> None:
        """Delete all documents, and undo what changed the collections and their indexes."""
        now = _structure_of(self.db)
        # guard: collections of one test do not stay for the next
        surplus = now.keys() - self._made.keys()
        # guard: indexes of one test do not stay for the next
        changed = [name for name, made in self._made.items() if now.get(name) != made]
        for name in [*surplus, *changed]:
            self.db.drop_collection(name)
        if changed:
            schema.apply(self.db, self._collections)
        empty(self.db, collection_names(self.db))


def _structure_of(db: Db) -> dict[str, Any]:
    """Return what every collection has besides its documents: its type, options and indexes."""
    listed = db.list_collections(filter={"name": {"$not": {"$regex": r"^system\."}}})
    return {made["name"]: (made["type"], made["options"], _indexes_of(db, made)) for made in listed}


def _indexes_of(db: Db, made: Any) -> list[Document]:
    return [] if made["type"] == "view" else list(map(dict, db[made["name"]].list_indexes()))


def _name_if_filled(name: str) -> list[Document]:
    return [{"$limit": 1}, {"$project": {"_id": {"$literal": name}}}]
