"""A cache of the documents that decide, so that most actions need no read.

A cached document may be stale, so it never decides: the plan guards the version of every document it used. If one of
them has changed, the commit refuses the plan as stale, and the action is planned again from the database. An error
raised while planning from the cache is ignored too: the action is planned again from the database, and only then
refused.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, cast

from squinney.game.documents import CHARACTERS, ITEMS, LOCATIONS, Character, Item, Location
from squinney.game.records.records import Records
from squinney.patterns.bounded import Bounded

CACHE_SIZE = 10_000
CACHED_SECONDS = 60.0
# Short: rooms are shown to players, and steps change them by operators, so an action does not learn the new state.
ROOM_SECONDS = 1.0
BYPASS_SECONDS = 30.0

CacheEntry = tuple[float, dict[str, Any] | None]  # expiry, and the document; None: always read it until the expiry


class DocumentCache:
    """A bounded cache of documents by collection and id; the oldest entries are evicted.

    Its documents are shared between threads: callers must not change them.
    """

    def __init__(self, size: int = CACHE_SIZE) -> None:
        self._entries = Bounded[tuple[str, str], CacheEntry](size)

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
        document = read(document_id)
        if cached is not None and cached["version"] != document["version"] and collection != LOCATIONS:
            self._cache.bypass(collection, document_id)
        self._cache.store(collection, document)
        return document
