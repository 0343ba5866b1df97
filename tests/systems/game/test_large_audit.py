"""The quick check of whole batches finds the same problems as a check of each document, without a query for each."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from squinney.game import World, find_problems
from squinney.game.repair import audit
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db
from squinney.testing.server_commands import watched

POUCH = {"name": "pouch", "kind": "container", "things": [{"name": "gem"}, {"name": "purse", "kind": "container"}]}
CHEST = {"name": "chest", "kind": "container", "things": [{"name": "coin", "qty": 3}, POUCH]}


def load(db: Db, folder: Path, first: int, rooms: int) -> None:
    numbers = range(first, first + rooms)
    people = {
        f"p{number}": {"name": f"P {number}", "room": f"r{number}", "things": [CHEST, {"name": "hat", "kind": "armor"}]}
        for number in numbers
    }
    file = folder / "world.json"
    file.write_text(json.dumps({"rooms": {f"r{number}": {"things": [CHEST]} for number in numbers}, "people": people}))
    assert World(db).load_world(file).things == 11 * rooms


def test_an_audit_needs_no_query_for_each_document(mongod: Embedded, game_db: Db, tmp_path: Path) -> None:
    counts = []
    with watched(mongod.uri, game_db.name) as (db, commands):
        for first, rooms in ((0, 2), (2, 6)):
            load(game_db, tmp_path, first, rooms)
            before = len(commands.names)
            assert not list(find_problems(db))
            counts.append(len(commands.names) - before)
    assert counts[0] == counts[1]


def test_the_quick_check_finds_the_same_damage_as_a_check_of_each_document(
    game_db: Db, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(game_db, tmp_path, 0, 15)
    choice = random.Random(7)
    items: list[Any] = list(game_db["game.items"].find())
    holders: list[dict[str, Any]] = [
        {"kind": "item", "id": choice.choice(items)["_id"]},
        {"kind": "location", "id": "r3"},
        {"kind": "character", "id": "p3"},
        {"kind": "location", "id": "nowhere"},
    ]
    for item in choice.sample([one for one in items if one["_id"][:3] not in ("r0/", "r1/")], 30):
        change: dict[str, Any] = choice.choice(
            [
                {"qty": 9},
                {"load": 1},
                {"count": 7},
                {"things": 7},
                {"kind": "thing"},
                {"holder": choice.choice(holders)},
            ]
        )
        game_db["game.items"].update_one({"_id": item["_id"]}, {"$set": change})
    # Two chests inside each other; the totals of one are correct.
    inside = {"holder": {"kind": "item", "id": "r1/0"}, "count": 3, "things": 9, "load": 13}
    game_db["game.items"].update_one({"_id": "r0/0"}, {"$set": inside})
    game_db["game.items"].update_one({"_id": "r1/0"}, {"$set": {"holder": {"kind": "item", "id": "r0/0"}}})
    changes: list[tuple[str, dict[str, Any]]] = [
        ("p1", {"load": 3}),
        ("p2", {"things": 1}),
        ("p4", {"inventory.0.inventory": []}),
    ]
    for one, change in changes:
        game_db["game.characters"].update_one({"_id": one}, {"$set": change})
    quick = sorted(str(problem) for problem in find_problems(game_db))
    monkeypatch.setattr(audit, "quick_check", lambda db, collection, batch: lambda document: False)
    assert quick == sorted(str(problem) for problem in find_problems(game_db))
    assert len(quick) > 20
