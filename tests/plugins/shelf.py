"""Databases with their collections made, handed from test to test.

Creating a system's collections and indexes, and dropping them, takes the server many times longer than most tests do.
So a database is emptied after its test and given to the next one that wants the same collections. Whatever a test did
to collections and indexes is undone, by comparison with how they were; where there is doubt the database is dropped.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.errors import PyMongoError
from pymongo.read_concern import ReadConcern

from squinney.mongo import schema
from squinney.mongo.schema import Collection, Db, Document

MOST_TO_EMPTY = 5_000  # documents; with more, dropping is faster

Prepared = Callable[[Sequence[Collection]], Db]


@dataclass
class Shelf:
    """The databases that nobody uses now, by what they hold."""

    client: MongoClient[Document]
    free: dict[str, list[Db]] = field(default_factory=dict)
    made: dict[str, tuple[Sequence[Collection], dict[str, Any]]] = field(default_factory=dict)

    def take(self, collections: Sequence[Collection]) -> Db:
        """A database with these collections, all empty."""
        waiting = self.free.setdefault(_kind(collections), [])
        if waiting:
            return waiting.pop()
        db = self.client[f"test_{secrets.token_hex(8)}"]
        schema.apply(db, collections)
        self.made[db.name] = collections, _catalog(db)
        return db

    def put_back(self, db: Db) -> None:
        """Make it as it was, for the next test."""
        collections, before = self.made[db.name]
        try:
            fit = db.command("dbStats")["objects"] < MOST_TO_EMPTY and _is_restored(db, collections, before)
        except PyMongoError:  # a test may leave behind what cannot be emptied: a view, a validator, a capped collection
            fit = False
        if fit:
            self.free[_kind(collections)].append(db)
        else:
            self.client.drop_database(db.name)


def _kind(collections: Sequence[Collection]) -> str:
    return repr(list(collections))


def _catalog(db: Db) -> dict[str, Any]:
    """Every collection's options and indexes."""
    admin = db.client.get_database("admin", read_concern=ReadConcern("local"))
    found = admin.aggregate([{"$listCatalog": {}}, {"$match": {"db": db.name}}])
    return {one["name"]: _described(one) for one in found}


def _described(one: Document) -> Any:
    options = {name: value for name, value in one.get("md", {}).get("options", {}).items() if name != "uuid"}
    return one["type"], options, sorted(str(index["spec"]) for index in one.get("md", {}).get("indexes", ()))


def _is_restored(db: Db, collections: Sequence[Collection], before: dict[str, Any]) -> bool:
    now = _catalog(db)
    changed = [name for name, described in now.items() if before.get(name) != described]
    for name in changed:
        db.drop_collection(name)
    for name in before.keys() & now.keys() - set(changed):
        if not name.startswith("system."):
            db[name].delete_many({})
    if changed or before.keys() - now.keys():
        schema.apply(db, collections)
        return _catalog(db) == before
    return True


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
