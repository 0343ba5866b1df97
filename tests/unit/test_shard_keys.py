"""Every declared shard key can split, and takes the uniqueness of no index; plans of a router are read right."""

from __future__ import annotations

import pytest

from squinney import assembly
from squinney.errors import Invalid
from squinney.mongo.queries import Query
from squinney.mongo.schema import Collection, Db, Index
from squinney.service.sharding import keys, plan
from squinney.service.sharding.checking import outcome, shards_in

SHARDED = [one for one in assembly.collections() if one.shard_key]


@pytest.mark.parametrize("collection", SHARDED, ids=lambda one: one.name)
def test_a_chunk_can_always_be_split(collection: Collection) -> None:
    assert keys.can_split(collection), (
        f"{collection.name}: any number of documents have the same {collection.shard_key}"
    )


@pytest.mark.parametrize("collection", SHARDED, ids=lambda one: one.name)
def test_no_unique_index_is_lost(collection: Collection) -> None:
    declared = [{"name": one.name, "key": dict(one.keys), "unique": one.unique} for one in collection.indexes]
    assert keys.loses_uniqueness(declared, collection.shard_key or {}) == []


def test_a_key_of_few_values_is_refused() -> None:
    """The tests above can fail."""
    assert not keys.can_split(Collection("tasks", shard_key={"queue": 1}))
    assert not keys.can_split(Collection("slugs", [Index([("a", 1), ("b", 1)], unique=True)], shard_key={"a": 1}))
    slug = {"name": "slug_1", "key": {"slug": 1}, "unique": True}
    assert keys.loses_uniqueness([slug], {"_id": "hashed"}) == ["slug_1"]
    assert keys.loses_uniqueness([slug], {"slug": "hashed"}) == []


def test_every_exception_is_of_a_collection_that_has_it() -> None:
    known = {one.name for one in SHARDED}
    assert set(keys.BOUNDED) <= known


def test_an_unsharded_collection_says_why() -> None:
    assert [one.name for one in assembly.collections() if not one.shard_key and not one.unsharded] == []


def test_an_index_serves_a_key_if_it_begins_with_it_and_has_every_document() -> None:
    key = {"a": 1, "b": 1}
    assert keys.serves({"key": {"a": 1, "b": 1, "c": -1}}, key)
    assert not keys.serves({"key": {"a": 1, "b": -1}}, key)
    assert not keys.serves({"key": {"a": 1, "b": 1}, "sparse": True}, key)


def test_a_replica_set_is_refused_with_a_sentence(db: Db) -> None:
    with pytest.raises(Invalid, match="not a sharded cluster"):
        plan(db, SHARDED)


FOUND = {"queryPlanner": {"winningPlan": {"stage": "SHARD_MERGE", "shards": [{"shardName": "a"}, {"shardName": "b"}]}}}
GATHERED = {"mergeType": "mongos", "shards": {"a": {"stages": []}}}


@pytest.mark.parametrize(("plan", "expected"), [(FOUND, {"a", "b"}), (GATHERED, {"a"}), ({"ok": 1}, set())])
def test_the_shards_of_a_plan(plan: object, expected: set[str]) -> None:
    assert set(shards_in(plan)) == expected


def test_a_query_that_reaches_more_than_it_says_differs() -> None:
    one = Query("q", "c", where=dict)
    everywhere = Query("q", "c", where=dict, routing="broadcast", reason="all")
    assert outcome(one, reached=2, spread=2) == "differs"
    assert outcome(one, reached=1, spread=2) == "as declared"
    assert outcome(one, reached=1, spread=1) == "not spread"
    assert outcome(everywhere, reached=1, spread=2) == "differs"
    assert outcome(everywhere, reached=2, spread=2) == "as declared"
