"""Keep the lists of rooms full, and refresh the copies of rooms that characters have.

A room lists up to fifty characters and up to fifty things, and counts all of them. When one of a crowd leaves, the list
becomes shorter than it could be: readers fill it up from the records, and the follower stores the full list.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Self, cast

from pymongo import UpdateMany

from squinney.game import queries, rules
from squinney.game.documents import CHARACTERS, LOCATIONS, MAX_LISTED, Location
from squinney.game.entries import entry_of
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db, Document
from squinney.patterns.follow import Change, Follower, FollowerThread

FOLLOWER = "game-rooms"
APART_SECONDS = 0.2  # between two refreshes: a room that changes several times meanwhile is refreshed once
MAX_CHANGES = 1_000  # after this number of changes a refresh does not wait
MAX_AT_ONCE = 100  # rooms per query


def with_full_lists(db: Db, room: Location) -> Location:
    """Return the room with full lists, read from the records if the room's own lists are short."""
    has_all_people = len(room["players"]) >= min(MAX_LISTED, room["player_count"])
    has_all_things = len(room["inventory"]) >= min(MAX_LISTED, room["thing_count"])
    if has_all_people and has_all_things:
        return room
    location_id = room["_id"]
    here = queries.PEOPLE.find(db, limit=MAX_LISTED, projection={"name": 1, "kind": 1}, location_id=location_id)
    people = [rules.person_of(person) for person in here]
    things = queries.THINGS.find(db, limit=MAX_LISTED, kind="location", holder_id=location_id)
    return {**room, "players": people, "inventory": [entry_of(thing) for thing in things]}


def store_full_lists(db: Db, room: Location) -> Location:
    """Return the room with full lists, and store them unless an action changed the room meanwhile.

    The room's `version` stays the same.
    """
    full = with_full_lists(db, room)
    if full is not room:
        unchanged = {"_id": room["_id"], "version": room["version"]}
        lists = {"players": full["players"], "inventory": full["inventory"]}
        db[LOCATIONS].update_one(unchanged, {"$set": lists})
    return full


def refresh_copy(db: Db, room: Location, character_id: str) -> int:
    """Update a player's copy of a room if the copy is older; return the number of updated copies.

    The character's `version` stays the same, because a copy decides nothing.
    """
    where, update = _outdated_and_update(room)
    return db[CHARACTERS].update_one({**where, "_id": character_id}, update).modified_count


def refresh_all_copies(db: Db, rooms: Iterable[Location]) -> None:
    """Update the players' copies of many rooms at once, and store the full lists of rooms whose lists are short.

    Atomic: each room's lists, and each character's copy.
    After a crash: some players have the old copy until the next refresh.
    """
    updates = []
    for room in rooms:
        if room["player_count"]:
            full = store_full_lists(db, room)
            updates.append(UpdateMany(*_outdated_and_update(full, relisted=full is not room)))
    if updates:
        db[CHARACTERS].bulk_write(updates, ordered=False)


def _outdated_and_update(room: Location, *, relisted: bool = False) -> tuple[Document, Document]:
    """Return the filter for outdated copies, and the update.

    A room that was `relisted` has the same version but fuller lists, so copies of that version are outdated too.
    """
    # guard: a newer copy of the room is not overwritten
    where = queries.OUTDATED_COPIES(location_id=room["_id"], version=room["version"] + relisted)
    return where, {"$set": {"location": rules.copy_of(room)}}


class Copies:
    """A thread that follows the rooms by change stream and refreshes the players' copies of each room that changed.

    It saves its position in the stream: after a restart it continues there. If the server no longer has that position,
    every room is refreshed. Several threads may run at once.
    """

    def __init__(self, db: Db, *, polling: bool | None = None) -> None:
        self._db = pinned(db)
        follower = Follower(
            db,
            FOLLOWER,
            [LOCATIONS],
            batch=MAX_CHANGES,
            polling=polling,
            look_up=False,
            read_every_seconds=APART_SECONDS,
        )
        self._thread = FollowerThread(
            "squinney-game-rooms",
            lambda: follower,  # after an error, the same one continues at its position
            self._note,
            # guard: changed rooms are refreshed before the stream position is saved
            settle=self._refresh,
        )
        self._changed: set[str] = set()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start the thread, or restart it if it has ended; no change after this call is missed.

        Raises: `Unavailable`.
        """
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._thread.close()

    def _note(self, change: Change) -> None:
        if change.kind == "gap":
            rooms = cast(Iterator[Location], queries.LOCATIONS_ALL.find(self._db))
            while some := list(islice(rooms, MAX_AT_ONCE)):
                refresh_all_copies(self._db, some)
            return
        self._changed.add(change.document_id)

    def _refresh(self) -> None:
        """Refresh every room noted since the last call, each once. After an error the next call tries them again."""
        while some := list(islice(self._changed, MAX_AT_ONCE)):
            rooms = queries.SOME_LOCATIONS.find(self._db, location_ids=some)
            # guard, 2 lines: a refresh that failed is tried again
            refresh_all_copies(self._db, cast(Iterable[Location], rooms))
            self._changed.difference_update(some)
