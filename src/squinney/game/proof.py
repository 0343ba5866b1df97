"""The world's part of `squinney prove`: what workers do until they are killed, and what must be true afterwards."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from squinney.clock import utcnow
from squinney.errors import Conflict, Invalid, LimitReached, NotFound, Unavailable
from squinney.game import rules
from squinney.game.documents import CHARACTERS, ITEMS, LOCATIONS
from squinney.game.entries import all_entries
from squinney.game.loading.blueprint import Blueprint
from squinney.game.loading.insert_rooms import insert_rooms
from squinney.game.repair import find_problems
from squinney.game.world import World
from squinney.mongo.schema import Db, Document
from squinney.patterns.ids import new_id
from squinney.system import Proof
from squinney.transactions import Transactions, end_abandoned

ROOMS = 20
PEOPLE = 200
KEEPERS = 5
THINGS = 5  # of each kind in each room
GOLD = 500
REFUSED = (Conflict, Invalid, LimitReached, NotFound)
Act = Callable[..., object]  # takes the idempotency key
Choice = Callable[[World, random.Random, str], Act]


def prepare(db: Db) -> None:
    """Create a ring of rooms with short cuts, characters, shopkeepers and things."""
    blueprint = Blueprint(name="proof", start="room 0")
    for number in range(ROOMS):
        ways = {"e": (number + 1) % ROOMS, "w": (number - 1) % ROOMS, "n": (number * 7 + 3) % ROOMS}
        exits = {direction: f"room {target}" for direction, target in ways.items()}
        blueprint.rooms[f"room {number}"] = {"description": "proof", "exits": exits}
        _furnish(blueprint, f"room {number}")
    for number in range(PEOPLE):
        here = f"room {number % ROOMS}"
        blueprint.people[f"p{number}"] = {"name": f"person {number}", "location": here, "gold": GOLD}
    for number in range(KEEPERS):
        keeper = {"name": f"keeper {number}", "location": f"room {number}", "gold": GOLD, "kind": "shopkeeper"}
        blueprint.people[f"k{number}"] = keeper
        blueprint.things[new_id()] = {"name": "lantern", "character": f"k{number}", "price": 20, "qty": 50}
    insert_rooms(db, Transactions(db), blueprint, utcnow())
    db["proof"].insert_one({"_id": "made", "qty": _all_pieces(db), "gold": World(db).gold()})


def _furnish(blueprint: Blueprint, room_id: str) -> None:
    for number in range(THINGS):
        for thing in (
            {"name": "coin", "qty": 30, "price": 1},
            {"name": f"hat {number}", "kind": "armor", "region": "head", "price": 9},
            {"name": f"stick {number}", "kind": "weapon", "price": 7},
            {"name": f"bag {number}", "kind": "container", "capacity": 200, "price": 5},
        ):
            blueprint.things[new_id()] = {**thing, "location": room_id}


def _all_pieces(db: Db) -> int:
    return sum(item["qty"] for item in db[ITEMS].find({}, {"qty": 1}))


def work(db: Db, seed: int) -> None:
    """Run random actions for ever, some of them twice with the same key, and record what was acknowledged."""
    world = World(db, transactions=Proof.transactions(db))
    chance = random.Random(seed)
    while True:
        key = new_id()
        try:
            act = chance.choice(CHOICES)(world, chance, f"p{chance.randrange(PEOPLE)}")
        except (*REFUSED, Unavailable):
            continue
        for _ in range(chance.choice([1, 1, 2])):
            if try_once(act, key):
                db["proof"].update_one({"_id": key}, {"$set": {"acknowledged": True}}, upsert=True)


def try_once(act: Act, key: str) -> bool:
    """Return True if the action succeeded; a refusal counts as a valid outcome."""
    try:
        act(key=key)
    except (*REFUSED, Unavailable):
        return False
    return True


# ---- random actions, many of which are refused ----


def _pick_one(chance: random.Random, choices: Any) -> Any:
    """Return a random entry, or an unknown id, which is refused, if there is none."""
    return chance.choice(choices) if choices else {"id": "nothing", "qty": 1}


def _carried(world: World, chance: random.Random, actor_id: str) -> str:
    return str(_pick_one(chance, world.inventory(actor_id))["id"])


def _container(world: World, chance: random.Random, actor_id: str) -> str:
    near = [*all_entries(world.inventory(actor_id)), *world.look(actor_id)["inventory"]]
    return str(_pick_one(chance, [entry for entry in near if entry["kind"] == "container"])["id"])


def _keeper(world: World, actor_id: str) -> str:
    return next(
        (player["id"] for player in world.look(actor_id)["players"] if player["kind"] == "shopkeeper"), "nobody"
    )


def _move(world: World, chance: random.Random, actor_id: str) -> Act:
    return partial(world.move, actor_id, chance.choice("nesw"))


def _pick_up(world: World, chance: random.Random, actor_id: str) -> Act:
    thing = _pick_one(chance, world.look(actor_id)["inventory"])
    return partial(world.pick_up, actor_id, thing["id"], chance.choice([None, 1]))


def _drop(world: World, chance: random.Random, actor_id: str) -> Act:
    return partial(world.drop, actor_id, _carried(world, chance, actor_id), chance.choice([None, 1]))


def _put_in(world: World, chance: random.Random, actor_id: str) -> Act:
    container, thing = _container(world, chance, actor_id), _carried(world, chance, actor_id)
    return partial(world.put_in, actor_id, container, thing, chance.choice([None, 1]))


def _take_out(world: World, chance: random.Random, actor_id: str) -> Act:
    container = _container(world, chance, actor_id)
    return partial(world.take_out, actor_id, container, _pick_one(chance, world.contents(actor_id, container))["id"])


def _give(world: World, chance: random.Random, actor_id: str) -> Act:
    other = _pick_one(chance, world.look(actor_id)["players"])
    return partial(world.give, actor_id, other["id"], _carried(world, chance, actor_id))


def _wear(world: World, chance: random.Random, actor_id: str) -> Act:
    return partial(world.wear, actor_id, _carried(world, chance, actor_id))


def _wield(world: World, chance: random.Random, actor_id: str) -> Act:
    return partial(world.wield, actor_id, _carried(world, chance, actor_id), chance.choice(["left", "right"]))


def _remove(world: World, chance: random.Random, actor_id: str) -> Act:
    character = world.character(actor_id)
    return partial(world.remove, actor_id, _pick_one(chance, [*character["armor"], *character["weapons"]])["id"])


def _buy(world: World, chance: random.Random, actor_id: str) -> Act:
    keeper = _keeper(world, actor_id)
    return partial(world.buy, actor_id, keeper, _carried(world, chance, keeper))


def _sell(world: World, chance: random.Random, actor_id: str) -> Act:
    return partial(world.sell, actor_id, _keeper(world, actor_id), _carried(world, chance, actor_id))


def _split(world: World, chance: random.Random, actor_id: str) -> Act:
    stacks = [entry for entry in world.inventory(actor_id) if entry["qty"] > 1]
    return partial(world.split, actor_id, _pick_one(chance, stacks)["id"], 1)


def _say(world: World, chance: random.Random, actor_id: str) -> Act:
    return partial(world.say, actor_id, f"{chance.random()}")


CHOICES: list[Choice] = [_move, _pick_up, _pick_up, _drop, _put_in, _put_in, _take_out, _give, _wear, _wield, _remove]
CHOICES += [_buy, _sell, _split, _say]


# ---- what must be true ----


def settle(db: Db) -> Counter[str]:
    """End the open transactions of killed workers, as the background job does."""
    return Counter({"open transactions": end_abandoned(db)})


def progress(db: Db) -> int:
    """Return the number of acknowledged actions."""
    return db["proof"].count_documents({"acknowledged": True})


def check(db: Db) -> dict[str, str]:
    """Return what breaks each promise; an empty string if the promise holds.

    Documents are read with the plain driver, not by the code under test.
    """
    items = {item["_id"]: item for item in db[ITEMS].find()}
    people = list(db[CHARACTERS].find())
    rooms = {room["_id"]: room for room in db[LOCATIONS].find()}
    made = db["proof"].find_one({"_id": "made"}) or {}
    pieces, gold = sum(item["qty"] for item in items.values()), sum(person["gold"] for person in people)
    return {
        "each thing is in exactly one place": _misplaced(items, people, rooms),
        "no piece is made or lost": "" if pieces == made["qty"] else f"{pieces} of {made['qty']}",
        "gold is conserved": "" if gold == made["gold"] else f"{gold} of {made['gold']}",
        "everybody is in exactly one room": _homeless(people, rooms),
        "what is worn is carried": _not_carried(people),
        "no container holds itself": ", ".join(item for item in items if _holds_itself(items, item)),
        "find_problems is empty": "; ".join(str(problem) for problem in list(find_problems(db))[:3]),
    }


def _misplaced(items: dict[str, Document], people: list[Document], rooms: dict[str, Document]) -> str:
    listed = Counter(entry["id"] for person in people for entry in all_entries(person["inventory"]))
    listed.update(entry["id"] for room in rooms.values() for entry in room["inventory"])
    wrong = [item_id for item_id, times in listed.items() if times > 1 or item_id not in items]
    carried = {entry["id"]: person["_id"] for person in people for entry in person["inventory"]}
    for item in items.values():
        kind, holder_id = item["holder"]["kind"], item["holder"]["id"]
        if (carried.get(item["_id"]) == holder_id) != (kind == "character"):
            wrong.append(item["_id"])
    return ", ".join(wrong[:5])


def _homeless(people: list[Document], rooms: dict[str, Document]) -> str:
    there = Counter(person["location"]["id"] for person in people)
    wrong = [name for name, room in rooms.items() if room["player_count"] != there[name]]
    seen = Counter(person["id"] for room in rooms.values() for person in room["players"])
    wrong += [item_id for item_id, times in seen.items() if times > 1]
    return ", ".join([*wrong, *(there.keys() - rooms.keys())][:5])


def _not_carried(people: list[Document]) -> str:
    wrong = [
        person["_id"] for person in people if rules.in_use(person) - {entry["id"] for entry in person["inventory"]}
    ]
    return ", ".join(wrong[:5])


def _holds_itself(items: dict[str, Document], item_id: str) -> bool:
    seen = {item_id}
    holder = items[item_id]["holder"]
    while holder["kind"] == "item":
        if holder["id"] in seen:
            return True
        seen.add(holder["id"])
        holder = items[holder["id"]]["holder"]
    return False
