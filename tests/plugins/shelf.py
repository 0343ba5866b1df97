"""Databases with their collections made, handed from test to test.

Creating a system's collections and indexes, and dropping them, takes the server many times longer than most tests do.
So a database is emptied after its test and given to the next one that wants the same collections. Whatever a test did
to collections and indexes is undone, by comparison with how they were; where there is doubt the database is dropped.

The server's whole catalog, with every index of every database, is read only where a glance or a command of the test's
says that something may have changed.
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

MOST_TO_EMPTY = 5_000  # documents; with more, dropping is faster

CHANGES = {"createIndexes", "dropIndexes", "collMod"}

Prepared = Callable[[Sequence[Collection]], Db]


class Changed(monitoring.CommandListener):
    """Notes the databases whose indexes this process has changed."""

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
    """How a database was when its collections had just been made."""

    collections: Sequence[Collection]
    catalog: dict[str, Any]
    glance: Any


@dataclass
class Shelf:
    """The databases that nobody uses now, by what they hold."""

    client: MongoClient[Document]
    free: dict[str, list[Db]] = field(default_factory=dict)
    made: dict[str, Made] = field(default_factory=dict)

    def take(self, collections: Sequence[Collection]) -> Db:
        """A database with these collections, all empty."""
        waiting = self.free.setdefault(_kind(collections), [])
        if waiting:
            return waiting.pop()
        db = self.client[f"test_{secrets.token_hex(8)}"]
        schema.apply(db, collections)
        self._remember(db, collections)
        return db

    def put_back(self, db: Db) -> None:
        """Make it as it was, for the next test."""
        made = self.made[db.name]
        try:
            fit = self._is_emptied(db, made)
        except PyMongoError:  # a test may leave behind what cannot be emptied: a view, a validator, a capped collection
            fit = False
        if fit:
            self.free[_kind(made.collections)].append(db)
        else:
            self.client.drop_database(db.name)

    def _is_emptied(self, db: Db, made: Made) -> bool:
        stats = db.command("dbStats")
        if stats["objects"] >= MOST_TO_EMPTY:
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
    """Every collection's options and indexes."""
    admin = db.client.get_database("admin", read_concern=LOCAL)
    found = admin.aggregate([{"$listCatalog": {}}, {"$match": {"db": db.name}}])
    return {one["name"]: _described(one) for one in found}


def _described(one: Document) -> Any:
    options = {name: value for name, value in one.get("md", {}).get("options", {}).items() if name != "uuid"}
    return one["type"], options, sorted(str(index["spec"]) for index in one.get("md", {}).get("indexes", ()))


def _glance(db: Db, stats: Document) -> Any:
    """Which collections there are, and how many indexes: what a change by another process would show in."""
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
    """This worker's databases."""
    shelf = Shelf(client)
    yield shelf
    for waiting in shelf.free.values():
        for db in waiting:
            client.drop_database(db.name)


@pytest.fixture
def prepared(shelf: Shelf) -> Iterator[Prepared]:
    """`prepared(collections)` gives a database with them, empty, that is this test's alone."""
    taken: list[Db] = []

    def give(collections: Sequence[Collection]) -> Db:
        taken.append(shelf.take(collections))
        return taken[-1]

    yield give
    for db in taken:
        shelf.put_back(db)
