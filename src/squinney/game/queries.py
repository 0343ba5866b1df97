"""The queries of the world."""

from __future__ import annotations

from squinney.game.documents import CHARACTERS, EVENTS, ITEMS, LOCATIONS, NAMES, HolderKind
from squinney.mongo.queries import Pipeline, Query, declared
from squinney.mongo.schema import Document

# Only by id, for which the server has a fast path.
CHARACTER = Query(
    "game.character", CHARACTERS, where=lambda character_id: {"_id": character_id}, example={"character_id": "c"}
)
ITEM = Query("game.item", ITEMS, where=lambda item_id: {"_id": item_id}, example={"item_id": "i"})
LOCATION = Query(
    "game.location", LOCATIONS, where=lambda location_id: {"_id": location_id}, example={"location_id": "l"}
)
NAME = Query("game.name", NAMES, where=lambda name: {"_id": name}, example={"name": "ann"})
SOME_NAMES = Query(
    "game.some-names",
    NAMES,
    where=lambda names: {"_id": {"$in": names}},
    example={"names": ["ann", "bob"]},
    routing="few",
    reason="the names of the characters in one batch of rooms that are loaded",
)
SOME_ITEMS = Query(
    "game.some-items",
    ITEMS,
    where=lambda item_ids: {"_id": {"$in": item_ids}},
    example={"item_ids": ["i", "j"]},
    routing="few",
    reason="the things that a character wears and wields are on several shards",
)
SOME_CHARACTERS = Query(
    "game.some-characters",
    CHARACTERS,
    where=lambda character_ids: {"_id": {"$in": character_ids}},
    example={"character_ids": ["c", "d"]},
    routing="few",
    reason="monsters are on all shards; a batch is moved at a time",
)
SOME_LOCATIONS = Query(
    "game.some-locations",
    LOCATIONS,
    where=lambda location_ids: {"_id": {"$in": location_ids}},
    example={"location_ids": ["l", "m"]},
    routing="few",
    reason="the rooms of a map are on several shards",
)


def held_by(kind: HolderKind, holder_ids: list[str | None]) -> Document:
    """Return the filter for the things that these holders hold directly."""
    return {"holder.id": {"$in": holder_ids}, "holder.kind": kind}


HELD = Query(
    "game.held",
    ITEMS,
    where=held_by,
    example={"kind": "item", "holder_ids": ["i"]},
    routing="broadcast",
    reason="things are on all shards; the contents of a container are bounded",
)
THINGS = Query(
    "game.things",
    ITEMS,
    where=lambda kind, holder_id: {"holder.id": holder_id, "holder.kind": kind},
    example={"kind": "location", "holder_id": "l"},
    sort=[("_id", 1)],
    routing="broadcast",
    reason="things are on all shards; they are listed a page at a time",
)
PEOPLE = Query(
    "game.people",
    CHARACTERS,
    where=lambda location_id: {"location.id": location_id},
    example={"location_id": "l"},
    sort=[("_id", 1)],
    routing="broadcast",
    reason="the characters in a room are on all shards; they are listed a page at a time",
)
OWNED = Query(
    "game.owned",
    CHARACTERS,
    where=lambda owner: {"owner": owner},
    example={"owner": "p"},
    sort=[("_id", 1)],
    routing="broadcast",
    reason="an owner's characters are on all shards; they are listed a page at a time",
)
LOCATIONS_ALL = Query(
    "game.locations",
    LOCATIONS,
    where=dict,
    sort=[("_id", 1)],
    routing="broadcast",
    reason="lists rooms of all shards, a page at a time",
)
GOALS = Query(
    "game.goals",
    ITEMS,
    where=lambda: {"is_goal": True},
    sort=[("_id", 1)],
    routing="broadcast",
    reason="a world has a handful of goals",
)
STARTS = Query(
    "game.starts",
    LOCATIONS,
    where=lambda: {"is_start": True},
    sort=[("_id", 1)],
    routing="broadcast",
    reason="a world has a handful of rooms in which new characters start",
)
RECENT = Query(
    "game.recent",
    EVENTS,
    where=lambda location_id: {"location_id": location_id},
    example={"location_id": "l"},
    sort=[("at", -1), ("_id", -1)],
    routing="broadcast",
    reason="events are spread so that a crowded room does not load a single shard; only the newest are read",
)
# Only ids are read, which the index has: in a large world all are counted, and many are skipped.
WANDERERS = Query(
    "game.wanderers",
    CHARACTERS,
    where=lambda: {"wanders": True},
    sort=[("_id", 1)],
    routing="broadcast",
    reason="monsters are on all shards; a batch is moved at a time",
)
# Players whose copy of the room is older than the room.
OUTDATED_COPIES = Query(
    "game.outdated-copies",
    CHARACTERS,
    where=lambda location_id, version: {
        "location.id": location_id,
        "kind": "player",
        "location.version": {"$lt": version},
    },
    example={"location_id": "l", "version": 1},
    routing="broadcast",
    reason="the players in a room are on all shards",
)
GOLD = Pipeline(
    "game.gold",
    CHARACTERS,
    stages=lambda: [{"$match": {"_id": {"$gte": ""}}}, {"$group": {"_id": None, "gold": {"$sum": "$gold"}}}],
    routing="broadcast",
    reason="sums the gold of every character",
)


def _gold_balance() -> list[Document]:
    """Compare all gold with the gold that was minted."""
    sums = {"gold": {"$sum": "$gold"}, "minted": {"$sum": "$minted"}}
    return [
        {"$match": {"_id": {"$gte": ""}}},
        {"$group": {"_id": None, **sums}},
        {"$match": {"$expr": {"$ne": ["$gold", "$minted"]}}},
    ]


GOLD_BALANCE = Pipeline(
    "game.gold-balance",
    CHARACTERS,
    stages=_gold_balance,
    routing="broadcast",
    reason="find_problems() reads everything",
)

QUERIES = declared(globals())
