"""Read the documents that decide an action: characters, things and rooms, never the copies kept elsewhere.

`CachedRecords` reads through a cache, so that most actions need no read. A cached document may be stale, so it never
decides: the plan guards the version of every document it used. If one of them has changed, the commit refuses the plan
as stale, and the action is planned again from the database. An error raised while planning from the cache is ignored
too: the action is planned again from the database, and only then refused.
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

CACHE_SIZE = 10_000
CACHED_SECONDS = 60.0
# Short: rooms are shown to players, and steps change them by operators, so an action does not learn the new state.
ROOM_SECONDS = 1.0
BYPASS_SECONDS = 30.0

CacheEntry = tuple[float, dict[str, Any] | None]  # expiry, and the document; None: always read it until the expiry


class Upgraded(dict[str, Any]):
    """A stored document of an older schema version, upgraded in memory.

    An action that changes it saves every field, so that the stored document never mixes two versions.
    """


class Records:
    """Reads characters, things and rooms by id, and upgrades documents of older schema versions."""

    def __init__(self, db: Db) -> None:
        self._db = db
        self._characters, self._items, self._rooms = db[CHARACTERS], db[ITEMS], db[LOCATIONS]

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

    def containers_around(self, item: Item) -> tuple[list[Item], Holder]:
        """Return the containers around a thing, innermost first, and the holder of the outermost one."""
        found: list[Item] = []
        holder = item["holder"]
        # One level more than the rules allow: damaged data may have a cycle, which must not be followed for ever.
        while holder["kind"] == "item" and len(found) <= DEEPEST:
            found.append(self.item(str(holder["id"])))
            holder = found[-1]["holder"]
        return found, holder

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
        while levels[-1] and len(levels) <= DEEPEST + 1:
            ids = [one["_id"] for one in levels[-1] if one.get("count")]
            found = queries.HELD.find(self._db, kind="item", holder_ids=ids) if ids else ()
            levels.append([cast(Item, _upgraded(ITEM_TYPES, one)) for one in found])
        return nested_entries(item["_id"], by_holder(one for level in levels[1:] for one in level))


class DocumentCache:
    """A bounded cache of documents by collection and id; the oldest entries are evicted.

    Its documents are shared between threads: callers must not change them.
    """

    def __init__(self, size: int = CACHE_SIZE) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._entries: dict[tuple[str, str], CacheEntry] = {}

    def get(self, collection: str, document_id: str) -> Any:
        """Return the cached document, or None if the caller must read it."""
        expires, document = self._entries.get((collection, document_id), (0.0, None))
        return document if expires > time.monotonic() else None

    def store(self, collection: str, document: Any) -> None:
        """Cache a document that was just read or committed, unless it is bypassed."""
        expires, cached = self._entries.get((collection, document["_id"]), (0.0, document))
        if cached is not None or expires < time.monotonic():
            seconds = ROOM_SECONDS if collection == LOCATIONS else CACHED_SECONDS
            self._put(collection, document["_id"], time.monotonic() + seconds, document)

    def replace_room(self, room: Any) -> None:
        """Replace a cached room after a change by this process, without extending its expiry."""
        expires, cached = self._entries.get((LOCATIONS, room["_id"]), (0.0, None))
        if cached is not None:
            self._put(LOCATIONS, room["_id"], expires, room)

    def remove(self, collection: str, document_id: str) -> None:
        """Drop a document that was deleted."""
        self._put(collection, document_id, 0.0, None)

    def bypass(self, collection: str, document_id: str) -> None:
        """Do not cache a document for a while: other processes change it, and a refused plan costs more than a read."""
        self._put(collection, document_id, time.monotonic() + BYPASS_SECONDS, None)

    def _put(self, collection: str, document_id: str, expires: float, document: Any) -> None:
        with self._lock:
            self._entries.pop((collection, document_id), None)  # so that it becomes the newest entry
            while len(self._entries) >= self._size > 0:
                del self._entries[next(iter(self._entries))]
            if self._size:
                self._entries[collection, document_id] = (expires, document)


class CachedRecords(Records):
    """Records read through a cache, for one attempt at a plan. With `use_cache=False` every document is read."""

    def __init__(self, records: Records, cache: DocumentCache, *, use_cache: bool) -> None:
        # Collections are shared: the driver takes longer to make three of them than planning from the cache takes.
        self._db, self._characters = records._db, records._characters
        self._items, self._rooms = records._items, records._rooms
        self._cache = cache
        self._use_cache = use_cache
        self.has_used_cache = False

    def character(self, character_id: str) -> Character:
        return cast(Character, self._cached(CHARACTERS, character_id, super().character))

    def item(self, item_id: str) -> Item:
        return cast(Item, self._cached(ITEMS, item_id, super().item))

    def room(self, location_id: str) -> Location:
        return cast(Location, self._cached(LOCATIONS, location_id, super().room))

    def _cached(self, collection: str, document_id: str, read: Callable[[str], Any]) -> Any:
        cached = self._cache.get(collection, document_id) if isinstance(document_id, str) else None
        if cached is not None and self._use_cache:
            self.has_used_cache = True
            return cached
        found = read(document_id)
        if cached is not None and cached["version"] != found["version"] and collection != LOCATIONS:
            self._cache.bypass(collection, document_id)
        self._cache.store(collection, found)
        return found


def _upgraded(types: Types[Any], stored: Document) -> Document:
    return Upgraded(types.dump(types.load(stored))) if types.is_outdated(stored) else stored


def by_holder(items: Iterable[Any]) -> defaultdict[Any, list[Any]]:
    """Group things by the id of their direct holder."""
    held: defaultdict[Any, list[Any]] = defaultdict(list)
    for item in items:
        held[item["holder"]["id"]].append(item)
    return held


def nested_entries(holder_id: str, held: Mapping[Any, list[Any]], *, most: int = DEEPEST + 1) -> list[Entry]:
    """Return what a holder has, as a character's inventory lists it: containers with their contents.

    At most `most` levels: read while things move, two containers may seem to be inside each other.
    """
    own = sorted(held.get(holder_id, ()) if most else (), key=lambda one: one["_id"])
    contents = {
        one["_id"]: nested_entries(one["_id"], held, most=most - 1) for one in own if one["kind"] == "container"
    }
    return [rules.entry_of(one, contents.get(one["_id"])) for one in own]


def container_levels(entry: Entry) -> int:
    """Return how many levels of containers an entry has; 0 for a thing that is not a container."""
    if "inventory" not in entry:
        return 0
    return 1 + max((container_levels(one) for one in entry["inventory"]), default=0)
