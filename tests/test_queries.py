"""Every declared query uses an index, on a database with the demo data."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest
from pymongo import MongoClient

from squinney import assembly
from squinney.mongo import schema
from squinney.mongo.queries import Pipeline, Query, stages
from squinney.mongo.schema import Db, Document

QUERIES = assembly.queries()


@pytest.fixture(scope="module")
def demo_db(client: MongoClient[Document]) -> Iterator[Db]:
    """A database with every system's collections and demo data."""
    db = client[f"test_{secrets.token_hex(8)}"]
    schema.apply(db, assembly.collections())
    for system in assembly.SYSTEMS:
        system.demo(db)
    yield db
    client.drop_database(db.name)


def test_each_query_has_a_name_of_its_own() -> None:
    assert len({query.name for query in QUERIES}) == len(QUERIES)


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)
def test_the_query_is_answered_from_an_index(demo_db: Db, query: Query | Pipeline) -> None:
    used = stages(query.explain(demo_db))
    assert used - {"EOF"}, "the server explained nothing"
    assert not used & {"COLLSCAN", "SORT"}


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)
def test_a_query_that_reaches_several_shards_says_why(query: Query | Pipeline) -> None:
    assert query.routing == "one" or query.reason


def test_a_query_without_an_index_would_be_seen(demo_db: Db) -> None:
    """The test above can fail."""
    unindexed = Query("x", "ledger.accounts", where=lambda: {"name": "Rent"}, sort=[("name", 1)])
    assert stages(unindexed.explain(demo_db)) >= {"COLLSCAN", "SORT"}
