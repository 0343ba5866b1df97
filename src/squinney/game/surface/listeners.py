"""The sockets of one process, found by room and by character: an event costs as much as it has hearers."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque

from squinney.mongo.schema import Document

MOST_WAITING = 64
TOLD = ("kind", "character_id", "name", "text", "item_id", "other_id", "location_id")


class Listener:
    """One socket's queue, and the room whose events it gets."""

    def __init__(self, character_id: str, location_id: str) -> None:
        self.character_id = character_id
        self.location_id = location_id
        self._waiting: deque[Document] = deque()
        self._ready = asyncio.Event()

    def put(self, event: Document) -> None:
        """Queue an event; where too many wait, they become a gap."""
        self._waiting.append(event)
        if len(self._waiting) > MOST_WAITING:
            self._waiting = deque([{"kind": "gap"}])
        self._ready.set()

    async def next(self) -> Document:
        """The next event, when there is one."""
        while not self._waiting:
            self._ready.clear()
            await self._ready.wait()
        return self._waiting.popleft()


class Listeners:
    """All of them."""

    def __init__(self) -> None:
        self._all: set[Listener] = set()
        self._in_room: defaultdict[str, set[Listener]] = defaultdict(set)
        self._of_character: defaultdict[str, set[Listener]] = defaultdict(set)

    def __len__(self) -> int:
        return len(self._all)

    def add(self, listener: Listener) -> None:
        """One more."""
        self._all.add(listener)
        self._in_room[listener.location_id].add(listener)
        self._of_character[listener.character_id].add(listener)

    def remove(self, listener: Listener) -> None:
        """One less."""
        self._all.discard(listener)
        _take_from(self._in_room, listener.location_id, listener)
        _take_from(self._of_character, listener.character_id, listener)

    def move(self, listener: Listener, location_id: str) -> None:
        """Its character is in that room now."""
        if listener in self._all:
            _take_from(self._in_room, listener.location_id, listener)
            self._in_room[location_id].add(listener)
        listener.location_id = location_id

    def tell(self, event: Document) -> None:
        """Those in the room hear it, and whoever did it; one's own arrival elsewhere changes the room."""
        own = self._of_character.get(event["character_id"], set())
        if event["kind"] == "arrived":
            for listener in own:
                self.move(listener, event["location_id"])
        if hearers := own | self._in_room.get(event["location_id"], set()):
            told = {name: event[name] for name in TOLD if name in event}
            for listener in hearers:
                listener.put(told)

    def gap(self) -> None:
        """Something was missed: whoever listens reads anew."""
        for listener in self._all:
            listener.put({"kind": "gap"})


def _take_from(places: defaultdict[str, set[Listener]], place: str, listener: Listener) -> None:
    places[place].discard(listener)
    if not places[place]:
        del places[place]
