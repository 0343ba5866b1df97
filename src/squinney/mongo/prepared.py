"""Refusing to work without the indexes that an operation rests on, as when `squinney.prepare` was forgotten."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary

from pymongo.errors import OperationFailure

from squinney.errors import NotPrepared
from squinney.mongo.schema import Collection, Db

INDEX_NOT_FOUND = 27
ADVICE = "run squinney.prepare(db, ...) with this system first, or `squinney indexes --apply`"

# By client: the databases and collections whose unique indexes were seen. Asked once, not at every write.
_seen: WeakKeyDictionary[Any, set[tuple[str, str]]] = WeakKeyDictionary()


def require_unique(db: Db, name: str, declared: Iterable[Collection]) -> None:
    """Refuse where a unique index of the collection is missing: without it two documents could be alike, unnoticed.

    Raises: `NotPrepared`.
    """
    seen = _seen.setdefault(db.client, set())
    if (db.name, name) in seen:
        return
    there = [list(index["key"].items()) for index in db[name].list_indexes() if index.get("unique")]
    wanted = [index for collection in declared if collection.name == name for index in collection.indexes]
    for index in wanted:
        if index.unique and list(index.keys) not in there:
            lacking = f"{name} has no unique index {index.name}"
            raise NotPrepared(f"{lacking}: {ADVICE}", collection=name, index=index.name)
    seen.add((db.name, name))


def lacks_an_index(error: BaseException) -> bool:
    """Whether the server refused a query because an index that it cannot do without is missing."""
    return isinstance(error, OperationFailure) and error.code == INDEX_NOT_FOUND
