"""Which documents of a large world are plainly right, some hundred at a time by a handful of queries.

Nothing is called wrong here: what does not fit, or is not plain to see, `repair` looks at by itself and with care.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from squinney.game import queries, rules
from squinney.game.documents import CHARACTERS, ITEMS, LOCATIONS, NAMES
from squinney.mongo.problems import MALFORMED
from squinney.mongo.schema import Db, Document

Fits = Callable[[Document], bool]
HOLDERS = {"character": CHARACTERS, "location": LOCATIONS, "item": ITEMS}


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
    held = _by_holder(db[ITEMS].find(queries.held_by("character", [one["_id"] for one in some])))
    rooms = _there(db, LOCATIONS, (one["location"]["id"] for one in some))
    named = db[NAMES].find({"_id": {"$in": [one["name"].casefold() for one in some]}})
    names = {one["_id"]: one["character_id"] for one in named}

    def fits(who: Document) -> bool:
        own = held[who["_id"]]
        return (
            not any(one["kind"] == "container" for one in own)
            and shape_of(who["inventory"]) == shape_of(rules.entry_of(one) for one in own)
            and (who["load"], who["things"]) == (sum(rules.weight_of(one) for one in own), len(own))
            and rules.in_use(who) <= {one["_id"] for one in own}
            and who["location"]["id"] in rooms
            and names.get(who["name"].casefold()) == who["_id"]
        )

    return fits


def _rooms(db: Db, some: Sequence[Document]) -> Fits:
    ids = [room["_id"] for room in some]
    things = _by_holder(db[ITEMS].find(queries.held_by("location", list(ids))))
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
    there = {
        kind: _there(db, name, (one["holder"]["id"] for one in some if one["holder"]["kind"] == kind))
        for kind, name in HOLDERS.items()
        if kind != "item"
    }

    def fits(item: Document) -> bool:
        place = item["holder"]
        is_there = place["kind"] == "void" or place["id"] in there.get(place["kind"], ())
        return item["kind"] != "container" and is_there

    return fits


def _there(db: Db, collection: str, ids: Iterable[Any]) -> set[Any]:
    return {one["_id"] for one in db[collection].find({"_id": {"$in": list(ids)}}, {"_id": 1})}


def _by_holder(items: Iterable[Document]) -> defaultdict[Any, list[Document]]:
    held: defaultdict[Any, list[Document]] = defaultdict(list)
    for item in items:
        held[item["holder"]["id"]].append(item)
    return held
