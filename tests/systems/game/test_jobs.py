"""The job that moves monsters."""

from __future__ import annotations

from squinney.game.documents import CHARACTERS
from squinney.game.jobs import MOST_AT_ONCE, _random_monsters
from squinney.mongo.schema import Db


def test_in_a_large_world_each_monster_gets_its_turn(game_db: Db) -> None:
    """Also if all ids start with the same letters, as in loaded worlds."""
    plain = {"name": "a rat", "gold": 0, "location": {"id": "hall"}, "inventory": [], "version": 1, "wanders": True}
    count = MOST_AT_ONCE + 3
    game_db[CHARACTERS].insert_many([{**plain, "_id": f"mob/{number:03}"} for number in range(count)])
    met = {one["_id"] for _ in range(60) for one in _random_monsters(game_db)}
    assert len(met) == count
