"""The job that moves monsters."""

from __future__ import annotations

from squinney.game import World
from squinney.game.documents import CHARACTERS
from squinney.game.jobs import MAX_AT_ONCE, _random_monsters, wander
from squinney.mongo.schema import Db


def test_in_a_large_world_each_monster_gets_its_turn(game_db: Db) -> None:
    """Also if all ids start with the same letters, as in loaded worlds."""
    plain = {"name": "a rat", "gold": 0, "location": {"id": "hall"}, "inventory": [], "version": 1, "wanders": True}
    count = MAX_AT_ONCE + 3
    game_db[CHARACTERS].insert_many([{**plain, "_id": f"mob/{number:03}"} for number in range(count)])
    met = {monster["_id"] for _ in range(60) for monster in _random_monsters(game_db)}
    assert len(met) == count


def test_a_monster_in_a_missing_room_does_not_stop_the_others(game_db: Db) -> None:
    world = World(game_db)
    world.create_location("hall", description="A hall.", exits={"n": "yard"})
    world.create_location("yard", description="A yard.", exits={"s": "hall"})
    for name in ("a", "b", "c"):
        world.create_character(name, id=name, location="hall", kind="monster", wanders=True)
    game_db[CHARACTERS].update_one({"_id": "a"}, {"$set": {"location.id": "atlantis"}})
    assert wander(game_db) == {"moved": 2}
