"""Databases on a real sharded cluster, with every collection sharded as it is declared."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from pymongo import MongoClient

from squinney.mongo import schema
from squinney.mongo.connect import client_for
from squinney.mongo.schema import Collection, Db, Document

VARIABLE = "SQUINNEY_TEST_SHARDED_URI"
Sharded = Callable[[Sequence[Collection]], Db]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test here needs the cluster, which may be slow."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.sharded)
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="session")
def router() -> Iterator[MongoClient[Document]]:
    """A client of the cluster's `mongos`."""
    uri = os.environ.get(VARIABLE)
    if not uri:
        pytest.skip(f"sharded: not run ({VARIABLE} names no cluster)")
    with client_for(uri) as client:
        yield client


@pytest.fixture
def sharded(router: MongoClient[Document]) -> Iterator[Sharded]:
    """`sharded(collections)` is a database with these, each on its declared shard key."""
    made: list[Db] = []

    def make(collections: Sequence[Collection]) -> Db:
        db = router[f"test_{secrets.token_hex(8)}"]
        made.append(db)
        schema.apply(db, collections)
        router.admin.command("enableSharding", db.name)
        for collection in collections:
            if collection.shard_key:
                router.admin.command("shardCollection", f"{db.name}.{collection.name}", key=dict(collection.shard_key))
        return db

    yield make
    for db in made:
        router.drop_database(db.name)
