"""Collect what one action changes, and turn it into guarded steps.

Characters and things are changed from the documents that were read, and their steps guard the `version` that was read:
if another action was faster, the plan is stale and is made again.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

from squinney import checks
from squinney.game import rules
from squinney.game.actions.room_change import RoomChange
from squinney.game.documents import (
    ACTS_PER_SAY,
    CHARACTERS,
    EVENTS,
    ITEMS,
    LOCATIONS,
    MAX_SEEN,
    Character,
    Event,
    Item,
)
from squinney.game.entries import all_entries
from squinney.game.records import DocumentCache, Records, Upgraded
from squinney.mongo.schema import Document
from squinney.patterns.ids import new_id
from squinney.transactions import CHECKS_FIELD, Stale, Step

CHARACTER_FIELDS = ("character", "gold", "armor", "weapons", "inventory", "load", "things")
ITEM_FIELDS = ("holder", "qty", "load", "count", "things")

# Fields that are not overwritten when an upgraded document is saved: operators change them.
NOT_OVERWRITTEN = {"_id", "version", "location", "seen", CHECKS_FIELD}


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

    def count_acts(self, limit: int) -> None:
        """Count this action against the player's limit per minute. Raises: `TooFast`."""
        event = self.events[-1]
        actor = self._characters[event["character_id"]]
        if actor["kind"] == "player":
            acts = ACTS_PER_SAY if event["kind"] == "said" else 1
            self.add_operators(actor, set={"pace": rules.pace_after(actor, acts, limit, self.at)})

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
        return {**own.get("$set", {}), "seen": [*character.get("seen", []), *seen][-MAX_SEEN:]}

    def _item_step(self, item: Any) -> Step:
        before = self._before[ITEMS, item["_id"]]
        # guard: a plan is stale if a thing has changed since it was read
        guard = {"version": before["version"], "holder": before["holder"]}
        if item["_id"] in self._deleted:
            return Step(ITEMS, item["_id"], guard=guard, delete=True, refused=Stale)
        return Step(ITEMS, item["_id"], guard=guard, update=_changed(before, item, ITEM_FIELDS), refused=Stale)

    def _character_step(self, character: Any) -> Step:
        before = self._before[CHARACTERS, character["_id"]]
        character["load"] = sum(entry["weight"] for entry in character["inventory"])
        character["things"] = sum(1 for _ in all_entries(character["inventory"]))
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
            # guard: a plan is stale if a character has changed since it was read
            guard={"version": before["version"]},
            update=update,
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
