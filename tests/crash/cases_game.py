"""The world's crash cases: every action crashes at each of its writes, and is then repeated with its key."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from squinney.game import World
from squinney.game.demo import demo
from squinney.game.jobs import wander
from squinney.game.loading import insert_rooms
from squinney.mongo.schema import Db
from squinney.testing import Case
from squinney.transactions import Key

Act = Callable[[World], object]
Holds = Callable[[World], bool]
KEY = "once"
GOLD = 150
insert_rooms.ROOMS_AT_ONCE = 10  # so that the demo is three transactions


def _rooms(db: Db) -> None:
    world = World(db)
    world.create_location("hall", description="A hall.", exits={"n": "yard"})
    world.create_location("yard", description="A yard.", exits={"s": "hall"})


def _people(db: Db) -> None:
    _rooms(db)
    world = World(db)
    world.create_character("Ann", id="ann", location="hall", gold=100)
    world.create_character("Bob", id="bob", location="hall")
    world.create_character("Mo", id="mo", location="hall", gold=50, kind="shopkeeper")


THINGS: dict[str, dict[str, Any]] = {
    "sack": {"kind": "container", "character": "ann"},
    "pouch": {"kind": "container", "container": "sack"},
    "gem": {"container": "pouch"},
    "coins": {"location": "hall", "qty": 10},
    "purse": {"character": "ann", "qty": 4},
    "change": {"character": "ann", "qty": 2},
    "hat": {"kind": "armor", "region": "head", "character": "ann"},
    "sword": {"kind": "weapon", "character": "ann"},
    "tea": {"kind": "potion", "heals": 5, "character": "ann"},
    "rope": {"character": "mo", "price": 15, "qty": 3},
}
COINS = ("coins", "purse", "change")


def _things(*names: str) -> Callable[[Db], None]:
    def prepare(db: Db) -> None:
        _people(db)
        for name in names:
            World(db).create_item("coin" if name in COINS else name, id=name, **THINGS[name])

    return prepare


def _worn(db: Db) -> None:
    _things("hat")(db)
    World(db).wear("ann", "hat")


def _do(act: Act, db: Db, state: Any) -> None:
    act(World(db))


def _done_once(act: Act, holds: Holds, db: Db, state: Any) -> None:
    """Repeat the action twice, and check that it happened once and no gold was created or lost."""
    for _ in range(2):
        act(World(db))
    assert holds(World(db))
    assert World(db).gold() in (0, GOLD)


def _case(name: str, act: Act, holds: Holds, prepare: Callable[[Db], None] = _people) -> Case:
    return Case(f"World.{name}", "game", prepare, partial(_do, act), partial(_done_once, act, holds))


def _qty(world: World, who: str, name: str) -> int:
    return sum(entry["qty"] for entry in world.inventory(who) if entry["name"] == name)


def _in(world: World, item: str, holder: str) -> bool:
    return world.item(item)["holder"]["id"] == holder


def _keyed(method: str, *given: Any, **named: Any) -> Act:
    return lambda world: getattr(world, method)(*given, **named, key=Key(KEY, "sweep"))


def _said_once(world: World) -> bool:
    return [event["kind"] for event in world.recent("hall")].count("said") == 1


def _monsters(db: Db) -> None:
    _rooms(db)
    for number in range(2):
        name = f"rat {number}"
        World(db).create_character(name, id=name, location="hall", kind="monster", wanders=True)


def _everyone_is_somewhere(db: Db, state: Any) -> None:
    assert sum(World(db).location(room)["player_count"] for room in ("hall", "yard")) == 2


def _demo_goes_on(db: Db, state: Any) -> None:
    demo(db)
    assert len(World(db).locations(limit=200).items) == 25
    assert World(db).named("Pell the chandler")["gold"] == 400


CASES = [
    _case("create_location", _keyed("create_location", "attic", description="d"), lambda w: True, lambda db: None),
    _case(
        "create_item",
        _keyed("create_item", "bead", id="bead", container="pouch"),
        lambda w: _in(w, "bead", "pouch"),
        _things("sack", "pouch"),
    ),
    _case(
        "create_character",
        _keyed("create_character", "Eve", id="eve", location="hall"),
        lambda w: w.named("eve")["_id"] == "eve" and w.location("hall")["player_count"] == 1,
        _rooms,
    ),
    _case(
        "move",
        _keyed("move", "ann", "n"),
        lambda w: (w.location("hall")["player_count"], w.location("yard")["player_count"]) == (2, 1),
    ),
    _case(
        "pick_up",
        _keyed("pick_up", "ann", "coins", 3),
        lambda w: _qty(w, "ann", "coin") == 7,
        _things("coins", "purse"),
    ),
    _case("drop", _keyed("drop", "ann", "sack"), lambda w: _in(w, "sack", "hall"), _things("sack", "pouch")),
    _case(
        "put_in",
        _keyed("put_in", "ann", "pouch", "purse", 1),
        lambda w: _qty(w, "ann", "coin") == 3,
        _things("sack", "pouch", "purse"),
    ),
    _case(
        "take_out",
        _keyed("take_out", "ann", "pouch", "gem"),
        lambda w: _in(w, "gem", "ann"),
        _things("sack", "pouch", "gem"),
    ),
    _case("give", _keyed("give", "ann", "bob", "sack"), lambda w: _in(w, "sack", "bob"), _things("sack", "pouch")),
    _case("split", _keyed("split", "ann", "purse", 1), lambda w: _qty(w, "ann", "coin") == 4, _things("purse")),
    _case(
        "stack",
        _keyed("stack", "ann", "change", "purse"),
        lambda w: w.item("purse")["qty"] == 6,
        _things("purse", "change"),
    ),
    _case("wear", _keyed("wear", "ann", "hat"), lambda w: len(w.armor("ann")["head"]) == 1, _things("hat")),
    _case("wield", _keyed("wield", "ann", "sword"), lambda w: w.weapons("ann")["right"] is not None, _things("sword")),
    _case("remove", _keyed("remove", "ann", "hat"), lambda w: w.armor("ann")["head"] == [], _worn),
    _case("use", _keyed("use", "ann", "tea"), lambda w: w.inventory("ann") == [], _things("tea")),
    _case("adjust", _keyed("adjust", "ann", health=-3), lambda w: w.character("ann")["character"]["health"] == 17),
    _case(
        "buy",
        _keyed("buy", "ann", "mo", "rope", 2),
        lambda w: (w.character("ann")["gold"], _qty(w, "ann", "rope"), _qty(w, "mo", "rope")) == (70, 2, 1),
        _things("rope"),
    ),
    _case("sell", _keyed("sell", "ann", "mo", "purse", 4), lambda w: _qty(w, "mo", "coin") == 4, _things("purse")),
    _case("say", _keyed("say", "ann", "hello"), _said_once),
    Case("game.demo", "game", lambda db: None, lambda db, state: demo(db), _demo_goes_on, covers=["World.load_world"]),
    Case("job:wander-game-monsters", "game", _monsters, lambda db, state: wander(db), _everyone_is_somewhere),
]
