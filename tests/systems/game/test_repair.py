"""Each kind of damage is found, and repaired if that is possible."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from pymongo.errors import ExecutionTimeout
from tests.systems.game.conftest import ALL

from squinney.errors import Unavailable
from squinney.game import World, find_problems, repair
from squinney.mongo import schema
from squinney.mongo.schema import Db


@pytest.fixture
def world(world: World) -> World:
    world.create_item("sack", id="sack", kind="container", character="ann")
    world.create_item("gem", id="gem", container="sack")
    world.create_item("lamp", id="lamp", location="hall")
    world.create_item("hat", id="hat", kind="armor", character="ann")
    world.wear("ann", "hat")
    return world


DAMAGES: list[tuple[str, str, Any, dict[str, Any]]] = [
    ("wrong-inventory", "characters", {"_id": "ann"}, {"inventory": []}),
    ("wrong-inventory", "characters", {"_id": "ann"}, {"load": 7}),
    ("wrong-inventory", "items", {"_id": "hat"}, {"qty": 2}),
    ("worn-not-carried", "characters", {"_id": "ann"}, {"armor": [{"id": "lamp", "region": "head"}]}),
    ("wrong-room", "locations", {"_id": "hall"}, {"thing_count": 9}),
    ("wrong-room", "locations", {"_id": "hall"}, {"player_count": 1}),
    ("wrong-room", "items", {"_id": "lamp"}, {"holder": {"kind": "location", "id": "yard"}}),
    ("wrong-container", "items", {"_id": "sack"}, {"load": 5}),
    ("lost-thing", "items", {"_id": "lamp"}, {"holder": {"kind": "location", "id": "atlantis"}}),
    ("in-itself", "items", {"_id": "sack"}, {"holder": {"kind": "item", "id": "sack"}}),
    ("unreserved-name", "characters", {"_id": "ann"}, {"name": "Anna"}),
    ("name-of-nobody", "names", {"_id": "ann"}, {"character_id": "nobody"}),
]


@pytest.mark.parametrize(("code", "collection", "where", "change"), DAMAGES)
def test_damage_is_found_and_repaired(
    world: World, game_db: Db, code: str, collection: str, where: Any, change: dict[str, Any]
) -> None:
    game_db[f"game.{collection}"].update_one(where, {"$set": change})
    found = {problem.code: problem for problem in find_problems(game_db)}
    assert found[code].repairable or code == "unreserved-name"
    for _ in range(3):  # one repair may reveal another problem
        repair(game_db)
    assert not list(find_problems(game_db))


@pytest.mark.parametrize(
    ("code", "change"), [("nowhere", {"location.id": "atlantis"}), ("gold-not-conserved", {"gold": 7})]
)
def test_a_problem_that_a_person_must_decide_is_still_reported_after_a_repair(
    world: World, game_db: Db, code: str, change: dict[str, Any]
) -> None:
    game_db["game.characters"].update_one({"_id": "bob"}, {"$set": change})
    repair(game_db)
    assert code in {problem.code for problem in find_problems(game_db)}


def test_a_slow_server_is_not_reported_as_a_malformed_document(own_db: Db, failing: Any) -> None:
    """Any single read of the audit may time out."""
    schema.apply(own_db, ALL)
    World(own_db).create_location("hall", description="A hall.")
    own_db["game.locations"].update_one({"_id": "hall"}, {"$set": {"thing_count": 9}})
    codes: list[str] = []
    for number in range(20):
        with failing(["find"], mode={"skip": number}, errorCode=50), suppress(ExecutionTimeout, Unavailable):
            codes.extend(problem.code for problem in find_problems(own_db))
    assert set(codes) == {"wrong-room"}
