"""Find the documents that are certainly correct, a few hundred at a time with a handful of queries.

A document that fails here is not a problem yet: `audit` then checks it separately, with care for running actions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from squinney.game import queries, rules
from squinney.game.documents import CHARACTERS, DEEPEST, ITEMS, LOCATIONS, NAMES, HolderKind
from squinney.game.records import by_holder, nested_entries
from squinney.mongo.problems import MALFORMED
from squinney.mongo.schema import Db, Document

IsCorrect = Callable[[Document], bool]
HOLDERS = {"character": CHARACTERS, "location": LOCATIONS, "item": ITEMS}
# Large fields are not read: a character's copy of a crowded room is ten times as large as the rest.
READ_FIELDS: dict[str, Document] = {
    CHARACTERS: {"seen": 0, "location.players": 0, "location.inventory": 0, "location.description": 0},
    ITEMS: {"description": 0},
    LOCATIONS: {"description": 0, "exits": 0},
}


def quick_check(db: Db, collection: str, batch: Sequence[Document]) -> IsCorrect:
    """Read what a batch of documents depends on, and return a function that says if one of them is correct."""
    try:
        is_correct = {CHARACTERS: _characters, ITEMS: _things, LOCATIONS: _rooms}[collection](db, batch)
    except MALFORMED:
        return lambda document: False

    def is_readable_and_correct(document: Document) -> bool:
        try:
            return is_correct(document)
        except MALFORMED:
            return False

    return is_readable_and_correct


def compared_fields(entries: Any) -> list[Any]:
    """Return the fields of a list's entries that must be correct, in an order that does not depend on the list's."""
    return sorted(
        (one["id"], one["qty"], one["weight"], one.get("count"), compared_fields(one.get("inventory", ())))
        for one in entries
    )


def _characters(db: Db, batch: Sequence[Document]) -> IsCorrect:
    held = by_holder(_held(db, "character", [one["_id"] for one in batch]))
    contents = _contents(db, [one for own in held.values() for one in own])
    rooms = _existing(db, LOCATIONS, (one["location"]["id"] for one in batch))
    named = db[NAMES].find({"_id": {"$in": [one["name"].casefold() for one in batch]}})
    names = {one["_id"]: one["character_id"] for one in named}

    def is_correct(character: Document) -> bool:
        own = held[character["_id"]]
        entries = [
            rules.entry_of(one, nested_entries(one["_id"], contents) if _is_container(one) else None) for one in own
        ]
        return (
            compared_fields(character["inventory"]) == compared_fields(entries)
            and character["load"] == sum(entry["weight"] for entry in entries)
            and character["things"] == len(list(rules.walk(entries)))
            and rules.in_use(character) <= {one["_id"] for one in own}
            and character["location"]["id"] in rooms
            and names.get(character["name"].casefold()) == character["_id"]
        )

    return is_correct


def _rooms(db: Db, batch: Sequence[Document]) -> IsCorrect:
    ids = [room["_id"] for room in batch]
    things = by_holder(_held(db, "location", ids))
    people: defaultdict[Any, set[Any]] = defaultdict(set)
    for one in db[CHARACTERS].find({"location.id": {"$in": ids}, "txn_stub": None}, {"location.id": 1}):
        people[one["location"]["id"]].add(one["_id"])

    def is_correct(room: Document) -> bool:
        here, own = people[room["_id"]], {one["_id"]: one for one in things[room["_id"]]}
        listed = [person["id"] for person in room["players"]]
        entries = [rules.entry_of(own[one["id"]]) for one in room["inventory"]]
        return (
            (room["player_count"], room["thing_count"]) == (len(here), len(own))
            and len(set(listed)) == len(listed)
            and here.issuperset(listed)
            and compared_fields(room["inventory"]) == compared_fields(entries)
        )

    return is_correct


def _things(db: Db, batch: Sequence[Document]) -> IsCorrect:
    holder_ids = {kind: [one["holder"]["id"] for one in batch if one["holder"]["kind"] == kind] for kind in HOLDERS}
    existing = {kind: _existing(db, HOLDERS[kind], holder_ids[kind]) for kind in ("character", "location")}
    containers = _containers_around(db, holder_ids["item"])
    contents = by_holder(_held(db, "item", [one["_id"] for one in batch if _is_container(one)]))

    def exists(holder: Document) -> bool:
        kind = holder["kind"]
        return kind == "void" or holder["id"] in (containers if kind == "item" else existing[kind])

    def is_correct(item: Document) -> bool:
        own = contents[item["_id"]]
        return exists(item["holder"]) and (
            not _is_container(item)
            or (
                _is_not_in_itself(item["holder"], containers)
                and item["load"] == sum(rules.weight_of(one) for one in own)
                and (item["count"], item["things"]) == (len(own), sum(rules.size_of(one) for one in own))
            )
        )

    return is_correct


def _containers_around(db: Db, ids: list[Any]) -> dict[Any, Document]:
    """Return the holders of these containers and of all containers around them, by the container's id."""
    holders: dict[Any, Document] = {}
    for _ in range(DEEPEST + 1):
        if not ids:
            break
        containers = db[ITEMS].find({"_id": {"$in": ids}, "kind": "container"}, {"holder": 1})
        found = {container["_id"]: container["holder"] for container in containers}
        holders |= found
        ids = [one["id"] for one in found.values() if one["kind"] == "item" and one["id"] not in holders]
    return holders


def _is_not_in_itself(holder: Document | None, containers: Mapping[Any, Document]) -> bool:
    """Return True if the chain of containers certainly ends with a character, a room or the void."""
    for _ in range(DEEPEST + 1):
        if holder is None or holder["kind"] != "item":
            return holder is not None
        holder = containers.get(holder["id"])
    return False


def _is_container(item: Document) -> bool:
    return bool(item["kind"] == "container")


def _held(db: Db, kind: HolderKind, ids: list[Any]) -> list[Document]:
    return list(db[ITEMS].find(queries.held_by(kind, ids), {"description": 0})) if ids else []


def _contents(db: Db, items: Sequence[Document]) -> defaultdict[Any, list[Document]]:
    """Return the contents, at any depth, of the containers among these things, grouped by holder."""
    found: list[Document] = []
    level: Sequence[Document] = items
    for _ in range(DEEPEST + 1):
        level = _held(db, "item", [one["_id"] for one in level if _is_container(one)])
        found += level
    return by_holder(found)


def _existing(db: Db, collection: str, ids: Iterable[Any]) -> set[Any]:
    return {one["_id"] for one in db[collection].find({"_id": {"$in": list(ids)}}, {"_id": 1})}
