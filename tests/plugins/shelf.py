"""Reuse databases with prepared collections between tests.

Creating and dropping a system's collections and indexes takes much longer than most tests. So a database is emptied
after its test and reused by the next test that needs the same collections. Changes that a test made to collections and
indexes are undone, by comparing them with the original state; if that fails, the database is dropped.

Reading the server's catalog, with every index of every database, is slow. It is read only if a quick comparison, or a
command that the test sent, shows that something may have changed.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from pymongo import MongoClient, monitoring
from pymongo.errors import PyMongoError

from squinney.mongo import schema
from squinney.mongo.schema import Collection, Db, Document
from squinney.testing.emptying import LOCAL, empty

MAX_TO_EMPTY = 5_000  # documents; with more, dropping is faster

CHANGES = {"createIndexes", "dropIndexes", "collMod"}

Prepared = Callable[[Sequence[Collection]], Db]


class Changed(monitoring.CommandListener):
    """Records the databases whose indexes this process has changed."""

    def __init__(self) -> None:
        self.databases: set[str] = set()

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        if event.command_name in CHANGES:
            self.databases.add(event.database_name)

    def succeeded(self, event: object) -> None:
        pass

    def failed(self, event: object) -> None:
        pass


CHANGED = Changed()
monitoring.register(CHANGED)


@dataclass(frozen=True)
class Made:
    """The state of a database right after its collections were created."""

    collections: Sequence[Collection]
    catalog: dict[str, Any]
    glance: Any


@dataclass
class Shelf:
    """The databases not in use, by the collections they have."""

    client: MongoClient[Document]
    free: dict[str, list[Db]] = field(default_factory=dict)
    made: dict[str, Made] = field(default_factory=dict)

    def take(self, collections: Sequence[Collection]) -> Db:
        """Return a database with these collections, all empty."""
        waiting = self.free.setdefault(_kind(collections), [])
        if waiting:
            return waiting.pop()
        db = self.client[f"test_{secrets.token_hex(8)}"]
        schema.apply(db, collections)
        self._remember(db, collections)
        return db

    def put_back(self, db: Db) -> None:
        """Restore the database for the next test."""
        made = self.made[db.name]
        try:
            fit = self._is_emptied(db, made)
        except PyMongoError:  # a view, a validator or a capped collection that a test left cannot be emptied
            fit = False
        if fit:
            self.free[_kind(made.collections)].append(db)
        else:
            self.client.drop_database(db.name)

    def _is_emptied(self, db: Db, made: Made) -> bool:
        stats = db.command("dbStats")
        if stats["objects"] >= MAX_TO_EMPTY:
            return False
        if db.name not in CHANGED.databases and _glance(db, stats) == made.glance:
            empty(db, _to_empty(made.catalog))
            return True
        restored = _is_restored(db, made)
        self._remember(db, made.collections)
        return restored

    def _remember(self, db: Db, collections: Sequence[Collection]) -> None:
        self.made[db.name] = Made(collections, _catalog(db), _glance(db, db.command("dbStats")))
        CHANGED.databases.discard(db.name)


def _kind(collections: Sequence[Collection]) -> str:
    return repr(list(collections))


def _catalog(db: Db) -> dict[str, Any]:
    """Return the options and indexes of every collection."""
    admin = db.client.get_database("admin", read_concern=LOCAL)
    found = admin.aggregate([{"$listCatalog": {}}, {"$match": {"db": db.name}}])
    return {one["name"]: _described(one) for one in found}


def _described(one: Document) -> Any:
    options = {name: value for name, value in one.get("md", {}).get("options", {}).items() if name != "uuid"}
    return one["type"], options, sorted(str(index["spec"]) for index in one.get("md", {}).get("indexes", ()))


def _glance(db: Db, stats: Document) -> Any:
    """Return the collections and the number of indexes, which reveal changes by another process."""
    return stats["indexes"], sorted(str(one) for one in db.list_collections())


def _is_restored(db: Db, made: Made) -> bool:
    now = _catalog(db)
    changed = [name for name, described in now.items() if made.catalog.get(name) != described]
    for name in changed:
        db.drop_collection(name)
    empty(db, _to_empty(made.catalog.keys() & now.keys() - set(changed)))
    if changed or made.catalog.keys() - now.keys():
        schema.apply(db, made.collections)
    return _catalog(db) == made.catalog


def _to_empty(names: Iterable[str]) -> list[str]:
    return [name for name in names if not name.startswith("system.")]


@pytest.fixture(scope="session")
def shelf(client: MongoClient[Document]) -> Iterator[Shelf]:
    """The databases of this worker."""
    shelf = Shelf(client)
    yield shelf
    for waiting in shelf.free.values():
        for db in waiting:
            client.drop_database(db.name)


@pytest.fixture
def prepared(shelf: Shelf) -> Iterator[Prepared]:
    """`prepared(collections)` returns an empty database with these collections, for this test alone."""
    taken: list[Db] = []

    def give(collections: Sequence[Collection]) -> Db:
        taken.append(shelf.take(collections))
        return taken[-1]

    yield give
    for db in taken:
        shelf.put_back(db)
