"""Cached documents save reads, and never decide."""

from __future__ import annotations

import pytest

from squinney.errors import Invalid
from squinney.game import NoExit, NotEnoughGold, OutOfReach, World, find_problems
from squinney.game.documents import CHARACTERS
from squinney.game.records import DocumentCache
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db
from squinney.testing.audit import audited


@pytest.fixture
def two(game_db: Db) -> tuple[World, World]:
    """Two worlds, as in two processes; the first has cached ann, bob and the lamp in their current state."""
    first, second = World(game_db), World(game_db)
    first.create_location("hall", description="A hall.", exits={"n": "yard"})
    first.create_location("yard", description="A yard.", exits={"s": "hall"})
    for name in ("Ann", "Bob"):
        first.create_character(name, id=name.lower(), location="hall", gold=50)
    first.create_item("lamp", id="lamp", location="hall")
    first.pick_up("ann", "lamp")
    first.give("ann", "bob", "lamp")
    first.drop("bob", "lamp")
    return first, second


def test_a_cached_holder_does_not_decide(two: tuple[World, World], game_db: Db) -> None:
    first, second = two
    first.pick_up("ann", "lamp")
    second.give("ann", "bob", "lamp")
    with pytest.raises(OutOfReach):
        first.drop("ann", "lamp")
    assert second.item("lamp")["holder"] == {"kind": "character", "id": "bob"}
    assert not list(find_problems(game_db))


def test_a_refusal_is_decided_by_the_database(two: tuple[World, World]) -> None:
    first, second = two
    first.pick_up("ann", "lamp")
    second.drop("ann", "lamp")
    first.pick_up("bob", "lamp")
    assert second.item("lamp")["holder"] == {"kind": "character", "id": "bob"}


def test_a_cached_room_does_not_decide_where_an_exit_leads(two: tuple[World, World]) -> None:
    first, second = two
    first.move("ann", "n")
    second.set_exits("yard", {"e": "hall"})
    with pytest.raises(NoExit):
        first.move("ann", "s")
    assert first.move("ann", "e")["location_id"] == "hall"


def test_a_purse_that_another_process_emptied_is_empty(two: tuple[World, World]) -> None:
    first, second = two
    first.create_character("Mo", id="mo", location="hall", kind="shopkeeper")
    first.create_item("rope", id="rope", character="mo", price=50, qty=2)
    first.say("ann", "hello")
    first.adjust("ann", health=-1)
    second.buy("ann", "mo", "rope")
    with pytest.raises(NotEnoughGold):
        first.buy("ann", "mo", "rope")
    assert first.character("ann")["gold"] == 0


def test_a_thing_that_another_process_took_is_gone(two: tuple[World, World], game_db: Db) -> None:
    """The acting character is unchanged, so only the thing's own guard can refuse."""
    first, second = two
    second.pick_up("ann", "lamp")
    with pytest.raises(OutOfReach):
        first.pick_up("bob", "lamp")
    assert not list(find_problems(game_db))


def test_a_new_thing_with_a_reused_id_is_not_taken_for_the_old_one(two: tuple[World, World], game_db: Db) -> None:
    """The new thing has been changed as often, and is in the same room, as the old one that a process has cached."""
    first, second = two
    first.create_item("tea", id="tea", kind="potion", location="hall", qty=3)
    first.pick_up("ann", "tea")
    first.drop("ann", "tea")
    second.pick_up("bob", "tea")
    for _ in range(3):
        second.use("bob", "tea")
    second.create_item("tea", id="tea", kind="potion", location="hall", qty=10)
    for _ in range(2):
        second.pick_up("bob", "tea", 1)
    first.pick_up("ann", "tea")
    assert [entry["qty"] for entry in first.inventory("ann")] == [8]
    assert not list(find_problems(game_db))


def test_an_action_on_cached_documents_reads_nothing(game_db: Db, mongod: Embedded) -> None:
    with audited(mongod.uri, game_db.name) as audit:
        world = World(audit.db)
        world.create_location("hall", description="A hall.")
        world.create_character("Ann", id="ann", location="hall")
        world.create_item("lamp", id="lamp", location="hall")
        world.pick_up("ann", "lamp")
        audit.round_trips()
        world.drop("ann", "lamp")
        assert "find" not in audit.round_trips()


def test_without_a_cache_each_action_reads(game_db: Db) -> None:
    world = World(game_db, cache_size=0)
    world.create_location("hall", description="A hall.")
    world.create_character("Ann", id="ann", location="hall")
    world.create_item("lamp", id="lamp", location="hall")
    world.pick_up("ann", "lamp")
    world.drop("ann", "lamp")
    assert world._cache.get(CHARACTERS, "ann") is None
    with pytest.raises(Invalid):
        World(game_db, cache_size=-1)


def test_the_cache_is_bounded_and_evicts_the_oldest_entries() -> None:
    cache = DocumentCache(size=3)
    for number in range(5):
        cache.store(CHARACTERS, {"_id": f"c{number}", "version": 1})
    cached = [number for number in range(5) if cache.get(CHARACTERS, f"c{number}")]
    assert cached == [2, 3, 4]


def test_a_document_that_another_process_changes_is_not_cached_for_a_while(two: tuple[World, World]) -> None:
    first, second = two
    first.pick_up("ann", "lamp")
    second.adjust("ann", health=-1)
    first.drop("ann", "lamp")  # is planned twice, because ann had changed
    assert first._cache.get(CHARACTERS, "ann") is None
