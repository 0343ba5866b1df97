"""What this process remembers of characters, things and rooms, so that an action need not read them first.

A remembered document may be out of date, so it decides nothing. A plan that was made of it guards every version it
rests on: where one has changed, the commit refuses the plan as stale, and it is made anew of what is read. A refusal
that rests on a remembered document counts for nothing: the document is read, and the refusal decided again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, cast

from squinney.game.documents import CHARACTERS, ITEMS, LOCATIONS, Character, Item, Location
from squinney.game.records import Records

MOST_REMEMBERED = 10_000
SECONDS = 60.0
ROOM_SECONDS = 1.0  # rooms are shown, too, and change by operators: whoever acts there does not learn what became of it
DISTRUST_SECONDS = 30.0

Known = tuple[float, dict[str, Any] | None]  # until when; None: somebody else changes it, it is read each time


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
