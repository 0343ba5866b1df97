"""Declared collections are applied once or repeatedly, and compared with the database."""

from __future__ import annotations

import threading

import pytest

from squinney.errors import Conflict
from squinney.mongo.schema import Collection, Drift, Index, apply, check, rebuild
from squinney.testing.server_commands import watched

VALIDATOR = {"$jsonSchema": {"bsonType": "object", "required": ["name"]}}
THINGS = Collection(
    "things",
    indexes=[
        Index([("name", 1)], unique=True),
        Index([("owner", 1), ("at", -1)], partial={"owner": {"$exists": True}}),
        Index([("at", 1)], expire_after_seconds=60),
        Index([("nick", 1)], sparse=True),
        Index([("title", "text"), ("body", "text")], weights={"title": 5, "body": 1}),
        Index([("label", 1)], collation={"locale": "en", "strength": 2}),
    ],
    validator=VALIDATOR,
)
LOG = Collection("log", options={"capped": True, "size": 4096})


def test_what_is_applied_does_not_drift(db):
    apply(db, [THINGS, LOG])
    assert check(db, [THINGS, LOG]) == []


def test_applying_again_changes_nothing(db):
    apply(db, [THINGS, LOG])
    before = db.things.index_information()
    db.things.insert_one({"name": "a"})
    apply(db, [THINGS, LOG])
    assert db.things.index_information() == before
    assert db.things.count_documents({}) == 1
    assert check(db, [THINGS, LOG]) == []


def test_many_may_apply_at_once(db):
    errors = []

    def worker():
        try:
            apply(db, [THINGS, LOG])
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=worker) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert check(db, [THINGS, LOG]) == []


def test_a_changed_validator_is_applied(db):
    apply(db, [THINGS])
    stricter = Collection("things", validator={"$jsonSchema": {"required": ["name", "owner"]}})
    assert Drift("things", "different-validator", "") in check(db, [stricter])
    apply(db, [stricter])
    assert Drift("things", "different-validator", "") not in check(db, [stricter])


def test_an_index_with_other_options_is_never_rebuilt_unasked(db):
    apply(db, [Collection("things", indexes=[Index([("name", 1)])])])
    with pytest.raises(Conflict, match="things") as caught:
        apply(db, [THINGS])
    assert caught.value.details == {"collection": "things"}
    assert not db.things.index_information()["name_1"].get("unique")


def test_a_missing_collection(db):
    drift = check(db, [THINGS])
    assert drift == [Drift("things", "missing-collection", "")]
    assert str(drift[0]) == "things: missing-collection"


def test_a_missing_index(db):
    apply(db, [THINGS])
    db.things.drop_index("name_1")
    assert check(db, [THINGS]) == [Drift("things", "missing-index", "name_1")]


@pytest.mark.parametrize(
    ("there", "wanted"),
    [
        (Index([("a", 1)]), Index([("a", 1)], unique=True)),
        (Index([("a", 1)], expire_after_seconds=5), Index([("a", 1)], expire_after_seconds=9)),
        (Index([("a", "text")]), Index([("a", "text"), ("b", "text")])),
    ],
)
def test_an_index_of_an_older_declaration_is_rebuilt(db, there, wanted):
    """A rebuild must succeed where `apply` advises it."""
    apply(db, [Collection("things", indexes=[there])])
    declared = [Collection("things", indexes=[wanted])]
    with pytest.raises(Conflict, match="--rebuild"):
        apply(db, declared)
    rebuild(db, declared)
    assert check(db, declared) == []


@pytest.mark.parametrize(
    ("there", "wanted"),
    [
        ({"keys": [("a", 1)], "name": "mine"}, Index([("a", 1)])),
        ({"keys": [("a", 1)], "unique": True}, Index([("a", 1)])),
        ({"keys": [("a", 1)], "name": "mine", "expireAfterSeconds": 5}, Index([("a", 1)], expire_after_seconds=9)),
        ({"keys": [("a", "text")]}, Index([("a", "text"), ("b", "text")])),
    ],
)
def test_an_index_that_somebody_else_added_is_never_rebuilt(db, there, wanted):
    apply(db, [Collection("things", indexes=[Index([("b", 1)], sparse=True)])])
    db.things.create_index(**there)
    before = db.things.index_information()
    with pytest.raises(Conflict, match="was not made by Squinney"):
        rebuild(db, [Collection("things", indexes=[wanted, Index([("b", 1)])])])
    assert db.things.index_information() == before


def test_an_extra_index(db):
    apply(db, [THINGS])
    db.things.create_index("stray")
    drift = check(db, [THINGS])
    assert drift == [Drift("things", "extra-index", "stray_1")]
    assert str(drift[0]) == "things: extra-index stray_1"


def test_the_index_of_a_shard_key_is_not_extra(db):
    sharded = Collection("things", shard_key={"user_id": "hashed"})
    apply(db, [sharded])
    db.things.create_index([("user_id", "hashed")])
    assert check(db, [sharded]) == []


@pytest.mark.parametrize(
    "declared",
    [
        Index([("name", 1)], unique=True),
        Index([("name", 1)], sparse=True),
        Index([("name", 1)], partial={"name": {"$gt": "a"}}),
        Index([("name", 1)], expire_after_seconds=60),
        Index([("name", 1)], collation={"locale": "en", "strength": 2}),
    ],
    ids=["unique", "sparse", "partial", "expiry", "collation"],
)
def test_a_different_index(db, declared):
    db.create_collection("things")
    db.things.create_index("name")
    assert check(db, [Collection("things", indexes=[declared])]) == [Drift("things", "different-index", "name_1")]


def test_a_key_in_another_order_is_a_different_index(db):
    db.create_collection("things")
    db.things.create_index([("b", 1), ("a", 1)], name="a_1_b_1")
    declared = Collection("things", indexes=[Index([("a", 1), ("b", 1)])])
    assert check(db, [declared]) == [Drift("things", "different-index", "a_1_b_1")]


def test_another_language_field_is_a_different_index(db):
    apply(db, [Collection("things", indexes=[Index([("title", "text")])])])
    declared = Collection("things", indexes=[Index([("title", "text")], language_override="tongue")])
    assert check(db, [declared]) == [Drift("things", "different-index", "title_text")]


def test_other_weights_of_a_text_index_are_a_different_index(db):
    apply(db, [Collection("things", indexes=[Index([("title", "text"), ("body", "text")])])])
    declared = Collection("things", indexes=[Index([("title", "text"), ("body", "text")], weights={"title": 5})])
    assert check(db, [declared]) == [Drift("things", "different-index", "title_text_body_text")]


def test_a_different_validator(db):
    apply(db, [THINGS])
    db.command("collMod", "things", validator={})
    assert check(db, [THINGS]) == [Drift("things", "different-validator", "")]


def test_different_options(db):
    apply(db, [Collection("log", options={"capped": True, "size": 8192})])
    assert check(db, [LOG]) == [Drift("log", "different-options", "size")]
    db.create_collection("plain")
    assert check(db, [Collection("plain", options=LOG.options)]) == [
        Drift("plain", "different-options", "capped"),
        Drift("plain", "different-options", "size"),
    ]


def test_an_unchanged_validator_is_not_set_again(db, mongod):
    apply(db, [THINGS])
    with watched(mongod.uri, db.name) as (same, commands):
        apply(same, [THINGS])
    assert "collMod" not in commands.names
