"""Reading what decides: the documents themselves, never the copies that others keep of them.

What this process remembers of characters, things and rooms, so that an action need not read them first.

A remembered document may be out of date, so it decides nothing. A plan that was made of it guards every version it
rests on: where one has changed, the commit refuses the plan as stale, and it is made anew of what is read. A refusal
that rests on a remembered document counts for nothing: the document is read, and the refusal decided again.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from squinney import checks
from squinney.game import queries, rules
from squinney.game.documents import CHARACTERS, DEEPEST, ITEMS, LOCATIONS, Character, Entry, Holder, Item, Location
from squinney.game.errors import OutOfReach, UnknownCharacter, UnknownLocation, UnknownThing
from squinney.game.kinds import CHARACTER_TYPES, ITEM_TYPES
from squinney.mongo.schema import Db, Document
from squinney.patterns.polymorphic import Types

MOST_REMEMBERED = 10_000
SECONDS = 60.0
ROOM_SECONDS = 1.0  # rooms are shown, too, and change by operators: whoever acts there does not learn what became of it
DISTRUST_SECONDS = 30.0

Known = tuple[float, dict[str, Any] | None]  # until when; None: somebody else changes it, it is read each time


class Upgraded(dict[str, Any]):
    """A document that an older program wrote, as this one reads it. An action that changes it saves all of it, or it
    would mix fields of two versions."""


class Records:
    """Characters, things and rooms by their ids, brought up to date where an older program wrote them."""

    def __init__(self, db: Db) -> None:
        self._db = db
        self._characters, self._items, self._rooms = db[CHARACTERS], db[ITEMS], db[LOCATIONS]

    @property
    def parts(self) -> tuple[Any, ...]:
        """The database and its collections, for others like it."""
        return self._db, self._characters, self._items, self._rooms

    def character(self, character_id: str) -> Character:
        """Raises: `UnknownCharacter`."""
        checks.identifier(character_id, "character")
        found = self._characters.find_one(queries.CHARACTER(character_id=character_id))
        if found is None or "txn_stub" in found:
            raise UnknownCharacter(f"there is no character {character_id}", character_id=character_id)
        return cast(Character, _upgraded(CHARACTER_TYPES, found))

    def item(self, item_id: str) -> Item:
        """Raises: `UnknownThing`."""
        checks.identifier(item_id, "item")
        found = self._items.find_one(queries.ITEM(item_id=item_id))
        if found is None or "txn_stub" in found:
            raise UnknownThing(f"there is no thing {item_id}", item_id=item_id)
        return cast(Item, _upgraded(ITEM_TYPES, found))

    def room(self, location_id: str) -> Location:
        """Raises: `UnknownLocation`."""
        checks.identifier(location_id, "location")
        found = self._rooms.find_one(queries.LOCATION(location_id=location_id))
        if found is None or "txn_stub" in found:
            raise UnknownLocation(f"there is no room {location_id}", location_id=location_id)
        return cast(Location, found)

    def around(self, item: Item) -> tuple[list[Item], Holder]:
        """The containers that a thing lies in, from the nearest outwards, and who or what holds the outermost."""
        found: list[Item] = []
        place = item["holder"]
        # One more than there may be: a cycle, which nothing here makes, must not be followed for ever.
        while place["kind"] == "item" and len(found) <= DEEPEST:
            found.append(self.item(str(place["id"])))
            place = found[-1]["holder"]
        return found, place

    def in_reach(self, who: Character, container_id: str) -> tuple[list[Item], Holder]:
        """A container with those around it, and who or what holds them: the character, or the room they are in.

        Raises: `UnknownThing`, `OutOfReach`.
        """
        container = self.item(container_id)
        around, outermost = self.around(container)
        mine, here = {"kind": "character", "id": who["_id"]}, {"kind": "location", "id": who["location"]["id"]}
        if outermost not in (mine, here):
            raise OutOfReach(f"{container['name']} is not in reach", item_id=container_id)
        return [container, *around], outermost

    def inside(self, item: Item) -> list[Entry] | None:
        """What a container holds, as a character lists it; None for what is no container."""
        if item["kind"] != "container":
            return None
        levels: list[list[Item]] = [[item]]
        while levels[-1] and len(levels) <= DEEPEST + 1:
            ids = [one["_id"] for one in levels[-1] if one.get("count")]
            found = queries.HELD.find(self._db, kind="item", holder_ids=ids) if ids else ()
            levels.append([cast(Item, _upgraded(ITEM_TYPES, one)) for one in found])
        return nested(item["_id"], by_holder(one for level in levels[1:] for one in level))


class Memory:
    """Documents by collection and id, the oldest of which give way. Nobody changes what is in here."""

    def __init__(self, most: int = MOST_REMEMBERED) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], Known] = {}

    def get(self, collection: str, document_id: str) -> Any:
        """The document as it was; None where it is to be read."""
        until, document = self._known.get((collection, document_id), (0.0, None))
        return document if until > time.monotonic() else None

    def keep(self, collection: str, document: Any) -> None:
        """Remember a document that was read, or that a commit of our own has left so."""
        until, known = self._known.get((collection, document["_id"]), (0.0, document))
        if known is not None or until < time.monotonic():
            seconds = ROOM_SECONDS if collection == LOCATIONS else SECONDS
            self._put(collection, document["_id"], time.monotonic() + seconds, document)

    def change_room(self, room: Any) -> None:
        """Somebody here acted in it; it is forgotten no later for that."""
        until, known = self._known.get((LOCATIONS, room["_id"]), (0.0, None))
        if known is not None:
            self._put(LOCATIONS, room["_id"], until, room)

    def forget(self, collection: str, document_id: str) -> None:
        """It is gone."""
        self._put(collection, document_id, 0.0, None)

    def distrust(self, collection: str, document_id: str) -> None:
        """Others change it: do not remember it for a while, for a plan that is refused costs more than a read."""
        self._put(collection, document_id, time.monotonic() + DISTRUST_SECONDS, None)

    def _put(self, collection: str, document_id: str, until: float, document: Any) -> None:
        with self._lock:
            self._known.pop((collection, document_id), None)  # so that it is the youngest
            while len(self._known) >= self._most > 0:
                del self._known[next(iter(self._known))]
            if self._most:
                self._known[collection, document_id] = (until, document)


class Remembering(Records):
    """Records that are remembered where that will do, and read where not. For one try at a plan."""

    def __init__(self, records: Records, memory: Memory, *, trusting: bool) -> None:
        # Not made anew: the driver takes longer to make three collections than we to plan by what is remembered.
        self._db, self._characters, self._items, self._rooms = records.parts
        self._memory = memory
        self._trusting = trusting
        self.has_trusted = False

    def character(self, character_id: str) -> Character:
        return cast(Character, self._recalled(CHARACTERS, character_id, super().character))

    def item(self, item_id: str) -> Item:
        return cast(Item, self._recalled(ITEMS, item_id, super().item))

    def room(self, location_id: str) -> Location:
        return cast(Location, self._recalled(LOCATIONS, location_id, super().room))

    def _recalled(self, collection: str, document_id: str, read: Callable[[str], Any]) -> Any:
        known = self._memory.get(collection, document_id) if isinstance(document_id, str) else None
        if known is not None and self._trusting:
            self.has_trusted = True
            return known
        found = read(document_id)
        if known is not None and known["version"] != found["version"] and collection != LOCATIONS:
            self._memory.distrust(collection, document_id)
        self._memory.keep(collection, found)
        return found


def _upgraded(types: Types[Any], stored: Document) -> Document:
    return Upgraded(types.dump(types.load(stored))) if types.is_outdated(stored) else stored


def by_holder(items: Iterable[Any]) -> defaultdict[Any, list[Any]]:
    """The things that each holds directly."""
    held: defaultdict[Any, list[Any]] = defaultdict(list)
    for item in items:
        held[item["holder"]["id"]].append(item)
    return held


def nested(holder_id: str, held: Mapping[Any, list[Any]], *, most: int = DEEPEST + 1) -> list[Entry]:
    """What somebody or something holds, as a character lists it: bags with what is in them, `most` levels deep.

    Read while things are moved, two bags may seem to lie in each other.
    """
    own = sorted(held.get(holder_id, ()) if most else (), key=lambda one: one["_id"])
    bags = {one["_id"]: nested(one["_id"], held, most=most - 1) for one in own if one["kind"] == "container"}
    return [rules.entry_of(one, bags.get(one["_id"])) for one in own]


def height_of(entry: Entry) -> int:
    """How deep bags are in it: 0 for what is no container."""
    if "inventory" not in entry:
        return 0
    return 1 + max((height_of(one) for one in entry["inventory"]), default=0)
