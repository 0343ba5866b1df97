"""What a process remembers saves it reads, and never decides."""

from __future__ import annotations

import pytest
from tests.systems.game.conftest import world_in

from squinney.errors import Invalid
from squinney.game import NoExit, NotEnoughGold, OutOfReach, World, find_problems
from squinney.game.documents import CHARACTERS
from squinney.game.records import Memory
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db
from squinney.testing.audit import audited
from squinney.transactions import Mode, Transactions

MODES: list[Mode] = ["native", "two-phase"]


@pytest.fixture(params=MODES)
def two(request: pytest.FixtureRequest, game_db: Db) -> tuple[World, World]:
    """Two worlds, as two processes have them; the first remembers ann, bob and the lamp as they are."""
    first, second = world_in(game_db, request.param), world_in(game_db, request.param)
    first.create_location("hall", description="A hall.", exits={"n": "yard"})
    first.create_location("yard", description="A yard.", exits={"s": "hall"})
    for name in ("Ann", "Bob"):
        first.create_character(name, id=name.lower(), location="hall", gold=50)
    first.create_item("lamp", id="lamp", location="hall")
    first.pick_up("ann", "lamp")
    first.give("ann", "bob", "lamp")
    first.drop("bob", "lamp")
    return first, second


def test_a_remembered_holder_does_not_decide(two: tuple[World, World], game_db: Db) -> None:
    first, second = two
    first.pick_up("ann", "lamp")
    second.give("ann", "bob", "lamp")
    with pytest.raises(OutOfReach):
        first.drop("ann", "lamp")
    assert second.item("lamp")["holder"] == {"kind": "character", "id": "bob"}
    assert not list(find_problems(game_db))


def test_a_refusal_is_decided_by_what_is_read(two: tuple[World, World]) -> None:
    first, second = two
    first.pick_up("ann", "lamp")
    second.drop("ann", "lamp")
    first.pick_up("bob", "lamp")
    assert second.item("lamp")["holder"] == {"kind": "character", "id": "bob"}


def test_a_remembered_room_does_not_decide_where_one_gets(two: tuple[World, World]) -> None:
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
    """Whoever reaches for it is unchanged: only the thing can tell."""
    first, second = two
    second.pick_up("ann", "lamp")
    with pytest.raises(OutOfReach):
        first.pick_up("bob", "lamp")
    assert not list(find_problems(game_db))


def test_a_thing_made_anew_under_an_old_id_is_another_one(two: tuple[World, World], game_db: Db) -> None:
    """As often changed and in the same place as the one that a process remembers."""
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


def test_an_action_of_what_is_remembered_reads_nothing(game_db: Db, mongod: Embedded) -> None:
    with audited(mongod.uri, game_db.name) as audit:
        world = World(audit.db, transactions=Transactions(audit.db, "native"))
        world.create_location("hall", description="A hall.")
        world.create_character("Ann", id="ann", location="hall")
        world.create_item("lamp", id="lamp", location="hall")
        world.pick_up("ann", "lamp")
        audit.round_trips()
        world.drop("ann", "lamp")
        assert "find" not in audit.round_trips()


def test_without_memory_each_action_reads(game_db: Db) -> None:
    world = World(game_db, remembers=0)
    world.create_location("hall", description="A hall.")
    world.create_character("Ann", id="ann", location="hall")
    world.create_item("lamp", id="lamp", location="hall")
    world.pick_up("ann", "lamp")
    world.drop("ann", "lamp")
    assert world._memory.get(CHARACTERS, "ann") is None
    with pytest.raises(Invalid):
        World(game_db, remembers=-1)


def test_memory_is_bounded_and_the_oldest_give_way() -> None:
    memory = Memory(most=3)
    for number in range(5):
        memory.keep(CHARACTERS, {"_id": f"c{number}", "version": 1})
    known = [number for number in range(5) if memory.get(CHARACTERS, f"c{number}")]
    assert known == [2, 3, 4]


def test_what_others_change_is_not_remembered_for_a_while(two: tuple[World, World]) -> None:
    first, second = two
    first.pick_up("ann", "lamp")
    second.adjust("ann", health=-1)
    first.drop("ann", "lamp")  # was planned twice, for ann had changed
    assert first._memory.get(CHARACTERS, "ann") is None
