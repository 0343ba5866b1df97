"""The world: concurrent actions of characters in one room on the same things."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from squinney import game
from squinney.game import World
from squinney.game.jobs import wander
from squinney.mongo.schema import Db
from tests.explore.scene import Act, Scene

GOLD, COINS, ROPES = 150, 10, 3
THINGS: dict[str, dict[str, Any]] = {
    "sack": {"kind": "container", "character": "ann"},
    "coin": {"location": "hall", "qty": COINS},
    "hat": {"kind": "armor", "region": "head", "character": "ann"},
    "rope": {"character": "mo", "price": 15, "qty": ROPES},
}


def _people(db: Db) -> None:
    """Create a hall with Ann, Bob and the shopkeeper Mo."""
    world = World(db)
    world.create_location("hall", description="A hall.", exits={"n": "yard"})
    world.create_location("yard", description="A yard.", exits={"s": "hall"})
    world.create_character("Ann", id="ann", location="hall", gold=60)
    world.create_character("Bob", id="bob", location="hall", gold=40)
    world.create_character("Mo", id="mo", location="hall", gold=50, kind="shopkeeper")


def _hall(db: Db) -> None:
    """Create a hall where Ann has a sack and a hat, Mo sells rope, and coins are on the floor."""
    _people(db)
    for name, how in THINGS.items():
        World(db).create_item(name, id=name, **how)


def _nothing_is_made_or_lost(db: Db, state: Any) -> None:
    assert World(db).gold() == GOLD
    for name, count in (("coin", COINS), ("rope", ROPES), ("sack", 1), ("hat", 1)):
        assert sum(item["qty"] for item in db["game.items"].find({"name": name})) == count


def _do(name: str, *arguments: Any, **options: Any) -> Act:
    def act(db: Db, state: Any) -> None:
        getattr(World(db), name)(*arguments, **options)

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

# ---- what is carried ----

CARRIED: dict[str, dict[str, Any]] = {
    "purse": {"name": "coin", "character": "ann", "qty": 4},
    "change": {"name": "coin", "character": "ann", "qty": COINS - 4},
    "sack": {"kind": "container", "character": "ann"},
    "hat": {"kind": "armor", "region": "head", "container": "sack"},
    "sword": {"kind": "weapon", "character": "ann"},
    "tea": {"kind": "potion", "heals": 5, "character": "ann", "qty": 2},
    "cap": {"kind": "armor", "region": "head", "character": "ann"},
    "rope": {"character": "mo", "price": 15, "qty": ROPES},
}


def _laden(db: Db) -> None:
    """Let Ann carry two purses, a sack with a hat, a sword and tea, and wear a cap."""
    _people(db)
    for id_, how in CARRIED.items():
        World(db).create_item(id=id_, **{"name": id_, **how})
    World(db).wear("ann", "cap")


HANDS: dict[str, Act] = {
    "split": _do("split", "ann", "purse", 1),
    "stack": _do("stack", "ann", "change", "purse"),
    "take out": _do("take_out", "ann", "sack", "hat"),
    "wield": _do("wield", "ann", "sword"),
    "use": _do("use", "ann", "tea"),
    "drop": _do("drop", "ann", "purse"),
    "remove": _do("remove", "ann", "cap"),
}
TRADE: dict[str, Act] = {
    "sell": _do("sell", "ann", "mo", "purse", 4),
    "sell by key": _do("sell", "ann", "mo", "purse", 2, key="k"),
    "buy": OPERATIONS["buy"],
    "say": _do("say", "ann", "hello"),
    "give": _do("give", "ann", "bob", "purse"),
    "adjust": _do("adjust", "ann", health=-3),
}

# ---- the world around them ----

ATTIC = Path(__file__).parent / "attic.json"  # a room with Eve in it


def _with_a_rat(db: Db) -> None:
    """Put a rat into the hall. It can only go to the yard and back."""
    _people(db)
    World(db).create_character("rat", id="rat", location="hall", kind="monster", wanders=True)


AROUND: dict[str, Act] = {
    "load": _do("load_world", ATTIC),
    "create attic": _do("create_location", "attic", description="Another attic."),
    "create Eve": _do("create_character", "Eve", id="other", location="hall"),
    "create bead": _do("create_item", "bead", id="bead", location="hall"),
    "wander": lambda db, state: wander(db),
    "move": OPERATIONS["move"],
    "say by key": _do("say", "ann", "hello", key="k"),
}

SCENES = [
    Scene("game", "game", _hall, OPERATIONS, check=_nothing_is_made_or_lost),
    Scene("game, hands", "game", _laden, HANDS, check=_nothing_is_made_or_lost),
    Scene("game, trade", "game", _laden, TRADE, check=_nothing_is_made_or_lost),
    # A new thing gets a random version, and a rat decides by what it sees first.
    Scene("game, around", "game", _with_a_rat, AROUND, composed=["create bead", "wander"]),
    Scene(
        "game, repaired",
        "game",
        _hall,
        {name: OPERATIONS[name] for name in ("pick up", "move")},
        check=_nothing_is_made_or_lost,
        between=[game.repair],
    ),
]
