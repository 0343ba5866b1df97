"""Of edits based on the same version exactly one succeeds, and the others get the version that did."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from squinney.errors import Conflict, NotFound
from squinney.patterns.nonces import EditConflict, edit, new_nonce


@pytest.fixture
def node(db):
    document = {"_id": "n", "metadata": {"nonce": new_nonce(), "title": "old", "edits": 0}}
    db.nodes.insert_one(document)
    return document


def test_an_edit_changes_the_document_and_its_nonce(db, node):
    before = node["metadata"]["nonce"]
    changed = edit(db.nodes, {"_id": "n"}, before, {"$set": {"metadata.title": "new"}}, field="metadata.nonce")
    assert changed == db.nodes.find_one({"_id": "n"})
    assert changed["metadata"]["title"] == "new"
    assert changed["metadata"]["nonce"] != before


def test_a_pipeline_edits_too(db, node):
    update = [{"$set": {"metadata.title": {"$concat": ["$metadata.title", "er"]}}}]
    changed = edit(db.nodes, {"_id": "n"}, node["metadata"]["nonce"], update, field="metadata.nonce", new="$new")
    assert changed["metadata"] == {"nonce": "$new", "title": "older", "edits": 0}


def test_a_stale_nonce_is_refused_with_all_three_versions(db, node):
    first = node["metadata"]["nonce"]
    theirs = edit(db.nodes, {"_id": "n"}, first, {"$set": {"metadata.title": "theirs"}}, field="metadata.nonce")
    with pytest.raises(EditConflict) as refused:
        edit(
            db.nodes,
            {"_id": "n"},
            first,
            {"$set": {"metadata.title": "yours"}},
            field="metadata.nonce",
            yours={"title": "yours"},
            base={first: {"title": "old"}}.get,
        )
    assert isinstance(refused.value, Conflict)
    assert refused.value.theirs == theirs
    assert refused.value.yours == {"title": "yours"}
    assert refused.value.base == {"title": "old"}
    assert refused.value.details == {}, "details reach the outside"
    assert db.nodes.find_one({"_id": "n"}) == theirs


def test_an_unknown_document_is_not_found(db):
    with pytest.raises(NotFound):
        edit(db.nodes, {"_id": "none"}, "x", {"$set": {"a": 1}})


def test_a_nonce_that_is_no_string_matches_nothing(db, node):
    for nonce in ({"$ne": None}, None, 1):
        with pytest.raises(EditConflict):
            edit(db.nodes, {"_id": "n"}, nonce, {"$set": {"a": 1}}, field="metadata.nonce")
    assert db.nodes.find_one({"_id": "n"}) == node


@pytest.mark.parametrize("path", ["metadata.nonce", "metadata", "metadata.nonce.x"])
def test_an_edit_may_not_set_the_nonce_itself(db, node, path):
    with pytest.raises(ValueError, match="nonce"):
        edit(db.nodes, {"_id": "n"}, node["metadata"]["nonce"], {"$set": {path: "mine"}}, field="metadata.nonce")
    assert db.nodes.find_one() == node


def test_a_repeat_with_the_same_new_nonce_finds_that_it_has_happened(db, node):
    for _ in range(3):
        changed = edit(
            db.nodes,
            {"_id": "n"},
            node["metadata"]["nonce"],
            {"$inc": {"metadata.edits": 1}},
            field="metadata.nonce",
            new="chosen",
        )
        assert changed["metadata"]["edits"] == 1


def test_of_twenty_edits_at_once_one_wins(db, node):
    barrier = Barrier(20)

    def attempt(number):
        barrier.wait()
        try:
            edit(
                db.nodes,
                {"_id": "n"},
                node["metadata"]["nonce"],
                {"$set": {"metadata.title": str(number)}, "$inc": {"metadata.edits": 1}},
                field="metadata.nonce",
            )
        except EditConflict:
            return None
        return str(number)

    with ThreadPoolExecutor(20) as pool:
        winners = [title for title in pool.map(attempt, range(20)) if title is not None]
    stored = db.nodes.find_one({"_id": "n"})["metadata"]
    assert winners == [stored["title"]]
    assert stored["edits"] == 1


def test_twenty_who_merge_and_try_again_all_get_through(db, node):
    def persist(number):
        nonce = node["metadata"]["nonce"]
        while True:
            try:
                return edit(db.nodes, {"_id": "n"}, nonce, {"$push": {"metadata.by": number}}, field="metadata.nonce")
            except EditConflict as refused:
                nonce = refused.theirs["metadata"]["nonce"]

    with ThreadPoolExecutor(20) as pool:
        list(pool.map(persist, range(20)))
    assert sorted(db.nodes.find_one({"_id": "n"})["metadata"]["by"]) == list(range(20))


def test_inside_a_transaction_the_edit_goes_with_it(client, db, node):
    with client.start_session() as session, session.start_transaction():
        edit(
            db.nodes,
            {"_id": "n"},
            node["metadata"]["nonce"],
            {"$set": {"metadata.title": "gone"}},
            field="metadata.nonce",
            session=session,
        )
        session.abort_transaction()
    assert db.nodes.find_one({"_id": "n"}) == node
