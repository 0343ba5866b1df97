"""Collect what one action changes, and turn it into guarded steps.

Characters and things are changed from the documents that were read, and their steps guard the `version` that was read:
if another action was faster, the plan is stale and is made again. Many actions change the same room at once, so rooms
are changed by operators that need no version, and none of these actions has to read the room again.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

from squinney import checks
from squinney.game import rules
from squinney.game.documents import (
    ACTS_PER_SAY,
    CHARACTERS,
    EVENTS,
    ITEMS,
    LOCATIONS,
    MOST_LISTED,
    MOST_SEEN,
    Character,
    Entry,
    Event,
    Item,
    Location,
)
from squinney.game.errors import UnknownLocation
from squinney.game.records import DocumentCache, Records, Upgraded
from squinney.mongo.schema import Document
from squinney.patterns.ids import new_id
from squinney.transactions import PROTOCOL_FIELDS, Stale, Step

CHARACTER_FIELDS = ("character", "gold", "armor", "weapons", "inventory", "load", "things")
ITEM_FIELDS = ("holder", "qty", "load", "count", "things")

# Fields that are not overwritten when an upgraded document is saved: operators change them.
NOT_OVERWRITTEN = {"_id", "version", "location", "seen", *PROTOCOL_FIELDS}


class RoomChange:
    """Update operators for one room. The same operators update the acting character's copy of the room."""

    def __init__(self) -> None:
        self.operators: dict[str, dict[str, Any]] = {}
        self.array_filters: list[Document] = []
        self.guard: Document = {}

    def _add(self, operator: str, path: str, value: Any) -> None:
        self.operators.setdefault(operator, {})[path] = value

    def list_person(self, character: Mapping[str, Any]) -> None:
        """Add an arriving character to the room's list and count."""
        self._add("$push", "players", {"$each": [rules.person_of(character)], "$slice": MOST_LISTED})
        self._add("$inc", "player_count", 1)

    def unlist_person(self, character: Mapping[str, Any]) -> None:
        """Remove a leaving character from the room's list and count."""
        self._add("$pull", "players", {"id": character["_id"]})
        self._add("$inc", "player_count", -1)

    def list_entry(self, entry: Entry) -> None:
        """Add a thing to the room's list and count."""
        self._add("$push", "inventory", {"$each": [entry], "$slice": MOST_LISTED})
        self._add("$inc", "thing_count", 1)

    def unlist_entry(self, item_id: str) -> None:
        """Remove a thing from the room's list and count."""
        self._add("$pull", "inventory", {"id": item_id})
        self._add("$inc", "thing_count", -1)

    def change_entry(self, item_id: str, **increments: int) -> None:
        """Add to the numbers of a listed thing; nothing happens if the thing is not among the listed ones."""
        for name, value in increments.items():
            if value:
                self._add("$inc", f"inventory.$[entry].{name}", value)
        self.array_filters = [{"entry.id": item_id}]

    def update(self, prefix: str = "") -> Document:
        """Return the update document, with `prefix` before every path."""
        return {
            operator: {prefix + path: value for path, value in paths.items()}
            for operator, paths in self.operators.items()
        }

    def applied_to(self, room: Location) -> Location:
        """Return the room after this change. The version stays: other actions may have changed the room meanwhile."""
        lists: dict[str, list[Any]] = {name: list(room[name]) for name in ("players", "inventory")}
        for name, pulled in self.operators.get("$pull", {}).items():
            lists[name] = [one for one in lists[name] if one["id"] != pulled["id"]]
        for name, pushed in self.operators.get("$push", {}).items():
            lists[name] = [*lists[name], *pushed["$each"]][:MOST_LISTED]
        counts = {name: room.get(name, 0) + more for name, more in self.operators.get("$inc", {}).items()}
        return cast(Location, {**room, **lists, **{name: value for name, value in counts.items() if "." not in name}})

    def step(self, location_id: str) -> Step:
        """Return the guarded step that applies the change."""
        update = self.update()
        update.setdefault("$inc", {})["version"] = 1
        return Step(
            LOCATIONS,
            location_id,
            guard=self.guard,
            give=update,
            array_filters=self.array_filters,
            refused=lambda room: Stale() if room else UnknownLocation(f"there is no room {location_id}"),
        )


class Draft:
    """The documents that one action changes, and the events it causes."""

    def __init__(self, at: datetime, records: Records) -> None:
        self.at = at
        self.records = records
        self.events: list[Event] = []
        self._before: dict[tuple[str, str], Any] = {}
        self._characters: dict[str, Any] = {}
        self._items: dict[str, Any] = {}
        self._rooms: dict[str, RoomChange] = {}
        self._inserted: dict[str, Document] = {}
        self._deleted: set[str] = set()
        self._operators: dict[str, Document] = {}

    def character(self, character_id: str) -> Character:
        """Read a character, and return the draft's working copy; changes to it become a step."""
        checks.identifier(character_id, "character")
        if character_id not in self._characters:
            stored = self.records.character(character_id)
            self._before[CHARACTERS, character_id] = stored
            self._characters[character_id] = {**stored, "inventory": _copied(stored["inventory"])}
        return cast(Character, self._characters[character_id])

    def item(self, stored: Item) -> Item:
        """Return the draft's working copy of a thing; changes to it become a step."""
        item_id = stored["_id"]
        if item_id not in self._items:
            self._before[ITEMS, item_id] = stored
            self._items[item_id] = {**stored}
        return cast(Item, self._items[item_id])

    def room(self, location_id: str) -> RoomChange:
        """Return the change of a room, empty at first."""
        return self._rooms.setdefault(location_id, RoomChange())

    def insert_item(self, item: Item) -> None:
        """Insert a new thing: a part of a stack, or one that the world creates."""
        self._inserted[item["_id"]] = cast(Document, item)

    def cancel_insert(self, item: Item) -> None:
        """Do not insert a split-off thing after all: it was merged into another stack."""
        del self._inserted[item["_id"]]

    def delete_item(self, item: Item) -> None:
        """Delete a thing that is used up or was merged into another stack."""
        self.item(item)
        self._deleted.add(item["_id"])

    def add_operators(self, character: Character, **operators: Document) -> None:
        """Update further fields of a character by operators, such as `push={"seen": ...}`."""
        own = self._operators.setdefault(character["_id"], {})
        for name, paths in operators.items():
            own.setdefault(f"${name}", {}).update(paths)

    def add_event(
        self, kind: str, character: Mapping[str, Any], text: str, *, location_id: str = "", **ids: str
    ) -> Event:
        """Add an event in the character's room, or in `location_id`, and return it."""
        event = {
            "_id": new_id(),
            "kind": kind,
            "location_id": location_id or character["location"]["id"],
            "character_id": character["_id"],
            "name": character["name"],
            "text": text,
            "at": self.at,
            **ids,
        }
        self.events.append(cast(Event, event))
        return self.events[-1]

    def count_acts(self, most: int) -> None:
        """Count this action against the player's limit per minute. Raises: `TooFast`."""
        event = self.events[-1]
        actor = self._characters[event["character_id"]]
        if actor["kind"] == "player":
            acts = ACTS_PER_SAY if event["kind"] == "said" else 1
            self.add_operators(actor, set={"pace": rules.pace_after(actor, acts, most, self.at)})

    def steps(self) -> list[Step]:
        """Return all changes as guarded steps. Raises: `TooHeavy` or `NoSpace` if a character would carry too much."""
        steps = [self._item_step(item) for item in self._items.values()]
        steps += [Step(ITEMS, item["_id"], insert=item) for item in self._inserted.values()]
        steps += [self._character_step(character) for character in self._characters.values()]
        steps += [change.step(location_id) for location_id, change in self._rooms.items()]
        return [*steps, *(Step(EVENTS, event["_id"], insert=event) for event in self.events)]

    def update_cache(self, cache: DocumentCache) -> None:
        """Cache the documents as the committed steps left them."""
        for item in (*self._items.values(), *self._inserted.values()):
            if item["_id"] in self._deleted:
                cache.remove(ITEMS, item["_id"])
            else:
                cache.store(ITEMS, self._with_new_version(ITEMS, item))
        for character in self._characters.values():
            committed = {**self._with_new_version(CHARACTERS, character), **self._set_by_operators(character)}
            cache.store(CHARACTERS, committed)
        for location_id, change in self._rooms.items():
            if room := cache.get(LOCATIONS, location_id):
                cache.replace_room(change.applied_to(room))

    def _with_new_version(self, collection: str, document: Any) -> Document:
        before = self._before.get((collection, document["_id"]))
        return {**document, "version": before["version"] + 1} if before else document

    def _set_by_operators(self, character: Any) -> Document:
        own = self._operators.get(character["_id"], {})
        seen = own.get("$push", {}).get("seen", {"$each": []})["$each"]
        return {**own.get("$set", {}), "seen": [*character.get("seen", []), *seen][-MOST_SEEN:]}

    def _item_step(self, item: Any) -> Step:
        before = self._before[ITEMS, item["_id"]]
        guard = {"version": before["version"], "holder": before["holder"]}
        if item["_id"] in self._deleted:
            return Step(ITEMS, item["_id"], guard=guard, delete=True, refused=Stale)
        return Step(ITEMS, item["_id"], guard=guard, give=_changed(before, item, ITEM_FIELDS), refused=Stale)

    def _character_step(self, character: Any) -> Step:
        before = self._before[CHARACTERS, character["_id"]]
        character["load"] = sum(entry["weight"] for entry in character["inventory"])
        character["things"] = sum(1 for _ in rules.walk(character["inventory"]))
        rules.require_can_carry(before, character)
        update = _changed(before, character, CHARACTER_FIELDS)
        own = self._operators.get(character["_id"], {})
        array_filters: list[Document] = []
        here = self._rooms.get(before["location"]["id"])
        if here and "location" not in own.get("$set", {}):
            array_filters = here.array_filters
            _add(update, here.update("location."))
            # A copy that was current stays current, so the follower of rooms does not write it again.
            _add(update, {"$inc": {"location.version": 1}})
        _add(update, own)
        return Step(
            CHARACTERS,
            character["_id"],
            guard={"version": before["version"]},
            give=update,
            array_filters=array_filters,
            refused=Stale,
        )


def _changed(before: Any, after: Any, names: tuple[str, ...]) -> Document:
    update: Document = {"$inc": {"version": 1}}
    if isinstance(before, Upgraded):
        changed = {name: value for name, value in after.items() if name not in NOT_OVERWRITTEN}
    else:
        changed = {name: after[name] for name in names if name in after and after[name] != before.get(name)}
    if changed:
        update["$set"] = changed
    return update


def _add(update: Document, more: Document) -> None:
    for operator, paths in more.items():
        update.setdefault(operator, {}).update(paths)


def _copied(entries: list[Any]) -> list[Any]:
    """Copy entries, which actions change in place; they replace the other lists and mappings of a document."""
    return [
        {**entry, "inventory": _copied(entry["inventory"])} if "inventory" in entry else {**entry} for entry in entries
    ]
