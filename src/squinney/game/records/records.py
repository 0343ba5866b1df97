"""Read the documents that decide an action: characters, things and rooms, never the copies kept elsewhere."""

from __future__ import annotations

from typing import Any, cast

from squinney import checks
from squinney.game import queries
from squinney.game.documents import (
    CHARACTERS,
    ITEMS,
    LOCATIONS,
    MAX_CONTAINER_DEPTH,
    Character,
    Entry,
    Holder,
    Item,
    Location,
)
from squinney.game.entries import by_holder, nested_entries
from squinney.game.errors import OutOfReach, UnknownCharacter, UnknownLocation, UnknownThing
from squinney.game.kinds import CHARACTER_TYPES, ITEM_TYPES
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db, Document
from squinney.patterns.polymorphic import Types


class Upgraded(dict[str, Any]):
    """A stored document of an older schema version, upgraded in memory.

    An action that changes it saves every field, so that the stored document never mixes two versions.
    """


class Records:
    """Reads characters, things and rooms by id, and upgrades documents of older schema versions."""

    def __init__(self, db: Db) -> None:
        self._db = db = pinned(db)
        self._characters, self._items, self._rooms = db[CHARACTERS], db[ITEMS], db[LOCATIONS]

    def character(self, character_id: str) -> Character:
        """Raises: `UnknownCharacter`."""
        checks.identifier(character_id, "character")
        stored = self._characters.find_one(queries.CHARACTER(character_id=character_id))
        if stored is None:
            raise UnknownCharacter(f"there is no character {character_id}", character_id=character_id)
        return cast(Character, _upgraded(CHARACTER_TYPES, stored))

    def item(self, item_id: str) -> Item:
        """Raises: `UnknownThing`."""
        checks.identifier(item_id, "item")
        stored = self._items.find_one(queries.ITEM(item_id=item_id))
        if stored is None:
            raise UnknownThing(f"there is no thing {item_id}", item_id=item_id)
        return cast(Item, _upgraded(ITEM_TYPES, stored))

    def room(self, location_id: str) -> Location:
        """Raises: `UnknownLocation`."""
        checks.identifier(location_id, "location")
        location = self._rooms.find_one(queries.LOCATION(location_id=location_id))
        if location is None:
            raise UnknownLocation(f"there is no room {location_id}", location_id=location_id)
        return cast(Location, location)

    def containers_around(self, item: Item) -> tuple[list[Item], Holder]:
        """Return the containers around a thing, innermost first, and the holder of the outermost one."""
        items: list[Item] = []
        holder = item["holder"]
        # One level more than the rules allow: damaged data may have a cycle, which must not be followed for ever.
        while holder["kind"] == "item" and len(items) <= MAX_CONTAINER_DEPTH:
            items.append(self.item(str(holder["id"])))
            holder = items[-1]["holder"]
        return items, holder

    def container_in_reach(self, actor: Character, container_id: str) -> tuple[list[Item], Holder]:
        """Return a container and those around it, innermost first, and the holder of the outermost one.

        That holder is the acting character or the room of the character.

        Raises: `UnknownThing`, `OutOfReach`.
        """
        container = self.item(container_id)
        around, outermost = self.containers_around(container)
        mine, here = {"kind": "character", "id": actor["_id"]}, {"kind": "location", "id": actor["location"]["id"]}
        if outermost not in (mine, here):
            raise OutOfReach(f"{container['name']} is not in reach", item_id=container_id)
        return [container, *around], outermost

    def contents_of(self, item: Item) -> list[Entry] | None:
        """Return a container's contents as nested entries, or None for a thing that is not a container."""
        if item["kind"] != "container":
            return None
        levels: list[list[Item]] = [[item]]
        while levels[-1] and len(levels) <= MAX_CONTAINER_DEPTH + 1:
            ids = [content["_id"] for content in levels[-1] if content.get("count")]
            held = queries.HELD.find(self._db, kind="item", holder_ids=ids) if ids else ()
            levels.append([cast(Item, _upgraded(ITEM_TYPES, content)) for content in held])
        return nested_entries(item["_id"], by_holder(content for level in levels[1:] for content in level))


def _upgraded(types: Types[Any], stored: Document) -> Document:
    return Upgraded(types.dump(types.load(stored))) if types.is_outdated(stored) else stored
