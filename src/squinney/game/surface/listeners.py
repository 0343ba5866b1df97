"""The sockets of one process, indexed by room and by character, so that an event costs nothing for other sockets."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque

from squinney.mongo.schema import Document

MAX_WAITING = 64
SENT_FIELDS = ("kind", "character_id", "name", "text", "item_id", "other_id", "location_id")


class Listener:
    """One socket's queue of events, and the room whose events it receives."""

    def __init__(self, character_id: str, location_id: str) -> None:
        self.character_id = character_id
        self.location_id = location_id
        self._waiting: deque[Document] = deque()
        self._ready = asyncio.Event()

    def put(self, event: Document) -> None:
        """Queue an event; if too many are waiting, replace all of them by one `gap` event."""
        self._waiting.append(event)
        # guard: a slow socket's queue is bounded
        if len(self._waiting) > MAX_WAITING:
            self._waiting = deque([{"kind": "gap"}])
        self._ready.set()

    async def next(self) -> Document:
        """Wait for the next event and return it."""
        while not self._waiting:
            self._ready.clear()
            await self._ready.wait()
        return self._waiting.popleft()


class Listeners:
    """All listeners of the process, for delivering events."""

    def __init__(self) -> None:
        self._all: set[Listener] = set()
        self._in_room: defaultdict[str, set[Listener]] = defaultdict(set)
        self._of_character: defaultdict[str, set[Listener]] = defaultdict(set)

    def __len__(self) -> int:
        return len(self._all)

    def add(self, listener: Listener) -> None:
        """Register a listener."""
        self._all.add(listener)
        self._in_room[listener.location_id].add(listener)
        self._of_character[listener.character_id].add(listener)

    def remove(self, listener: Listener) -> None:
        """Unregister a listener."""
        self._all.discard(listener)
        _discard(self._in_room, listener.location_id, listener)
        _discard(self._of_character, listener.character_id, listener)

    def move(self, listener: Listener, location_id: str) -> None:
        """Let a listener receive the events of the room that its character is in now."""
        if listener in self._all:
            _discard(self._in_room, listener.location_id, listener)
            self._in_room[location_id].add(listener)
        listener.location_id = location_id

    def deliver(self, event: Document) -> None:
        """Queue an event for the listeners in its room and for those of the acting character.

        When a character arrives in a room, the character's listeners move to that room first.
        """
        own = self._of_character.get(event["character_id"], set())
        if event["kind"] == "arrived":
            for listener in own:
                # guard: a socket follows its character to the next room
                self.move(listener, event["location_id"])
        # guard: a socket receives only the events of its own room
        if receivers := own | self._in_room.get(event["location_id"], set()):
            sent = {name: event[name] for name in SENT_FIELDS if name in event}
            for listener in receivers:
                listener.put(sent)

    def deliver_gap(self) -> None:
        """Queue a `gap` event for every listener: events were missed, so clients must read the screen again."""
        for listener in self._all:
            listener.put({"kind": "gap"})


def _discard(index: defaultdict[str, set[Listener]], key: str, listener: Listener) -> None:
    index[key].discard(listener)
    if not index[key]:
        del index[key]
