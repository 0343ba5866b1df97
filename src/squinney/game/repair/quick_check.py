"""Which documents of a large world are plainly right, some hundred at a time by a handful of queries.

Nothing is called wrong here: what does not fit, or is not plain to see, `audit` looks at by itself and with care.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from squinney.game import queries, rules
from squinney.game.documents import CHARACTERS, DEEPEST, ITEMS, LOCATIONS, NAMES, HolderKind
from squinney.game.records import by_holder, nested
from squinney.mongo.problems import MALFORMED
from squinney.mongo.schema import Db, Document

Fits = Callable[[Document], bool]
HOLDERS = {"character": CHARACTERS, "location": LOCATIONS, "item": ITEMS}
# What is read of each document: a character's copy of a crowded room alone has ten times as much.
WANTED: dict[str, Document] = {
    CHARACTERS: {"seen": 0, "location.players": 0, "location.inventory": 0, "location.description": 0},
    ITEMS: {"description": 0},
    LOCATIONS: {"description": 0, "exits": 0},
}


def fitting(db: Db, collection: str, some: Sequence[Document]) -> Fits:
    """Whether one of these documents is plainly right."""
    try:
        fits = {CHARACTERS: _characters, ITEMS: _things, LOCATIONS: _rooms}[collection](db, some)
    except MALFORMED:
        return lambda document: False

    def plainly(document: Document) -> bool:
        try:
            return fits(document)
        except MALFORMED:
            return False

    return plainly


def shape_of(entries: Any) -> list[Any]:
    """What of a list must be right, in no order."""
    return sorted(
        (one["id"], one["qty"], one["weight"], one.get("count"), shape_of(one.get("inventory", ()))) for one in entries
    )


def _characters(db: Db, some: Sequence[Document]) -> Fits:
    held = by_holder(_held(db, "character", [one["_id"] for one in some]))
    inside = _inside(db, [one for own in held.values() for one in own])
    rooms = _there(db, LOCATIONS, (one["location"]["id"] for one in some))
    named = db[NAMES].find({"_id": {"$in": [one["name"].casefold() for one in some]}})
    names = {one["_id"]: one["character_id"] for one in named}

    def fits(who: Document) -> bool:
        own = held[who["_id"]]
        right = [rules.entry_of(one, nested(one["_id"], inside) if _is_bag(one) else None) for one in own]
        return (
            shape_of(who["inventory"]) == shape_of(right)
            and who["load"] == sum(entry["weight"] for entry in right)
            and who["things"] == len(list(rules.walk(right)))
            and rules.in_use(who) <= {one["_id"] for one in own}
            and who["location"]["id"] in rooms
            and names.get(who["name"].casefold()) == who["_id"]
        )

    return fits


def _rooms(db: Db, some: Sequence[Document]) -> Fits:
    ids = [room["_id"] for room in some]
    things = by_holder(_held(db, "location", ids))
    people: defaultdict[Any, set[Any]] = defaultdict(set)
    for one in db[CHARACTERS].find({"location.id": {"$in": ids}, "txn_stub": None}, {"location.id": 1}):
        people[one["location"]["id"]].add(one["_id"])

    def fits(room: Document) -> bool:
        here, own = people[room["_id"]], {one["_id"]: one for one in things[room["_id"]]}
        listed = [person["id"] for person in room["players"]]
        return (
            (room["player_count"], room["thing_count"]) == (len(here), len(own))
            and len(set(listed)) == len(listed)
            and here.issuperset(listed)
            and shape_of(room["inventory"]) == shape_of(rules.entry_of(own[one["id"]]) for one in room["inventory"])
        )

    return fits


def _things(db: Db, some: Sequence[Document]) -> Fits:
    places = {kind: [one["holder"]["id"] for one in some if one["holder"]["kind"] == kind] for kind in HOLDERS}
    there = {kind: _there(db, HOLDERS[kind], places[kind]) for kind in ("character", "location")}
    around = _around(db, places["item"])
    inside = by_holder(_held(db, "item", [one["_id"] for one in some if _is_bag(one)]))

    def is_there(place: Document) -> bool:
        return place["kind"] == "void" or place["id"] in (around if place["kind"] == "item" else there[place["kind"]])

    def fits(item: Document) -> bool:
        own = inside[item["_id"]]
        return is_there(item["holder"]) and (
            not _is_bag(item)
            or (
                _leads_out(item["holder"], around)
                and item["load"] == sum(rules.weight_of(one) for one in own)
                and (item["count"], item["things"]) == (len(own), sum(rules.size_of(one) for one in own))
            )
        )

    return fits


def _around(db: Db, ids: list[Any]) -> dict[Any, Document]:
    """The holders of these bags, and of the bags around them."""
    holders: dict[Any, Document] = {}
    for _ in range(DEEPEST + 1):
        if not ids:
            break
        bags = db[ITEMS].find({"_id": {"$in": ids}, "kind": "container"}, {"holder": 1})
        found = {bag["_id"]: bag["holder"] for bag in bags}
        holders |= found
        ids = [one["id"] for one in found.values() if one["kind"] == "item" and one["id"] not in holders]
    return holders


def _leads_out(place: Document | None, around: Mapping[Any, Document]) -> bool:
    """Whether it is plain that bags do not lie in each other."""
    for _ in range(DEEPEST + 1):
        if place is None or place["kind"] != "item":
            return place is not None
        place = around.get(place["id"])
    return False


def _is_bag(item: Document) -> bool:
    return bool(item["kind"] == "container")


def _held(db: Db, kind: HolderKind, ids: list[Any]) -> list[Document]:
    return list(db[ITEMS].find(queries.held_by(kind, ids), {"description": 0})) if ids else []


def _inside(db: Db, items: Sequence[Document]) -> defaultdict[Any, list[Document]]:
    """What lies in those of them that are bags, and in bags in them."""
    found: list[Document] = []
    level: Sequence[Document] = items
    for _ in range(DEEPEST + 1):
        level = _held(db, "item", [one["_id"] for one in level if _is_bag(one)])
        found += level
    return by_holder(found)


def _there(db: Db, collection: str, ids: Iterable[Any]) -> set[Any]:
    return {one["_id"] for one in db[collection].find({"_id": {"$in": list(ids)}}, {"_id": 1})}
