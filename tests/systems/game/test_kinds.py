"""Documents of older schema versions are upgraded."""

from __future__ import annotations

from squinney.game import World, find_problems
from squinney.game.kinds import CHARACTER_TYPES
from squinney.game.migration import migrations
from squinney.mongo.schema import Db


def make_old(db: Db, character_id: str) -> None:
    """Change a stored character to version 1, without limits and charisma."""
    removed = {"character.max_health": "", "character.max_mana": "", "character.intrinsics.charisma": ""}
    change = {"$unset": removed, "$set": {"schema_version": 1, "character.health": 35}}
    db["game.characters"].update_one({"_id": character_id}, change)


def test_an_old_character_is_upgraded_when_it_is_read_and_stored_by_its_next_action(world: World, game_db: Db) -> None:
    make_old(game_db, "ann")
    read = world.character("ann")["character"]
    assert (read["max_health"], read["max_mana"], read["intrinsics"]["charisma"]) == (35, 10, 10)
    assert game_db["game.characters"].find_one({"_id": "ann"})["schema_version"] == 1
    world.adjust("ann", health=90)
    stored = game_db["game.characters"].find_one({"_id": "ann"})
    assert (stored["schema_version"], stored["character"]["health"]) == (2, 35)
    assert not list(find_problems(game_db))


def test_old_characters_and_containers_are_migrated_in_the_background(world: World, game_db: Db) -> None:
    make_old(game_db, "ann")
    world.create_item("sack", id="sack", kind="container", character="bob")
    world.create_item("gem", container="sack")
    game_db["game.items"].update_one({"_id": "sack"}, {"$unset": {"things": ""}, "$set": {"schema_version": 1}})
    done = [migration.run() for migration in migrations(game_db)]
    assert [(report.upgraded, report.failed) for report in done] == [(1, 0), (1, 0), (0, 0)]
    assert not any(CHARACTER_TYPES.is_outdated(character) for character in game_db["game.characters"].find())
    assert world.item("sack")["things"] == 1
    assert not list(find_problems(game_db))
