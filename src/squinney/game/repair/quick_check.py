"""Find the documents that are certainly correct, a few hundred at a time with a handful of queries.

A document that fails here is not a problem yet: `audit` then checks it separately, with care for running actions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from squinney.game import queries, rules
from squinney.game.character_names import name_keys
from squinney.game.documents import CHARACTERS, ITEMS, LOCATIONS, MAX_CONTAINER_DEPTH, NAMES, HolderKind
from squinney.game.entries import all_entries, by_holder, entry_of, nested_entries, size_of, weight_of
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
        (entry["id"], entry["qty"], entry["weight"], entry.get("count"), compared_fields(entry.get("inventory", ())))
        for entry in entries
    )


def _characters(db: Db, batch: Sequence[Document]) -> IsCorrect:
    held = by_holder(_held(db, "character", [document["_id"] for document in batch]))
    contents = _contents(db, [document for own in held.values() for document in own])
    rooms = _existing(db, LOCATIONS, (document["location"]["id"] for document in batch))
    named = db[NAMES].find({"_id": {"$in": [key for document in batch for key in name_keys(document["name"])]}})
    names = {document["_id"]: document["character_id"] for document in named}

    def is_correct(character: Document) -> bool:
        own = held[character["_id"]]
        entries = [
            entry_of(thing, nested_entries(thing["_id"], contents) if _is_container(thing) else None) for thing in own
        ]
        return (
            compared_fields(character["inventory"]) == compared_fields(entries)
            and character["load"] == sum(entry["weight"] for entry in entries)
            and character["things"] == len(list(all_entries(entries)))
            and rules.in_use(character) <= {thing["_id"] for thing in own}
            and character["location"]["id"] in rooms
            and character["_id"] in {names.get(key) for key in name_keys(character["name"])}
        )

    return is_correct


def _rooms(db: Db, batch: Sequence[Document]) -> IsCorrect:
    ids = [room["_id"] for room in batch]
    things = by_holder(_held(db, "location", ids))
    people: defaultdict[Any, set[Any]] = defaultdict(set)
    for entry in db[CHARACTERS].find({"location.id": {"$in": ids}}, {"location.id": 1}):
        people[entry["location"]["id"]].add(entry["_id"])

    def is_correct(room: Document) -> bool:
        here, own = people[room["_id"]], {thing["_id"]: thing for thing in things[room["_id"]]}
        listed = [person["id"] for person in room["players"]]
        entries = [entry_of(own[thing["id"]]) for thing in room["inventory"]]
        return (
            (room["player_count"], room["thing_count"]) == (len(here), len(own))
            and len(set(listed)) == len(listed)
            and here.issuperset(listed)
            and compared_fields(room["inventory"]) == compared_fields(entries)
        )

    return is_correct


def _things(db: Db, batch: Sequence[Document]) -> IsCorrect:
    holder_ids = {
        kind: [thing["holder"]["id"] for thing in batch if thing["holder"]["kind"] == kind] for kind in HOLDERS
    }
    existing = {kind: _existing(db, HOLDERS[kind], holder_ids[kind]) for kind in ("character", "location")}
    containers = _containers_around(db, holder_ids["item"])
    contents = by_holder(_held(db, "item", [thing["_id"] for thing in batch if _is_container(thing)]))

    def exists(holder: Document) -> bool:
        kind = holder["kind"]
        return kind == "void" or holder["id"] in (containers if kind == "item" else existing[kind])

    def is_correct(item: Document) -> bool:
        own = contents[item["_id"]]
        return exists(item["holder"]) and (
            not _is_container(item)
            or (
                # guard: containers inside each other are not taken for correct
                _is_not_in_itself(item["holder"], containers)
                and item["load"] == sum(weight_of(thing) for thing in own)
                # guard: a container's counts are checked
                and (item["count"], item["things"]) == (len(own), sum(size_of(thing) for thing in own))
            )
        )

    return is_correct


def _containers_around(db: Db, ids: list[Any]) -> dict[Any, Document]:
    """Return the holders of these containers and of all containers around them, by the container's id."""
    holders: dict[Any, Document] = {}
    for _ in range(MAX_CONTAINER_DEPTH + 1):
        if not ids:
            break
        containers = db[ITEMS].find({"_id": {"$in": ids}, "kind": "container"}, {"holder": 1})
        around = {container["_id"]: container["holder"] for container in containers}
        holders |= around
        ids = [holder["id"] for holder in around.values() if holder["kind"] == "item" and holder["id"] not in holders]
    return holders


def _is_not_in_itself(holder: Document | None, containers: Mapping[Any, Document]) -> bool:
    """Return True if the chain of containers certainly ends with a character, a room or the void."""
    for _ in range(MAX_CONTAINER_DEPTH + 1):
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
    contents: list[Document] = []
    level: Sequence[Document] = items
    for _ in range(MAX_CONTAINER_DEPTH + 1):
        level = _held(db, "item", [item["_id"] for item in level if _is_container(item)])
        contents += level
    return by_holder(contents)


def _existing(db: Db, collection: str, ids: Iterable[Any]) -> set[Any]:
    return {document["_id"] for document in db[collection].find({"_id": {"$in": list(ids)}}, {"_id": 1})}
