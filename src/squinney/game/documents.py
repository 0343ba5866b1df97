"""The world's document types, limits and collections.

A thing is one document, and its `holder` is the record of where it is. Rooms, characters and containers have lists and
counts of their things; these are copies, which change in the same run as the holder.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, NotRequired, TypedDict

from squinney.mongo.schema import Collection, Index

CHARACTERS, ITEMS, LOCATIONS = "game.characters", "game.items", "game.locations"
NAMES, EVENTS = "game.names", "game.events"

# Entries in a room's list of people and in its list of things. `people` and `things` page through the others.
MAX_LISTED = 50
MAX_CARRIED = 200  # by one character, including everything inside containers
MAX_IN_CONTAINER = 50
MAX_CONTAINER_DEPTH = 3  # levels of containers inside containers
MAX_SEEN = 500  # rooms on a character's map
MAX_EXITS = 20
MAX_GOLD = 10**12
MAX_QTY = 10**6
MAX_WEIGHT = 10**6
MAX_INTRINSIC = 25
MAX_VITAL = 10_000
WEIGHT_PER_STRENGTH = 15
EVENT_DAYS = 2
ACTS_PER_SAY = 5  # saying something costs more than other acts: everybody in the room has to read it

HolderKind = Literal["character", "location", "item", "void"]
REGIONS = ("head", "hands", "feet", "body")
HANDS = ("left", "right", "both")
INTRINSICS = ("strength", "dexterity", "intelligence", "charisma")


class Holder(TypedDict):
    """Where a thing is: with a character, in a room, in a container, or in the void, outside the world."""

    kind: HolderKind
    id: str | None


class Entry(TypedDict):
    """The entry by which a holder lists a thing; `weight` is the weight of all pieces with their contents."""

    id: str
    name: str
    kind: str
    qty: int
    bonus: int
    price: int
    weight: int
    stack: NotRequired[str]
    region: NotRequired[str]
    hands: NotRequired[int]
    count: NotRequired[int]
    inventory: NotRequired[list[Entry]]


class Item(TypedDict):
    """A thing, or a stack of `qty` equal things. A container has the totals of its contents: `load` (weight), `count`
    (things directly inside) and `things` (things at any depth). A container that `accepts` only things of certain names
    is a goal of the world: with all of them in it, `completed` is what happens."""

    _id: str
    kind: str
    schema_version: int
    name: str
    description: str
    bonus: int
    weight: int
    price: int
    qty: int
    holder: Holder
    version: int
    stack: NotRequired[str]
    region: NotRequired[str]
    hands: NotRequired[int]
    heals: NotRequired[int]
    mana: NotRequired[int]
    capacity: NotRequired[int]
    load: NotRequired[int]
    count: NotRequired[int]
    things: NotRequired[int]
    accepts: NotRequired[list[str]]
    completed: NotRequired[str]
    is_goal: NotRequired[bool]


class Goal(TypedDict):
    """A container that waits for things: how many it `wants` and `has`, and what one sees once it has them all."""

    id: str
    name: str
    wants: int
    has: int
    completed: str


class Person(TypedDict):
    """The entry by which a room lists a character."""

    id: str
    name: str
    kind: str


class Location(TypedDict):
    """A room. `players` and `inventory` list up to fifty each; `player_count` and `thing_count` count all."""

    _id: str
    name: str
    description: str
    exits: dict[str, str]
    players: list[Person]
    player_count: int
    inventory: list[Entry]
    thing_count: int
    version: int
    is_start: NotRequired[bool]


class Character(TypedDict):
    """A character: everything that a client shows, including a copy of the room."""

    _id: str
    kind: str
    schema_version: int
    name: str
    owner: str | None
    character: dict[str, Any]
    gold: int
    minted: int
    armor: list[dict[str, str]]
    weapons: list[dict[str, str]]
    inventory: list[Entry]
    load: int
    things: int
    location: dict[str, Any]
    seen: list[str]
    version: int
    created_at: datetime
    pace: NotRequired[dict[str, Any]]
    shop: NotRequired[dict[str, int]]
    wanders: NotRequired[bool]


class Event(TypedDict):
    """Something that happened in a room; every action returns one."""

    _id: str
    kind: str
    location_id: str
    character_id: str
    name: str
    text: str
    at: datetime
    item_id: NotRequired[str]
    other_id: NotRequired[str]


_COUNT = {"bsonType": ["int", "long"], "minimum": 0}
_HOLDER = {
    "bsonType": "object",
    "required": ["kind", "id"],
    "properties": {"kind": {"enum": ["character", "location", "item", "void"]}},
}

COLLECTIONS = [
    Collection(
        CHARACTERS,
        indexes=[
            Index([("location.id", 1), ("_id", 1)], why="the characters in a room"),
            Index([("owner", 1), ("_id", 1)], why="owned_by(owner)"),
            Index([("wanders", 1), ("_id", 1)], partial={"wanders": True}, why="monsters that the job moves"),
        ],
        shard_key={"_id": "hashed"},
        validator={
            "$jsonSchema": {
                "required": ["name", "gold", "location", "inventory", "version"],
                "properties": {"gold": _COUNT, "load": _COUNT, "inventory": {"bsonType": "array"}},
            }
        },
    ),
    Collection(
        ITEMS,
        indexes=[
            Index([("holder.id", 1), ("holder.kind", 1), ("_id", 1)], why="the things of a holder"),
            Index(
                [("is_goal", 1), ("_id", 1)], partial={"is_goal": True}, why="goals(): containers that wait for things"
            ),
        ],
        shard_key={"_id": "hashed"},
        validator={
            "$jsonSchema": {
                "required": ["name", "holder", "qty", "version"],
                "properties": {"qty": {**_COUNT, "minimum": 1}, "holder": _HOLDER, "load": _COUNT, "count": _COUNT},
            }
        },
    ),
    Collection(
        LOCATIONS,
        indexes=[Index([("is_start", 1), ("_id", 1)], partial={"is_start": True}, why="start(), for new characters")],
        shard_key={"_id": "hashed"},
        validator={
            "$jsonSchema": {
                "required": ["exits", "players", "inventory", "version"],
                "properties": {"player_count": _COUNT, "thing_count": _COUNT},
            }
        },
    ),
    Collection(NAMES, shard_key={"_id": "hashed"}),
    Collection(
        EVENTS,
        indexes=[
            Index([("location_id", 1), ("at", -1), ("_id", -1)], why="recent(location), newest first"),
            Index([("at", 1)], expire_after_seconds=EVENT_DAYS * 86_400, why="events are needed for two days only"),
        ],
        shard_key={"_id": "hashed"},
    ),
]
