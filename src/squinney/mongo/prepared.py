"""Refusing to work without the indexes that an operation needs, for example if `squinney.prepare` was forgotten."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary

from squinney.errors import NotPrepared
from squinney.mongo.schema import Collection, Db

ADVICE = "run squinney.prepare(db, ...) with this system first, or `squinney indexes --apply`"

# By client: the databases and collections whose unique indexes exist. They are checked once, not at every write.
_seen: WeakKeyDictionary[Any, set[tuple[str, str]]] = WeakKeyDictionary()


def require_unique(db: Db, name: str, declared: Iterable[Collection]) -> None:
    """Refuse to work if a unique index of the collection is missing, since duplicates would go unnoticed.

    Raises: `NotPrepared`.
    """
    seen = _seen.setdefault(db.client, set())
    if (db.name, name) in seen:
        return
    existing = [list(index["key"].items()) for index in db[name].list_indexes() if index.get("unique")]
    wanted = [index for collection in declared if collection.name == name for index in collection.indexes]
    for index in wanted:
        if index.unique and list(index.keys) not in existing:
            message = f"{name} has no unique index {index.name}: {ADVICE}"
            raise NotPrepared(message, collection=name, index=index.name)
    seen.add((db.name, name))
