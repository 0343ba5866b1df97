"""What clients draw."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from squinney import checks
from squinney.errors import Invalid
from squinney.game import queries, rules
from squinney.game.documents import (
    CHARACTERS,
    HANDS,
    LOCATIONS,
    NAMES,
    REGIONS,
    Character,
    Entry,
    Event,
    Item,
    Location,
)
from squinney.game.errors import UnknownCharacter, UnknownLocation
from squinney.game.records import Memory, Records, Remembering
from squinney.game.room_copies import listed, refresh_copies
from squinney.mongo.connect import operation
from squinney.mongo.schema import Db
from squinney.patterns.paging import Page, page

MOST_DESCRIBED = 500


class Reading:
    """The reads of `World`."""

    _db: Db
    _records: Records
    _memory: Memory

    @operation(reads_only=True)
    def character(self, character_id: str) -> Character:
        """All that a client draws, by one query: values, things, and the room as it was a moment ago.

        The copy of the room follows the room within a second or so; `look` reads the room itself.

        Raises: `UnknownCharacter`.
        """
        return self._records.character(character_id)

    @operation()
    def screen(self, character_id: str) -> Character:
        """The same with the room as it is now; a copy that had fallen behind is refreshed.

        Atomic: one conditional update of the copy, which decides nothing.
        After a crash: the copy is old; the next read or the follower refreshes it.
        Raises: `UnknownCharacter`, `UnknownLocation`.
        """
        found = self._records.character(character_id)
        room = self._room(found["location"]["id"])
        if found["location"]["version"] != room["version"]:
            refresh_copies(self._db, room, only=character_id)
        return {**found, "location": rules.copy_of(room)}

    @operation(reads_only=True)
    def glance(self, character_id: str) -> Character:
        """The same by what this process remembers, a second old or so: to find what a player's words mean.

        Raises: `UnknownCharacter`, `UnknownLocation`.
        """
        records = Remembering(self._records, self._memory, trusting=True)
        found = records.character(character_id)
        return {**found, "location": rules.copy_of(records.room(found["location"]["id"]))}

    @operation(reads_only=True)
    def look(self, character_id: str) -> Location:
        """The room that a character is in, as it is now.

        Raises: `UnknownCharacter`, `UnknownLocation`.
        """
        return self.location(self._records.character(character_id)["location"]["id"])

    @operation(reads_only=True)
    def location(self, location_id: str) -> Location:
        """A room, with the first fifty of those in it and of what lies there.

        Raises: `UnknownLocation`.
        """
        return self._room(location_id)

    def _room(self, location_id: str) -> Location:
        room = listed(self._db, self._records.room(location_id))
        self._memory.keep(LOCATIONS, room)
        return room

    @operation(reads_only=True)
    def item(self, item_id: str) -> Item:
        """A thing.

        Raises: `UnknownThing`.
        """
        return self._records.item(item_id)

    @operation(reads_only=True)
    def inventory(self, character_id: str) -> list[Entry]:
        """What a character carries, with what is in their bags.

        Raises: `UnknownCharacter`.
        """
        return self._records.character(character_id)["inventory"]

    @operation(reads_only=True)
    def armor(self, character_id: str) -> dict[str, list[Any]]:
        """What a character wears, by region: the things, each with its `description` as people read it.

        Raises: `UnknownCharacter`.
        """
        worn = self._records.character(character_id)["armor"]
        found = self._described([one["id"] for one in worn])
        return {
            region: [found[one["id"]] for one in worn if one["region"] == region and one["id"] in found]
            for region in REGIONS
        }

    @operation(reads_only=True)
    def weapons(self, character_id: str) -> dict[str, Any]:
        """What a character wields, by hand; None where there is nothing.

        Raises: `UnknownCharacter`.
        """
        wielded = {one["hand"]: one["id"] for one in self._records.character(character_id)["weapons"]}
        found = self._described(list(wielded.values()))
        return {hand: found.get(wielded.get(hand, "")) for hand in HANDS}

    def _described(self, item_ids: list[str]) -> dict[str, Any]:
        found = queries.SOME_ITEMS.find(self._db, item_ids=item_ids) if item_ids else ()
        return {item["_id"]: {**item, "described": rules.described(item)} for item in found}

    @operation(reads_only=True)
    def contents(self, character_id: str, container_id: str) -> list[Entry]:
        """What is in a container that the character carries or that stands in their room.

        Raises: `UnknownCharacter`, `UnknownThing`, `OutOfReach`.
        """
        who = self._records.character(character_id)
        chain, _ = self._records.in_reach(who, container_id)
        return self._records.inside(chain[0]) or []

    @operation(reads_only=True)
    def descriptions(self, item_ids: Iterable[str]) -> dict[str, str]:
        """What one sees when one looks at things, up to 500 of them; without those that say nothing.

        Raises: `Invalid`.
        """
        wanted = sorted({checks.identifier(item_id, "item") for item_id in item_ids})
        if len(wanted) > MOST_DESCRIBED:
            raise Invalid(f"at most {MOST_DESCRIBED} things at once", field="item_ids", limit=MOST_DESCRIBED)
        found = queries.SOME_ITEMS.find(self._db, item_ids=wanted, projection={"description": 1}) if wanted else ()
        return {item["_id"]: item["description"] for item in found if item.get("description")}

    @operation(reads_only=True)
    def goods(self, shopkeeper_id: str) -> list[dict[str, Any]]:
        """What a shopkeeper sells: entries with the `cost` of one piece.

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
        """The character of a name; large and small letters are the same.

        Raises: `UnknownCharacter`.
        """
        checks.identifier(name, "name")
        found = self._db[NAMES].find_one(queries.NAME(name=name.casefold()))
        if found is None:
            raise UnknownCharacter(f"there is no character {name}", name=name)
        return self._records.character(found["character_id"])

    @operation(reads_only=True)
    def map_of(self, character_id: str) -> list[Location]:
        """The rooms that a character has seen, at most the last 500: where they are, and where their exits lead.

        Raises: `UnknownCharacter`.
        """
        seen = self._records.character(character_id).get("seen", [])
        wanted = {"name": 1, "exits": 1}
        return cast(list[Location], list(queries.SOME_LOCATIONS.find(self._db, location_ids=seen, projection=wanted)))

    @operation(reads_only=True)
    def people(self, location_id: str, *, cursor: str | None = None, limit: int = 50) -> Page[Character]:
        """Everybody in a room."""
        checks.identifier(location_id, "location")
        return cast(
            Page[Character], page(self._db, queries.PEOPLE, cursor=cursor, limit=limit, location_id=location_id)
        )

    @operation(reads_only=True)
    def things(self, location_id: str, *, cursor: str | None = None, limit: int = 50) -> Page[Item]:
        """Everything that lies in a room."""
        checks.identifier(location_id, "location")
        found = page(self._db, queries.THINGS, cursor=cursor, limit=limit, kind="location", holder_id=location_id)
        return cast(Page[Item], found)

    @operation(reads_only=True)
    def owned_by(self, owner: str, *, cursor: str | None = None, limit: int = 50) -> Page[Character]:
        """An owner's characters, oldest first."""
        checks.identifier(owner, "owner")
        return cast(Page[Character], page(self._db, queries.OWNED, cursor=cursor, limit=limit, owner=owner))

    @operation(reads_only=True)
    def locations(self, *, cursor: str | None = None, limit: int = 50) -> Page[Location]:
        """Every room, by id."""
        return cast(Page[Location], page(self._db, queries.LOCATIONS_ALL, cursor=cursor, limit=limit))

    @operation(reads_only=True)
    def start(self) -> Location:
        """The room in which new characters begin: the one that a loaded world names, else the first of all.

        Raises: `UnknownLocation` where there is no room at all.
        """
        for query in (queries.STARTS, queries.LOCATIONS_ALL):
            if found := next(query.find(self._db, limit=1), None):
                return cast(Location, found)
        raise UnknownLocation("this world has no rooms yet: load one")

    @operation(reads_only=True)
    def recent(self, location_id: str, *, limit: int = 20) -> list[Event]:
        """What happened in a room, newest first."""
        checks.identifier(location_id, "location")
        checks.integer(limit, "limit", least=1, most=200)
        return cast(list[Event], list(queries.RECENT.find(self._db, limit=limit, location_id=location_id)))

    @operation(reads_only=True)
    def gold(self) -> int:
        """All gold there is. Of a two-phase purchase under way it may see one purse changed and not yet the other."""
        found = next(self._db[CHARACTERS].aggregate(queries.GOLD()), None)
        return int(found["gold"]) if found else 0
