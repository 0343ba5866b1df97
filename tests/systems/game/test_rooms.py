"""Rooms stay bounded, and characters' copies of rooms are refreshed."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import bson
import pytest
from pymongo.errors import AutoReconnect

from squinney.errors import Conflict
from squinney.game import Copies, OutOfReach, World, find_problems, room_copies, rules
from squinney.game.documents import MAX_LISTED
from squinney.game.room_copies import refresh_copy
from squinney.mongo.schema import Db


def wait_until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < until, "it never came"
        time.sleep(0.02)


def copied_things(world: World, who: str) -> list[str]:
    return [entry["name"] for entry in world.character(who)["location"]["inventory"]]


def test_a_neighbours_action_shows_in_my_copy_and_bumps_no_version(world: World, game_db: Db) -> None:
    world.create_item("lamp", id="lamp", location="hall")
    with Copies(game_db):
        before = world.character("ann")["version"]
        world.screen("ann")
        world.pick_up("bob", "lamp")
        wait_until(lambda: copied_things(world, "ann") == [])
    assert world.character("ann")["version"] == before


def test_a_follower_that_was_down_catches_up(world: World, game_db: Db) -> None:
    with Copies(game_db):
        pass
    world.create_item("lamp", id="lamp", location="hall")
    world.move("bob", "n")
    assert copied_things(world, "ann") == []
    with Copies(game_db):
        wait_until(lambda: copied_things(world, "ann") == ["lamp"])
        wait_until(lambda: [player["id"] for player in world.character("ann")["location"]["players"]] == ["ann"])


def test_every_room_is_refreshed_if_the_server_no_longer_has_the_position(world: World, game_db: Db) -> None:
    with Copies(game_db):
        pass
    world.create_item("lamp", id="lamp", location="hall")
    forgotten = {"_data": "8200000001000000012B0229296E04"}
    saved = {"_id": "game-rooms", "position.token": {"$exists": True}}
    assert game_db["squinney.positions"].update_one(saved, {"$set": {"position.token": forgotten}}).modified_count == 1
    with Copies(game_db):
        wait_until(lambda: copied_things(world, "ann") == ["lamp"])


def test_a_read_of_the_screen_refreshes_a_copy_that_fell_behind(world: World) -> None:
    world.create_item("lamp", id="lamp", location="hall")
    assert copied_things(world, "ann") == []
    assert [one["name"] for one in world.screen("ann")["location"]["inventory"]] == ["lamp"]
    assert copied_things(world, "ann") == ["lamp"]


def test_an_old_room_does_not_replace_a_newer_copy(world: World, game_db: Db) -> None:
    old = world.location("hall")
    world.create_item("lamp", id="lamp", location="hall")
    world.screen("ann")
    assert refresh_copy(game_db, old, "ann") == 0
    assert copied_things(world, "ann") == ["lamp"]


def test_an_action_keeps_the_actors_own_copy_up_to_date(world: World, game_db: Db) -> None:
    """So the follower need not refresh it, which would conflict with the actor's next action."""
    world.screen("ann")
    world.create_item("bead", id="bead", character="ann")
    world.drop("ann", "bead")
    assert refresh_copy(game_db, world.location("hall"), "ann") == 0
    for direction in "ns":
        World(game_db).move("ann", direction)
    assert refresh_copy(game_db, world.location("hall"), "ann") == 0
    copied = world.character("ann")["location"]
    assert copied == rules.copy_of(world.location("hall"))


def test_a_stale_copy_never_decides(world: World, game_db: Db) -> None:
    """Bob's copy still shows a lamp, an exit and a neighbour that have left."""
    world.create_item("lamp", id="lamp", location="hall")
    world.screen("bob")
    world.pick_up("ann", "lamp")
    world.set_exits("hall", {"d": "cellar"})
    world.move("ann", "d")
    stale = world.character("bob")["location"]
    assert (stale["inventory"][0]["id"], stale["exits"]["n"]) == ("lamp", "yard")
    for act in (lambda: world.pick_up("bob", "lamp"), lambda: world.move("bob", "n")):
        with pytest.raises(Conflict):
            act()
    world.create_item("bead", id="bead", character="bob")
    with pytest.raises(OutOfReach, match="Ann is not here"):
        world.give("bob", "ann", "bead")
    assert not list(find_problems(game_db))


def test_a_full_room_lists_some_and_counts_all(world: World, game_db: Db) -> None:
    for number in range(MAX_LISTED + 5):
        world.create_item(f"pebble {number:02}", id=f"pebble {number:02}", location="yard")
        world.create_character(f"guest {number:02}", id=f"guest {number:02}", location="yard")
    room = world.location("yard")
    assert (len(room["inventory"]), room["thing_count"]) == (MAX_LISTED, MAX_LISTED + 5)
    assert (len(room["players"]), room["player_count"]) == (MAX_LISTED, MAX_LISTED + 5)
    assert len(bson.encode(room)) < 20_000
    assert not list(find_problems(game_db))
    world.pick_up("guest 00", "pebble 00")
    world.move("guest 00", "s")
    stored = game_db["game.locations"].find_one({"_id": "yard"})
    assert len(stored["inventory"]) == MAX_LISTED - 1
    assert len(world.location("yard")["inventory"]) == MAX_LISTED  # filled up from the records
    assert not list(find_problems(game_db))
    page = world.things("yard", limit=MAX_LISTED)
    rest = world.things("yard", cursor=page.next).items
    assert len(page.items) + len(rest) == MAX_LISTED + 4
    with Copies(game_db):
        world.say("guest 01", "hello")
        world.move("guest 02", "s")
        wait_until(lambda: len(game_db["game.locations"].find_one({"_id": "yard"})["players"]) == MAX_LISTED)


def test_changed_rooms_are_refreshed_before_the_stream_position_is_saved(world: World, game_db: Db) -> None:
    with Copies(game_db):
        world.create_item("lamp", id="lamp", location="hall")
        wait_until(lambda: copied_things(world, "ann") == ["lamp"])
        world.create_item("bead", id="bead", location="hall")
        wait_until(lambda: copied_things(world, "ann") == ["lamp", "bead"])
        world.pick_up("bob", "lamp")
    with Copies(game_db):  # whether the first had seen it or not
        wait_until(lambda: copied_things(world, "ann") == ["bead"])


def test_a_refresh_that_failed_is_tried_again(world: World, game_db: Db, monkeypatch: pytest.MonkeyPatch) -> None:
    refresh, calls = room_copies.refresh_all_copies, itertools.count(1)

    def fail_at_first(*given: Any) -> None:
        if next(calls) == 1:
            raise AutoReconnect("the server went away")
        refresh(*given)

    monkeypatch.setattr(room_copies, "refresh_all_copies", fail_at_first)
    with Copies(game_db):
        world.create_item("lamp", id="lamp", location="hall")
        wait_until(lambda: copied_things(world, "ann") == ["lamp"])
        world.create_item("bead", id="bead", location="hall")
        wait_until(lambda: copied_things(world, "ann") == ["lamp", "bead"])
    assert next(calls) > 2
