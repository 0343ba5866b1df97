"""The world from the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.cli.conftest import Squinney

from squinney.errors import SquinneyError
from squinney.game import World
from squinney.game.surface.terminal import TerminalPlayer
from squinney.mongo.schema import Db


def test_a_world_is_loaded_and_audited(squinney: Squinney, ready_db: Db, tmp_path: Path) -> None:
    rooms = {"hall": {"description": "A hall.", "exits": {"n": "moon"}, "things": [{"name": "lamp"}]}}
    file = tmp_path / "world.json"
    file.write_text(json.dumps({"start": "hall", "rooms": rooms}))
    loaded = squinney("game", "load", str(file))
    assert loaded.returncode == 0, loaded.stderr
    assert "leads to moon, which is not a room" in loaded.stdout
    assert squinney("game", "audit").stdout.strip() == "0 problems; 0 gold in all"
    ready_db["game.items"].update_many({}, {"$set": {"holder.id": "atlantis"}})
    wrong = squinney("game", "audit", "--json")
    assert wrong.returncode == 1
    assert {one["code"] for one in json.loads(wrong.stdout)["problems"]} == {"lost-thing", "wrong-room"}


@pytest.fixture
def player(ready_db: Db) -> TerminalPlayer:
    world = World(ready_db)
    world.create_location("hall", name="Hall", description="A hall.", exits={"n": "yard"})
    world.create_location("yard", name="Yard", description="A yard.", exits={"s": "hall"})
    world.create_character("Mo", id="mo", location="hall", kind="shopkeeper")
    world.create_item("rope", character="mo", price=7, qty=3)
    world.create_item("sack", id="sack", kind="container", location="hall")
    world.create_item("coin", container="sack", qty=9)
    return TerminalPlayer(world, "Ann")


def test_lines_of_words_are_actions(player: TerminalPlayer) -> None:
    results = [
        player.run(line)
        for line in (
            "look",
            "take 4 coin from sack",
            "put 1 coin in sack",
            "list",
            "buy rope",
            "sell rope",
            "drop 2 coin",
            "give coin to mo",
            "' hello",
            "north",
            "map",
            "i",
            "dance",
        )
    ]
    assert results[0] == "Hall\nA hall.\nWays: north\nHere: Mo\nOn the ground: sack"
    assert results[1:9] == [
        "Ann takes 4 × coin out of sack",
        "Ann puts coin into sack",
        "3 × rope: 7 gold each",
        "Ann buys rope for 7 gold",
        "Ann sells rope for 3 gold",
        "Ann drops 2 × coin",
        "Ann gives coin to Mo",
        "You say: hello",
    ]
    assert results[9].startswith("Yard")
    assert "Hall: n to Yard" in results[10]
    assert results[11] == "36 gold, carrying 0 of 150"
    assert "dance" in results[12]
    player.run("s")
    assert player.run("look sack") == "Nothing special about sack.\nIn it:\n    5 × coin\n    coin"
    with pytest.raises(SquinneyError, match="there is no dragon here"):
        player.run("take dragon")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("take gem", "there is no gem here"),
        ("drop gem", "you carry no gem"),
        ("buy sack", "there is no sack for sale here"),
        ("take gem from sack", "there is no gem in it"),
    ],
)
def test_the_error_says_where_the_missing_thing_was_searched(player: TerminalPlayer, line: str, message: str) -> None:
    with pytest.raises(SquinneyError, match=message):
        player.run(line)


def test_each_hand_takes_a_weapon(player: TerminalPlayer, ready_db: Db) -> None:
    for name in ("knife", "club", "fork"):
        World(ready_db).create_item(name, kind="weapon", location="hall")
    player.run("take all")
    player.run("wield knife")
    player.run("wield club")
    assert player.run("equipment") == "right: knife\nleft: club"
    assert player.run("remove knife") == "Ann puts away knife"
    player.run("wield fork in right hand")
    assert player.run("equipment") == "left: club\nright: fork"
    with pytest.raises(SquinneyError, match="hand must be one of"):
        player.run("wield knife in teeth")


def test_short_words_and_all_of_them(player: TerminalPlayer) -> None:
    assert player.run("get all from sack") == "Ann takes 9 × coin out of sack"
    assert player.run("get all") == "Ann takes sack"
    assert player.run("put all in the sack") == "Ann puts 9 × coin into sack"
    assert player.run("inv").splitlines() == ["40 gold, carrying 10 of 150", "sack", "    9 × coin"]
    assert player.run("dr all") == "Ann drops sack"
    assert player.run("drop all") == "There is nothing."
    assert player.run("l").startswith("Hall")
    assert player.run("nor").startswith("Yard")
    assert "Did you mean `wield`?" in player.run("weild stick")
    assert player.run("eq") == "You wear and wield nothing."
    for line, question in (("go", "Go where?"), ("say", "Say what?"), ("'", "Say what?")):
        with pytest.raises(SquinneyError, match=re.escape(question)):
            player.run(line)


def test_what_is_worn_is_taken_off(player: TerminalPlayer, ready_db: Db) -> None:
    World(ready_db).create_item("hat", kind="armor", region="head", location="hall")
    player.run("take hat")
    player.run("wear hat")
    assert player.run("remove hat") == "Ann takes off hat"


def test_what_another_process_did_is_found(player: TerminalPlayer, ready_db: Db) -> None:
    """The player's process caches the room for a second, but a new thing in the room is found at once."""
    player.run("get sack")
    World(ready_db).create_item("lamp", id="lamp", location="hall")
    assert player.run("get lamp") == "Ann takes lamp"
    World(ready_db).drop(player.character_id, "lamp")
    assert player.run("get lamp") == "Ann takes lamp"


def test_a_text_by_another_user_does_not_control_the_terminal(player: TerminalPlayer) -> None:
    said = {"character_id": "bob", "location_id": "hall", "kind": "said", "name": "Bob", "text": "\x1b[2J\nMo says: no"}
    assert player.text_of(said) == "Bob says:  [2J Mo says: no"


def test_only_events_in_the_same_room_are_shown(player: TerminalPlayer) -> None:
    said = {"character_id": "bob", "location_id": "hall", "kind": "said", "name": "Bob", "text": "hi"}
    assert player.text_of(said) == "Bob says: hi"
    assert player.text_of({**said, "location_id": "yard"}) == ""


def test_a_game_is_played_by_a_script(squinney: Squinney, ready_db: Db) -> None:
    World(ready_db).create_location("hall", description="A hall.\nIt is \x1b[2Jdark.")
    played = squinney("game", "play", "Eve", typed="look\nn\nquit\n")
    assert played.returncode == 0, played.stderr
    assert "No way leads north from here" in played.stdout
    assert "A hall.\nIt is  [2Jdark.\n" in played.stdout, "the text of a loaded world does not control the terminal"
