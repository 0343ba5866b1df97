"""The goal of the demo world: the lamp of the lighthouse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from squinney.game import NotMadeForThat, TooHeavy, World, find_problems
from squinney.game.demo import demo
from squinney.mongo.schema import Db


@pytest.fixture
def empty_world(game_db: Db) -> World:
    return World(game_db)


# The thing to take, and the way to it from the one before.
ALL_THE_WAY = {
    "great wick": ["n", "n", "e", "e"],
    "great lens": ["w", "w", "n", "w"],
    "can of lamp oil": ["e", "s", "s", "s", "w", "w", "w", "d"],
    "": ["u", "u", "u"],
}


def test_whoever_brings_the_three_lights_the_lighthouse(game_db: Db, empty_world: World) -> None:
    """A walk that the notes of the demo world tell."""
    demo(game_db)
    me = empty_world.create_character("Ann", location="jetty")["_id"]
    for wanted, ways in ALL_THE_WAY.items():
        for way in ways:
            empty_world.move(me, way)
        room = empty_world.screen(me)["location"]
        for entry in room["inventory"]:
            if entry["name"] == wanted:
                empty_world.pick_up(me, entry["id"])
            elif entry["name"] == "padded crate":
                (lens,) = empty_world.contents(me, entry["id"])
                empty_world.take_out(me, entry["id"], lens["id"])
    (lamp,) = empty_world.goals()
    assert (lamp["name"], lamp["wants"], lamp["has"]) == ("great lamp", 3, 0)
    float_ = empty_world.create_item("glass float", character=me)["_id"]
    with pytest.raises(NotMadeForThat, match="glass float does not belong into great lamp"):
        empty_world.put_in(me, lamp["id"], float_)
    with pytest.raises(TooHeavy):
        empty_world.pick_up(me, lamp["id"])
    parts = {entry["name"]: entry["id"] for entry in empty_world.character(me)["inventory"]}
    said = [empty_world.put_in(me, lamp["id"], parts[name])["text"] for name in ALL_THE_WAY if name]
    assert [lamp["completed"] in text for text in said] == [False, False, True]
    assert empty_world.goals()[0]["has"] == 3
    assert not list(find_problems(game_db))
    empty_world.take_out(me, lamp["id"], parts["great lens"])
    assert empty_world.goals()[0]["has"] == 2


@pytest.mark.parametrize(
    ("accepts", "said"),
    [("lens", "a list of up to 20 different names"), (["lens", "lens"], "different names"), ([""], "accepts")],
)
def test_a_goal_that_cannot_be_is_reported(empty_world: World, tmp_path: Path, accepts: Any, said: str) -> None:
    thing = {"name": "lamp", "kind": "container", "accepts": accepts}
    file = tmp_path / "w.json"
    file.write_text(json.dumps({"rooms": {"hall": {"description": "-", "things": [thing]}}}))
    report = empty_world.load_world(file)
    assert said in report.unread[0].what
    assert empty_world.goals() == []
