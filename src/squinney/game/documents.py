"""The world's shapes, limits and collections.

A thing is one document, and its `holder` says where it is. What rooms, characters and containers list are copies, which
change in the same run as the holder.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, NotRequired, TypedDict

from squinney.mongo.schema import Collection, Index

CHARACTERS, ITEMS, LOCATIONS = "game.characters", "game.items", "game.locations"
NAMES, EVENTS = "game.names", "game.events"

# What a room lists; the rest is only counted there, and paged through by `people` and `things`.
MOST_LISTED = 50
MOST_CARRIED = 200  # by one character, with all that is in their bags
MOST_IN_CONTAINER = 50
DEEPEST = 3  # bags in bags
MOST_SEEN = 500  # rooms that a character remembers
MOST_EXITS = 20
MOST_GOLD = 10**12
MOST_QTY = 10**6
MOST_WEIGHT = 10**6
MOST_INTRINSIC = 25
MOST_VITAL = 10_000
WEIGHT_PER_STRENGTH = 15
EVENT_DAYS = 2
WORDS_COUNT = 5  # acts that what is said counts for: everybody there has to read it

HolderKind = Literal["character", "location", "item", "void"]
REGIONS = ("head", "hands", "feet", "body")
HANDS = ("left", "right", "both")
INTRINSICS = ("strength", "dexterity", "intelligence", "charisma")


class Holder(TypedDict):
    """Where a thing is: with a character, in a room, in another thing, or nowhere in the world."""

    kind: HolderKind
    id: str | None


class Entry(TypedDict):
    """A thing as its holder lists it; `weight` is that of all pieces with what is in them."""

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
    """A thing, or a stack of `qty` that are alike. `load`, `count` and `things` are of what a container holds: its
    weight, how many lie directly in it, and how many at any depth."""

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
    txns: list[Any]
    stack: NotRequired[str]
    region: NotRequired[str]
    hands: NotRequired[int]
    heals: NotRequired[int]
    mana: NotRequired[int]
    capacity: NotRequired[int]
    load: NotRequired[int]
    count: NotRequired[int]
    things: NotRequired[int]


class Person(TypedDict):
    """A character as a room lists them."""

    id: str
    name: str
    kind: str


class Location(TypedDict):
    """A room. `players` and `inventory` list the first fifty; `player_count` and `thing_count` count all."""

    _id: str
    name: str
    description: str
    exits: dict[str, str]
    players: list[Person]
    player_count: int
    inventory: list[Entry]
    thing_count: int
    version: int
    txns: list[Any]
    is_start: NotRequired[bool]


class Character(TypedDict):
    """A character: all that a screen shows of them, with a copy of the room they are in."""

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
    txns: list[Any]
    created_at: datetime
    pace: NotRequired[dict[str, Any]]
    shop: NotRequired[dict[str, int]]
    wanders: NotRequired[bool]


class Event(TypedDict):
    """What happened in a room; what every action returns."""

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
            Index([("location.id", 1), ("_id", 1)], why="who is in a room"),
            Index([("owner", 1), ("_id", 1)], why="owned_by(owner)"),
            Index([("wanders", 1), ("_id", 1)], partial={"wanders": True}, why="monsters that walk by themselves"),
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
        indexes=[Index([("holder.id", 1), ("holder.kind", 1), ("_id", 1)], why="what somebody or something holds")],
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
        indexes=[Index([("is_start", 1), ("_id", 1)], partial={"is_start": True}, why="where new characters begin")],
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
            Index([("at", 1)], expire_after_seconds=EVENT_DAYS * 86_400, why="events are news, not a record"),
        ],
        shard_key={"_id": "hashed"},
    ),
]
