"""Load a character and run actions, in separate rooms and in a crowded one, in both modes; Evennia in the same run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from bench import _game_ceiling, _game_commands, report
from bench.harness import Contender, Series, compare
from squinney import assembly, game
from squinney.errors import Conflict
from squinney.game import World
from squinney.game.documents import EVENTS
from squinney.mongo import schema
from squinney.mongo.connect import Connection
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db
from squinney.patterns.follow import Feed

PLAYERS = (1, 8, 32)
CROWD = 200
DELIVERIES = 50


def run(connection: Connection, *, rounds: int = 5, seconds: float = 2.0) -> None:
    """Measure, and write the page."""
    db = connection.client["bench_game"]
    connection.client.drop_database(db.name)
    schema.apply(db, [*assembly.CORE_COLLECTIONS, *game.COLLECTIONS])
    world = World(db)
    _build(world)
    loads = compare(_loading(db, world), threads=1, rounds=rounds, seconds=seconds)
    spread = {players: compare(_walking(db), threads=players, rounds=rounds, seconds=seconds) for players in PLAYERS}
    kinds = compare(_kinds(world), threads=1, rounds=rounds, seconds=seconds)
    crowded = compare(_crowded(db), threads=8, rounds=rounds, seconds=seconds)
    delivery_ms = _delivery_ms(db, world)
    commands = _game_commands.measured(db, rounds=rounds, seconds=seconds)
    ceiling = _game_ceiling.measured(db, rounds=rounds, seconds=seconds)
    version = connection.client.admin.command("buildInfo")["version"]
    connection.client.drop_database(db.name)
    parts = [
        report.machine(version),
        f"One process; {rounds} interleaved rounds of {seconds:g} s. Every action is journaled by a majority before it "
        "is acknowledged. Only the ratios count."
        f" Load average at the end {os.getloadavg()[0]:.0f}.",
        "## Loading a character",
        report.table(
            ["how", "per second", "p50 ms", "rate against `find_one`"], [_load_row(load, loads[0]) for load in loads]
        ),
        "## Actions by number of players, each in separate rooms (move, pick up and drop in turn)",
        report.table(
            ["players", "how", "actions/s", "p50 ms", "p99 ms"],
            [[str(players), *_row(contender)] for players, series in spread.items() for contender in series],
        ),
        "## Actions by kind, one player",
        report.table(["action", "per second", "p50 ms", "p99 ms"], [_row(kind) for kind in kinds]),
        f"## One room with {CROWD} characters, 8 of whom pick up and drop things without a pause",
        report.table(["how", "actions/s", "p50 ms", "p99 ms"], [_row(contender) for contender in crowded]),
        f"The change stream delivers what a character says to a neighbour {delivery_ms:.0f} ms after it was sent "
        f"(median of {DELIVERIES}).",
        commands,
        ceiling,
    ]
    report.write_page("game", "World", parts)


def _row(contender: Series) -> list[str]:
    return [
        contender.name,
        f"{contender.rate:,.0f}",
        f"{contender.percentile(0.5):.2f}",
        f"{contender.percentile(0.99):.2f}",
    ]


def _load_row(contender: Series, plain: Series) -> list[str]:
    return [
        contender.name,
        f"{contender.rate:,.0f}",
        f"{contender.percentile(0.5):.3f}",
        f"{contender.ratio_to(plain):.2f}x",
    ]


def _build(world: World) -> None:
    """Create two rooms and a lamp for each player, a square with a crowd, and a shop."""
    for number in range(max(PLAYERS)):
        name = f"player {number}"
        world.create_location(f"a {name}", description="bench", exits={"n": f"b {name}"})
        world.create_location(f"b {name}", description="bench", exits={"s": f"a {name}"})
        world.create_character(name, id=name, location=f"a {name}")
        world.create_item("lamp", id=f"lamp {name}", location=f"a {name}")
    world.create_location("square", description="bench")
    for number in range(CROWD):
        world.create_character(f"crowd {number}", id=f"crowd {number}", location="square")
    for number in range(8):
        world.create_item("lamp", id=f"square {number}", location="square")
    world.create_location("shop", description="bench")
    world.create_character("buyer", id="buyer", location="shop", gold=10**9)
    world.create_character("keeper", id="keeper", location="shop", kind="shopkeeper", gold=10**9, shop={"buys_at": 100})
    world.create_item("rope", id="rope", character="keeper", price=5)
    world.create_item("sack", id="sack", kind="container", character="buyer")
    world.create_item("gem", id="gem", character="buyer")
    world.create_item("bead", id="bead", location="shop")


def _loading(db: Db, world: World) -> list[Contender]:
    characters = pinned(db)["game.characters"]
    return [
        Contender("`find_one`", lambda _: characters.find_one({"_id": "player 0"}) and None),
        Contender("`character`", lambda _: world.character("player 0") and None),
    ]


def _in_turn(*acts: Callable[[], object]) -> Callable[[], None]:
    calls = [0]

    def act() -> None:
        acts[calls[0] % len(acts)]()
        calls[0] += 1

    return act


def _walking(db: Db) -> list[Contender]:
    world = World(db)
    for number in range(max(PLAYERS)):
        _reset(world, f"player {number}", f"lamp player {number}")
    turns = [_script_of(world, f"player {number}", f"lamp player {number}") for number in range(max(PLAYERS))]
    return [Contender("World", lambda thread: turns[thread]())]


def _reset(world: World, who: str, lamp: str) -> None:
    """Move a player back to the first room, with the lamp on the floor."""
    if world.item(lamp)["holder"]["kind"] == "character":
        world.drop(who, lamp)
    room_id = str(world.item(lamp)["holder"]["id"])
    if world.character(who)["location"]["id"] != room_id:
        world.move(who, "n" if room_id.startswith("b") else "s")
    if room_id.startswith("b"):
        world.pick_up(who, lamp)
        world.move(who, "s")
        world.drop(who, lamp)


def _script_of(world: World, who: str, lamp: str) -> Callable[[], None]:
    """Return a function that carries the lamp to the other room and back, one action per call."""
    return _in_turn(
        lambda: world.pick_up(who, lamp),
        lambda: world.move(who, "n"),
        lambda: world.drop(who, lamp),
        lambda: world.pick_up(who, lamp),
        lambda: world.move(who, "s"),
        lambda: world.drop(who, lamp),
    )


def _kinds(world: World) -> list[Contender]:
    _reset(world, "native 1", "lamp native 1")
    pairs = {
        "move": _in_turn(lambda: world.move("native 1", "n"), lambda: world.move("native 1", "s")),
        "pick up, drop": _in_turn(lambda: world.pick_up("buyer", "bead"), lambda: world.drop("buyer", "bead")),
        "put in, take out": _in_turn(
            lambda: world.put_in("buyer", "sack", "gem"), lambda: world.take_out("buyer", "sack", "gem")
        ),
        "buy, sell": _in_turn(
            lambda: world.buy("buyer", "keeper", "rope"), lambda: world.sell("buyer", "keeper", "rope")
        ),
        "say": lambda: world.say("buyer", "hello"),
    }
    return [Contender(name, lambda _, act=act: act() and None) for name, act in pairs.items()]  # type: ignore[misc]


def _crowded(db: Db) -> list[Contender]:
    world = World(db)

    def turn(number: int) -> Callable[[], None]:
        who, lamp = f"crowd {number}", f"square {number}"
        return _in_turn(lambda: world.pick_up(who, lamp), lambda: world.drop(who, lamp))

    turns = [turn(number) for number in range(8)]

    def work(thread: int) -> None:
        try:
            turns[thread]()
        except Conflict as error:
            raise RuntimeError(str(error)) from error

    return [Contender("World", work)]


def _delivery_ms(db: Db, world: World) -> float:
    """Return the median time from saying something to its arrival in the change stream."""
    feed = Feed(db, [EVENTS])
    waits: list[float] = []
    with feed.read(lambda change: change.kind == "insert") as reader:
        for number in range(DELIVERIES):
            sent = time.perf_counter()
            world.say("buyer", f"{number}")
            while (change := reader.next(10.0)) and (change.document or {}).get("text") != f"{number}":
                pass
            waits.append(max(0.0, time.perf_counter() - sent))
    feed.close()
    return sorted(waits)[len(waits) // 2] * 1000
