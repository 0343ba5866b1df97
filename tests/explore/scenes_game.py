"""The world: concurrent actions of characters in one room on the same things."""

from __future__ import annotations

from typing import Any

from squinney.game import World
from squinney.mongo.schema import Db
from squinney.transactions import Mode
from tests.explore.scene import Act, Scene, transactions

GOLD, COINS, ROPES = 150, 10, 3
THINGS: dict[str, dict[str, Any]] = {
    "sack": {"kind": "container", "character": "ann"},
    "coin": {"location": "hall", "qty": COINS},
    "hat": {"kind": "armor", "region": "head", "character": "ann"},
    "rope": {"character": "mo", "price": 15, "qty": ROPES},
}


def _hall(db: Db) -> None:
    """Create a hall where Ann has a sack and a hat, Mo sells rope, and coins are on the floor."""
    world = World(db)
    world.create_location("hall", description="A hall.", exits={"n": "yard"})
    world.create_location("yard", description="A yard.", exits={"s": "hall"})
    world.create_character("Ann", id="ann", location="hall", gold=60)
    world.create_character("Bob", id="bob", location="hall", gold=40)
    world.create_character("Mo", id="mo", location="hall", gold=50, kind="shopkeeper")
    for name, how in THINGS.items():
        world.create_item(name, id=name, **how)


def _nothing_is_made_or_lost(db: Db, state: Any) -> None:
    assert World(db).gold() == GOLD
    for name, count in (("coin", COINS), ("rope", ROPES), ("sack", 1), ("hat", 1)):
        assert sum(item["qty"] for item in db["game.items"].find({"name": name})) == count


def _do(name: str, *arguments: Any, **options: Any) -> Act:
    def act(db: Db, mode: Mode, state: Any) -> None:
        getattr(World(db, transactions=transactions(db, mode)), name)(*arguments, **options)

    return act


OPERATIONS: dict[str, Act] = {
    "move": _do("move", "ann", "n"),
    "pick up": _do("pick_up", "ann", "coin", 3),
    "bob picks up": _do("pick_up", "bob", "coin", 8, key="k"),
    "drop": _do("drop", "ann", "sack"),
    "put in": _do("put_in", "ann", "sack", "hat"),
    "give": _do("give", "ann", "bob", "sack"),
    "wear": _do("wear", "ann", "hat"),
    "buy": _do("buy", "ann", "mo", "rope", 2),
    "bob buys": _do("buy", "bob", "mo", "rope", 2, key="k"),
}

SCENES = [Scene("game", "game", _hall, OPERATIONS, check=_nothing_is_made_or_lost)]
