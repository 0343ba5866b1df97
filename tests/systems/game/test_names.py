"""Names of one shape: who may be called what, beside characters of this version and of older ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from squinney.game import NameTaken, World, find_problems, repair
from squinney.game.character_names import name_key, shape_key
from squinney.game.migration import ShapesOfNames
from squinney.mongo.schema import Db


@pytest.mark.parametrize(
    ("name", "alike"),
    [
        ("Ian", ["lan", "1an", "|an", "IAN", "\u0399\u0391\u039d"]),
        ("Bob", ["B0b", "BOB", "b0b"]),
        ("Barn", ["Bam", "barn", "BAM"]),
        ("lO1", ["I0l", "1ol"]),
        ("Vivvy", ["Viwy"]),
    ],
)
def test_names_of_one_shape_are_one_name(game_db: Db, name: str, alike: list[str]) -> None:
    world = World(game_db)
    world.create_location("hall", description="A hall.")
    world.create_character(name, location="hall")
    for other in alike:
        with pytest.raises(NameTaken):
            world.create_character(other, location="hall")
    assert list(find_problems(game_db)) == []


def test_names_of_other_shapes_are_different_names(world: World) -> None:
    for name in ("Mila", "Milla", "Ali", "All", "Emma", "Ema", "Lin", "Tin"):
        assert world.named(world.create_character(name, location="hall")["name"])["name"] == name


def _as_in_older_versions(world: World, db: Db, *names: str) -> None:
    """Create characters that have reserved only the key of their names."""
    for name in names:
        made = world.create_character(name, location="hall")
        db["game.names"].delete_one({"_id": shape_key(name), "character_id": made["_id"]})


def test_older_names_of_one_shape_stay_and_keep_new_ones_out(world: World, game_db: Db) -> None:
    _as_in_older_versions(world, game_db, "Ian", "lan", "Ossi")
    assert ShapesOfNames(game_db).run().upgraded == 2
    for name in ("Ian", "lan", "Ossi"):
        assert world.named(name)["name"] == name
    for owner in ("Ian", "lan"):
        reserved = {"_id": shape_key("Ian"), "character_id": world.named(owner)["_id"]}
        game_db["game.names"].replace_one({"_id": reserved["_id"]}, reserved)
        assert ShapesOfNames(game_db).run().upgraded == 0, "it can run again"
        assert game_db["game.names"].find_one({"_id": reserved["_id"]}) == reserved
    for name in ("1an", "0ssi"):
        with pytest.raises(NameTaken):
            world.create_character(name, location="hall")
    assert list(find_problems(game_db)) == []


def test_a_shape_of_somebody_who_does_not_exist_is_freed(world: World, game_db: Db) -> None:
    game_db["game.names"].insert_one({"_id": shape_key("Ian"), "character_id": "gone"})
    assert [problem.code for problem in find_problems(game_db)] == ["name-of-nobody"]
    repair(game_db)
    world.create_character("1an", location="hall")


def test_a_loaded_world_reserves_shapes_too(world: World, game_db: Db, tmp_path: Path) -> None:
    world.create_character("Ian", location="hall")
    people = {f"id-{name.lower()}": {"name": name} for name in ("1an", "Rob", "R0b")}
    file = tmp_path / "world.json"
    file.write_text(json.dumps({"start": "den", "rooms": {"den": {}}, "people": people}))
    report = world.load_world(file)
    assert (report.rooms, report.people, [line.what for line in report.unread]) == (
        1,
        1,
        ["id-1an: another character is called 1an", "id-r0b: another character is called R0b"],
    )
    with pytest.raises(NameTaken):
        world.create_character("r0b", location="hall")


def test_a_shape_is_no_key_of_a_name() -> None:
    assert not {shape_key(name) for name in ("lan", "Bob")} & {name_key(name) for name in ("lan", "Bob")}
