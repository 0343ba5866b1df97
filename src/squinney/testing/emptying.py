"""Empty collections in few round trips: one query finds the collections that hold documents, usually few."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pymongo.read_concern import ReadConcern

from squinney.mongo.schema import Db, Document

# Finds documents that no majority has yet, too: the next test would see them.
LOCAL = ReadConcern("local")
MANY = 10_000  # documents in one reply
NEVER_FILLED = "no such collection"  # queried last, so that the query works for a database without collections


def collection_names(db: Db) -> list[str]:
    """List the collections of a database, without views and the server's own."""
    return db.list_collection_names(filter={"name": {"$not": {"$regex": r"^system\."}}, "type": {"$ne": "view"}})


def non_empty(db: Db, names: Iterable[str]) -> list[str]:
    """Return the names of those collections that hold a document."""
    return [one["_id"] for one in read_each(db, names, _name_if_filled)]


def read_each(db: Db, names: Iterable[str], stages: Callable[[str], list[Document]]) -> Iterable[Document]:
    """Read several collections in one command, each by the stages that `stages(name)` returns."""
    first, *others = [*names, NEVER_FILLED]
    unions = [{"$unionWith": {"coll": name, "pipeline": stages(name)}} for name in others]
    return db.get_collection(first, read_concern=LOCAL).aggregate([*stages(first), *unions], batchSize=MANY)


def empty(db: Db, names: Iterable[str]) -> None:
    """Delete every document of the collections."""
    for name in non_empty(db, names):
        db[name].delete_many({})


def _name_if_filled(name: str) -> list[Document]:
    return [{"$limit": 1}, {"$project": {"_id": {"$literal": name}}}]
