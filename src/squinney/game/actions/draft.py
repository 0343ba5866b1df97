"""What one action changes, gathered until it becomes guarded steps.

Characters and things are changed from what was read, and their steps guard its `version`: where somebody else was
faster the plan is stale, and made anew. Rooms are hot: their lists change by operators, so that those who act in one
room at once need not read it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

from squinney.game import rules
from squinney.game.documents import (
    CHARACTERS,
    EVENTS,
    ITEMS,
    LOCATIONS,
    MOST_LISTED,
    MOST_SEEN,
    WORDS_COUNT,
    Character,
    Entry,
    Event,
    Item,
    Location,
)
from squinney.game.errors import UnknownLocation
from squinney.game.records import Memory, Records, Upgraded
from squinney.mongo.schema import Document
from squinney.patterns.ids import new_id
from squinney.transactions import PROTOCOL_FIELDS, Stale, Step

CHARACTER_FIELDS = ("character", "gold", "armor", "weapons", "inventory", "load", "things")
ITEM_FIELDS = ("holder", "qty", "load", "count", "things")

KEPT = {"_id", "version", "location", "seen", *PROTOCOL_FIELDS}  # by an upgrade: others change these


class RoomChange:
    """Operators on a room; the same ones change the copy of whoever acts there."""

    def __init__(self) -> None:
        self.operators: dict[str, dict[str, Any]] = {}
        self.filters: list[Document] = []
        self.guard: Document = {}

    def add(self, operator: str, path: str, value: Any) -> None:
        self.operators.setdefault(operator, {})[path] = value

    def list_person(self, character: Mapping[str, Any]) -> None:
        """Somebody comes in."""
        self.add("$push", "players", {"$each": [rules.person_of(character)], "$slice": MOST_LISTED})
        self.add("$inc", "player_count", 1)

    def unlist_person(self, character: Mapping[str, Any]) -> None:
        """Somebody leaves."""
        self.add("$pull", "players", {"id": character["_id"]})
        self.add("$inc", "player_count", -1)

    def list_entry(self, entry: Entry) -> None:
        """One more thing lies there."""
        self.add("$push", "inventory", {"$each": [entry], "$slice": MOST_LISTED})
        self.add("$inc", "thing_count", 1)

    def unlist_entry(self, item_id: str) -> None:
        """One thing less lies there."""
        self.add("$pull", "inventory", {"id": item_id})
        self.add("$inc", "thing_count", -1)

    def change_entry(self, item_id: str, **more: int) -> None:
        """A thing that stays there changes; one that is not listed changes unseen."""
        for name, value in more.items():
            if value:
                self.add("$inc", f"inventory.$[entry].{name}", value)
        self.filters = [{"entry.id": item_id}]

    def update(self, before: str = "") -> Document:
        """The operators, for paths that begin with `before`."""
        return {
            operator: {before + path: value for path, value in paths.items()}
            for operator, paths in self.operators.items()
        }

    def applied_to(self, room: Location) -> Location:
        """The room as this change leaves it, where nobody else changes it. Its version stays: nobody has read it."""
        lists: dict[str, list[Any]] = {name: list(room[name]) for name in ("players", "inventory")}
        for name, pulled in self.operators.get("$pull", {}).items():
            lists[name] = [one for one in lists[name] if one["id"] != pulled["id"]]
        for name, pushed in self.operators.get("$push", {}).items():
            lists[name] = [*lists[name], *pushed["$each"]][:MOST_LISTED]
        counts = {name: room.get(name, 0) + more for name, more in self.operators.get("$inc", {}).items()}
        return cast(Location, {**room, **lists, **{name: value for name, value in counts.items() if "." not in name}})

    def step(self, location_id: str) -> Step:
        update = self.update()
        update.setdefault("$inc", {})["version"] = 1
        return Step(
            LOCATIONS,
            location_id,
            guard=self.guard,
            give=update,
            array_filters=self.filters,
            refused=lambda room: Stale() if room else UnknownLocation(f"there is no room {location_id}"),
        )


class Draft:
    """The documents of one action, and what becomes of them."""

    def __init__(self, at: datetime, records: Records) -> None:
        self.at = at
        self.records = records
        self._before: dict[tuple[str, str], Any] = {}
        self._characters: dict[str, Any] = {}
        self._items: dict[str, Any] = {}
        self._rooms: dict[str, RoomChange] = {}
        self._made: dict[str, Document] = {}
        self._gone: set[str] = set()
        self._own: dict[str, Document] = {}
        self.events: list[Event] = []

    def character(self, stored: Character) -> Character:
        """A character to be changed at will."""
        return cast(Character, self._working(self._characters, CHARACTERS, stored))

    def item(self, stored: Item) -> Item:
        """A thing to be changed at will."""
        return cast(Item, self._working(self._items, ITEMS, stored))

    def _working(self, known: dict[str, Any], collection: str, stored: Any) -> Any:
        found = known.get(stored["_id"])
        if found is None:
            self._before[collection, stored["_id"]] = stored
            found = known[stored["_id"]] = _copied(stored)
        return found

    def room(self, location_id: str) -> RoomChange:
        """The change of a room."""
        return self._rooms.setdefault(location_id, RoomChange())

    def make(self, item: Item) -> None:
        """A new thing: what was split off, or what the world creates."""
        self._made[item["_id"]] = cast(Document, item)

    def unmake(self, item: Item) -> None:
        """What was split off went onto another stack."""
        del self._made[item["_id"]]

    def remove(self, item: Item) -> None:
        """A thing is used up, or went into another stack."""
        self.item(item)
        self._gone.add(item["_id"])

    def set_own(self, character: Character, **operators: Document) -> None:
        """Operators on a character's other fields, such as `push={"seen": ...}`."""
        own = self._own.setdefault(character["_id"], {})
        for name, paths in operators.items():
            own.setdefault(f"${name}", {}).update(paths)

    def tell(self, kind: str, character: Mapping[str, Any], text: str, *, location_id: str = "", **ids: str) -> Event:
        """Tell those in the room, where no other is named, that the character is in."""
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
        """Who acts, where they are a player, does one thing more in this minute. Raises: `TooFast`."""
        event = self.events[-1]
        who = self._characters[event["character_id"]]
        if who["kind"] == "player":
            acts = WORDS_COUNT if event["kind"] == "said" else 1
            self.set_own(who, set={"pace": rules.pace_after(who, acts, most, self.at)})

    def steps(self) -> list[Step]:
        """All of it, as guarded steps. Raises where somebody would carry too much."""
        steps = [self._item_step(item) for item in self._items.values()]
        steps += [Step(ITEMS, made["_id"], insert=made) for made in self._made.values()]
        steps += [self._character_step(character) for character in self._characters.values()]
        steps += [change.step(location_id) for location_id, change in self._rooms.items()]
        return [*steps, *(Step(EVENTS, event["_id"], insert=event) for event in self.events)]

    def remember(self, memory: Memory) -> None:
        """The steps are committed: what they left is remembered."""
        for item in (*self._items.values(), *self._made.values()):
            if item["_id"] in self._gone:
                memory.forget(ITEMS, item["_id"])
            else:
                memory.keep(ITEMS, self._next(ITEMS, item))
        for character in self._characters.values():
            memory.keep(CHARACTERS, {**self._next(CHARACTERS, character), **self._placed(character)})
        for location_id, change in self._rooms.items():
            if room := memory.get(LOCATIONS, location_id):
                memory.change_room(change.applied_to(room))

    def _next(self, collection: str, document: Any) -> Document:
        before = self._before.get((collection, document["_id"]))
        return {**document, "version": before["version"] + 1} if before else document

    def _placed(self, character: Any) -> Document:
        """Where they are now, and what they have seen."""
        own = self._own.get(character["_id"], {})
        seen = own.get("$push", {}).get("seen", {"$each": []})["$each"]
        return {**own.get("$set", {}), "seen": [*character.get("seen", []), *seen][-MOST_SEEN:]}

    def _item_step(self, item: Any) -> Step:
        before = self._before[ITEMS, item["_id"]]
        guard = {"version": before["version"], "holder": before["holder"]}
        if item["_id"] in self._gone:
            return Step(ITEMS, item["_id"], guard=guard, delete=True, refused=Stale)
        return Step(ITEMS, item["_id"], guard=guard, give=_changed(before, item, ITEM_FIELDS), refused=Stale)

    def _character_step(self, character: Any) -> Step:
        before = self._before[CHARACTERS, character["_id"]]
        character["load"] = sum(entry["weight"] for entry in character["inventory"])
        character["things"] = sum(1 for _ in rules.walk(character["inventory"]))
        rules.require_can_carry(before, character)
        update = _changed(before, character, CHARACTER_FIELDS)
        own = self._own.get(character["_id"], {})
        filters: list[Document] = []
        here = self._rooms.get(before["location"]["id"])
        if here and "location" not in own.get("$set", {}):
            filters = here.filters
            _add(update, here.update("location."))
            # So a copy that was up to date still is, and is left alone by those who refresh copies.
            _add(update, {"$inc": {"location.version": 1}})
        _add(update, own)
        return Step(
            CHARACTERS,
            character["_id"],
            guard={"version": before["version"]},
            give=update,
            array_filters=filters,
            refused=Stale,
        )


def _changed(before: Any, after: Any, names: tuple[str, ...]) -> Document:
    update: Document = {"$inc": {"version": 1}}
    if isinstance(before, Upgraded):
        changed = {name: value for name, value in after.items() if name not in KEPT}
    else:
        changed = {name: after[name] for name in names if name in after and after[name] != before.get(name)}
    if changed:
        update["$set"] = changed
    return update


def _add(update: Document, more: Document) -> None:
    for operator, paths in more.items():
        update.setdefault(operator, {}).update(paths)


def _copied(stored: Any) -> Any:
    """A document to be changed: its entries are its own. Other lists and mappings in it are replaced, not changed."""
    return {**stored, "inventory": _copied_entries(stored["inventory"])} if "inventory" in stored else {**stored}


def _copied_entries(entries: list[Any]) -> list[Any]:
    return [
        {**entry, "inventory": _copied_entries(entry["inventory"])} if "inventory" in entry else {**entry}
        for entry in entries
    ]
