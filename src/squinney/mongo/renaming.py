"""Renames the collections of a database that an older version made under other names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from pymongo.collection import Collection as Stored

from squinney.errors import Conflict
from squinney.mongo.declared import Collection, Db
from squinney.mongo.drift import check
from squinney.mongo.ownership import copy_record, drop_record, former, is_prepared
from squinney.mongo.pinned import pinned


def rename_former(db: Db, collections: Iterable[Collection]) -> dict[str, str]:
    """Give collections that an older version made their present names; return these by the former ones.

    No process of the older version may run: it would create its collections again. Call `schema.apply` afterwards.

    Atomic: each collection by itself.
    After a crash: run it again.
    Raises: `Conflict` if a collection of the present name exists too, unless it is ours and empty; those before it are
    renamed.
    """
    declared = {collection.formerly: collection for collection in collections if collection.formerly}
    if (owned := former(db, declared.values())) is None:
        return {}
    owned.record_intent()  # else a crash could leave too little to recognise the rest
    renamed = {}
    for old in owned.declared:
        # guard, 2 lines: a document that names a renamed collection names it by its new name, after a crash too
        if field := declared[old.name].names_in:
            _rename_within(db[old.name], field, declared.values())
        for part in [*_parts(db, old), db[old.name]]:  # the collection that tells that these are ours goes last
            new = declared[old.name].name + part.name.removeprefix(old.name)
            _make_way(part, new)
            # First: an unrecorded collection would be somebody else's.
            copy_record(db, old.name, part.database, new)
            _drop_outdated(part, declared[old.name].outdated)
            part.rename(new)
            drop_record(part.database, part.name)
            renamed[part.name if part.database.name == db.name else part.full_name] = new
    return renamed


def _rename_within(holder: Stored[Any], field: str, renamed: Iterable[Collection]) -> None:
    for collection in renamed:
        holder.update_many({field: collection.formerly}, {"$set": {field: collection.name}})


def _parts(db: Db, collection: Collection) -> Iterator[Stored[Any]]:
    """Yield the collections of a rotated one, such as `events.d20260517` of `events`: they have the same indexes."""
    if not collection.indexes:
        return
    inside = {"name": {"$gt": f"{collection.name}.", "$lt": f"{collection.name}/"}}
    alike = [db[name] for name in db.list_collection_names(filter=inside)]
    if collection.parts_in:
        pattern = re.compile(re.escape(db.name) + collection.parts_in)
        others = [db.client[name] for name in db.client.list_database_names() if pattern.fullmatch(name)]
        alike += [pinned(other)[collection.name] for other in others]
    for part in alike:
        declared = Collection(part.name, indexes=collection.indexes)
        if not any(drift.kind != "extra-index" for drift in check(part.database, [declared])):
            yield part


def _drop_outdated(collection: Stored[Any], outdated: Iterable[str]) -> None:
    """Drop the indexes that only the older version needed: each would cost every write, and nobody else drops it."""
    for name in collection.index_information().keys() & {*outdated}:
        collection.drop_index(name)


def _make_way(collection: Stored[Any], new: str) -> None:
    """Drop a collection of ours that is in the way if it is empty: it was prepared before its forerunner was known."""
    db, name = collection.database, collection.name
    if new not in db.list_collection_names():
        return
    # guard: only an empty collection of ours gives way to a renamed one
    if not is_prepared(db, new) or db[new].find_one({}, {"_id": 1}) is not None:
        raise Conflict(f"{name} cannot be renamed: there is a collection {new} too", collection=name)
    db[new].drop()
