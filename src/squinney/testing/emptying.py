"""Collections emptied in few round trips: most hold nothing, and one question finds those that do."""

from __future__ import annotations

from collections.abc import Iterable

from pymongo.read_concern import ReadConcern

from squinney.mongo.schema import Db, Document

# Also what no majority has yet: it would be there for the next test.
LOCAL = ReadConcern("local")
NEVER_FILLED = "no such collection"  # asked too, so that there is one to ask where a database has none


def filled(db: Db, names: Iterable[str]) -> list[str]:
    """Which of the collections hold a document."""
    first, *others = [*names, NEVER_FILLED]
    united = [{"$unionWith": {"coll": name, "pipeline": _its_name(name)}} for name in others]
    found = db.get_collection(first, read_concern=LOCAL).aggregate([*_its_name(first), *united])
    return [one["_id"] for one in found]


def empty(db: Db, names: Iterable[str]) -> None:
    """Remove every document of the collections."""
    for name in filled(db, names):
        db[name].delete_many({})


def _its_name(name: str) -> list[Document]:
    return [{"$limit": 1}, {"$project": {"_id": {"$literal": name}}}]
