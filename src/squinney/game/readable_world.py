"""Read what clients show."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from squinney import checks
from squinney.errors import Invalid
from squinney.game import queries, rules
from squinney.game.character_names import name_keys
from squinney.game.documents import (
    HANDS,
    LOCATIONS,
    REGIONS,
    Character,
    Entry,
    Event,
    Goal,
    Item,
    Location,
)
from squinney.game.errors import UnknownCharacter, UnknownLocation
from squinney.game.records import CachedRecords, DocumentCache, Records
from squinney.game.room_copies import refresh_copy, with_full_lists
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db
from squinney.patterns.paging import Page, page

MAX_DESCRIBED = 500
MAX_GOALS = 20


class ReadableWorld:
    """The part of `World` that reads; its only write refreshes a character's copy of the room."""

    def __init__(self, db: Db, cache: DocumentCache) -> None:
        self._db = pinned(db)
        self._records = Records(self._db)
        self._cache = cache

    @operation(reads_only=True)
    def character(self, character_id: str) -> Character:
        """Return everything that a client shows, by one query: values, things, and a copy of the room.

        The copy of the room may be about a second old; `look` reads the room itself.

        Raises: `UnknownCharacter`.
        """
        return self._records.character(character_id)

    @operation()
    def screen(self, character_id: str) -> Character:
        """Return the character with the current room, and refresh the stored copy of the room if it was stale.

        Raises: `UnknownCharacter`, `UnknownLocation`.
        """
        character = self._records.character(character_id)
        room = self._room(character["location"]["id"])
        if character["location"]["version"] != room["version"]:
            refresh_copy(self._db, room, character_id)
        return {**character, "location": rules.copy_of(room)}

    @operation(reads_only=True)
    def glance(self, character_id: str) -> Character:
        """Return the character with the room from this process's cache, about a second old.

        That is enough to find the things that a player's words refer to.

        Raises: `UnknownCharacter`, `UnknownLocation`.
        """
        records = CachedRecords(self._records, self._cache, use_cache=True)
        character = records.character(character_id)
        return {**character, "location": rules.copy_of(records.room(character["location"]["id"]))}

    @operation(reads_only=True)
    def look(self, character_id: str) -> Location:
        """Return the current state of the room that a character is in.

        Raises: `UnknownCharacter`, `UnknownLocation`.
        """
        return self.location(self._records.character(character_id)["location"]["id"])

    @operation(reads_only=True)
    def location(self, location_id: str) -> Location:
        """Return a room with up to fifty of the characters in it and up to fifty of its things.

        Raises: `UnknownLocation`.
        """
        return self._room(location_id)

    def _room(self, location_id: str) -> Location:
        room = with_full_lists(self._db, self._records.room(location_id))
        self._cache.store(LOCATIONS, room)
        return room

    @operation(reads_only=True)
    def item(self, item_id: str) -> Item:
        """Return a thing.

        Raises: `UnknownThing`.
        """
        return self._records.item(item_id)

    @operation(reads_only=True)
    def inventory(self, character_id: str) -> list[Entry]:
        """Return the things that a character carries; containers with their contents.

        Raises: `UnknownCharacter`.
        """
        return self._records.character(character_id)["inventory"]

    @operation(reads_only=True)
    def armor(self, character_id: str) -> dict[str, list[Any]]:
        """Return the things that a character wears, by region. Each has the text to show as `described`.

        Raises: `UnknownCharacter`.
        """
        worn = self._records.character(character_id)["armor"]
        described = self._described([piece["id"] for piece in worn])
        return {
            region: [described[piece["id"]] for piece in worn if piece["region"] == region and piece["id"] in described]
            for region in REGIONS
        }

    @operation(reads_only=True)
    def weapons(self, character_id: str) -> dict[str, Any]:
        """Return the things that a character wields, by hand; None for an empty hand.

        Raises: `UnknownCharacter`.
        """
        wielded = {weapon["hand"]: weapon["id"] for weapon in self._records.character(character_id)["weapons"]}
        described = self._described(list(wielded.values()))
        return {hand: described.get(wielded.get(hand, "")) for hand in HANDS}

    def _described(self, item_ids: list[str]) -> dict[str, Any]:
        items = queries.SOME_ITEMS.find(self._db, item_ids=item_ids) if item_ids else ()
        return {item["_id"]: {**item, "described": rules.described(item)} for item in items}

    @operation(reads_only=True)
    def contents(self, character_id: str, container_id: str) -> list[Entry]:
        """Return the contents of a container that the character carries or that is in the same room.

        Raises: `UnknownCharacter`, `UnknownThing`, `OutOfReach`.
        """
        character = self._records.character(character_id)
        chain, _ = self._records.container_in_reach(character, container_id)
        return self._records.contents_of(chain[0]) or []

    @operation(reads_only=True)
    def descriptions(self, item_ids: Iterable[str]) -> dict[str, str]:
        """Return the descriptions of up to 500 things by id; things without a description are left out.

        Raises: `Invalid`.
        """
        wanted = sorted({checks.identifier(item_id, "item") for item_id in item_ids})
        if len(wanted) > MAX_DESCRIBED:
            raise Invalid(f"item_ids must have at most {MAX_DESCRIBED} ids", field="item_ids", limit=MAX_DESCRIBED)
        items = queries.SOME_ITEMS.find(self._db, item_ids=wanted, projection={"description": 1}) if wanted else ()
        return {item["_id"]: item["description"] for item in items if item.get("description")}

    @operation(reads_only=True)
    def goods(self, shopkeeper_id: str) -> list[dict[str, Any]]:
        """Return the things that a shopkeeper sells: entries with the `cost` of one piece.

        Raises: `UnknownCharacter`.
        """
        keeper = self._records.character(shopkeeper_id)
        if keeper["kind"] != "shopkeeper":
            return []
        percent, used = keeper["shop"]["sells_at"], rules.in_use(keeper)
        return [
            {**entry, "cost": rules.price_of(entry, 1, percent, rounded_up=True)}
            for entry in keeper["inventory"]
            if entry["id"] not in used
        ]

    @operation(reads_only=True)
    def named(self, name: str) -> Character:
        """Return the character with that name; upper and lower case, and letters that look alike, are the same.

        Raises: `UnknownCharacter`.
        """
        checks.identifier(name, "name")
        by_key = {stored["_id"]: stored for stored in queries.SOME_NAMES.find(self._db, names=name_keys(name))}
        reserved = next((by_key[key] for key in name_keys(name) if key in by_key), None)
        if reserved is None:
            raise UnknownCharacter(f"there is no character {name}", name=name)
        return self._records.character(reserved["character_id"])

    @operation(reads_only=True)
    def map_of(self, character_id: str) -> list[Location]:
        """Return the last 500 rooms that a character has visited, with their names and exits.

        Raises: `UnknownCharacter`.
        """
        seen = self._records.character(character_id).get("seen", [])
        wanted = {"name": 1, "exits": 1}
        return cast(list[Location], list(queries.SOME_LOCATIONS.find(self._db, location_ids=seen, projection=wanted)))

    @operation(reads_only=True)
    def people(self, location_id: str, *, cursor: str | None = None, limit: int = 50) -> Page[Character]:
        """Return a page of the characters in a room."""
        checks.identifier(location_id, "location")
        return cast(
            Page[Character], page(self._db, queries.PEOPLE, cursor=cursor, limit=limit, location_id=location_id)
        )

    @operation(reads_only=True)
    def things(self, location_id: str, *, cursor: str | None = None, limit: int = 50) -> Page[Item]:
        """Return a page of the things in a room."""
        checks.identifier(location_id, "location")
        things = page(self._db, queries.THINGS, cursor=cursor, limit=limit, kind="location", holder_id=location_id)
        return cast(Page[Item], things)

    @operation(reads_only=True)
    def owned_by(self, owner: str, *, cursor: str | None = None, limit: int = 50) -> Page[Character]:
        """Return a page of an owner's characters, by id."""
        checks.identifier(owner, "owner")
        return cast(Page[Character], page(self._db, queries.OWNED, cursor=cursor, limit=limit, owner=owner))

    @operation(reads_only=True)
    def locations(self, *, cursor: str | None = None, limit: int = 50) -> Page[Location]:
        """Return a page of all rooms, by id."""
        return cast(Page[Location], page(self._db, queries.LOCATIONS_ALL, cursor=cursor, limit=limit))

    @operation(reads_only=True)
    def goals(self) -> list[Goal]:
        """Return the containers that wait for certain things, and how many of these are in them."""
        fields = {"name": 1, "accepts": 1, "completed": 1, "count": 1}
        containers = queries.GOALS.find(self._db, projection=fields, limit=MAX_GOALS)
        return [
            {
                "id": container["_id"],
                "name": container["name"],
                "wants": len(container["accepts"]),
                "has": container["count"],
                "completed": container["completed"],
            }
            for container in containers
        ]

    @operation(reads_only=True)
    def start(self) -> Location:
        """Return the room in which new characters start: one that a loaded world names, or else the first room by id.

        Raises: `UnknownLocation` if there are no rooms.
        """
        for query in (queries.STARTS, queries.LOCATIONS_ALL):
            if location := next(query.find(self._db, limit=1), None):
                return cast(Location, location)
        raise UnknownLocation("this world has no rooms yet: load one")

    @operation(reads_only=True)
    def recent(self, location_id: str, *, limit: int = 20) -> list[Event]:
        """Return the latest events of a room, newest first."""
        checks.identifier(location_id, "location")
        checks.integer(limit, "limit", minimum=1, maximum=200)
        return cast(list[Event], list(queries.RECENT.find(self._db, limit=limit, location_id=location_id)))

    @operation(reads_only=True)
    def gold(self) -> int:
        """Return the gold of all characters."""
        total = next(queries.GOLD.run(self._db), None)
        return int(total["gold"]) if total else 0
