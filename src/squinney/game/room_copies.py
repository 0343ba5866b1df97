"""What rooms list, and the copies of rooms that those in them keep.

A room lists the first fifty of those in it and of what lies there, and counts all. Where one of them goes, the list is
shorter than it could be: readers fill it up from the records, and the follower writes it back.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Self, cast

from pymongo import UpdateMany

from squinney.game import queries, rules
from squinney.game.documents import CHARACTERS, LOCATIONS, MOST_LISTED, Location
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db, Document
from squinney.patterns.follow import Change, Follower
from squinney.transactions import AT_REST

log = logging.getLogger(__name__)

FOLLOWER = "game-rooms"
CLOSE_SECONDS = 5.0
APART_SECONDS = 0.2  # between two refreshes: what changes meanwhile is refreshed together, once
MOST_CHANGES = 1_000  # before a refresh that does not wait
MOST_AT_ONCE = 100  # rooms


def is_short(room: Location) -> bool:
    """Whether it lists fewer than it could."""
    return len(room["players"]) < min(MOST_LISTED, room["player_count"]) or len(room["inventory"]) < min(
        MOST_LISTED, room["thing_count"]
    )


def listed(db: Db, room: Location) -> Location:
    """The room with full lists, read from the records where its own are short."""
    if not is_short(room):
        return room
    location_id = room["_id"]
    here = queries.PEOPLE.find(db, limit=MOST_LISTED, projection={"name": 1, "kind": 1}, location_id=location_id)
    people = [rules.person_of(one) for one in here]
    things = queries.THINGS.find(db, limit=MOST_LISTED, kind="location", holder_id=location_id)
    return {**room, "players": people, "inventory": [rules.entry_of(one) for one in things]}


def relist(db: Db, room: Location) -> Location:
    """The same, written back unless somebody acted in the room meanwhile. It is no new version of the room.

    Atomic: one conditional update.
    After a crash: the list is short; the next reader fills it up again.
    """
    full = listed(db, room)
    if full is not room:
        unchanged = {"_id": room["_id"], "version": room["version"], **AT_REST}
        lists = {"players": full["players"], "inventory": full["inventory"]}
        db[LOCATIONS].update_one(unchanged, {"$set": lists})
    return full


def refresh_copies(db: Db, room: Location, *, only: str = "") -> int:
    """Give the players in a room, or one of them, the room as it is; who has as new a copy keeps it.

    Atomic: each character by itself. It changes no `version`, for a copy decides nothing.
    After a crash: some have the old copy until the next refresh.
    """
    where, update = _refresh(room)
    if only:
        where = {**where, "_id": only}
    return db[CHARACTERS].update_many(where, update).modified_count


def refresh_all_copies(db: Db, rooms: Iterable[Location]) -> None:
    """The same for many rooms at once; lists that are short are written back too.

    Atomic: each room and each character by itself.
    After a crash: some have the old copy until the next refresh.
    """
    updates = []
    for room in rooms:
        if room["player_count"]:
            full = relist(db, room)
            updates.append(UpdateMany(*_refresh(full, relisted=full is not room)))
    if updates:
        db[CHARACTERS].bulk_write(updates, ordered=False)


def _refresh(room: Location, *, relisted: bool = False) -> tuple[Document, Document]:
    """Which copies to replace, and by what. A room that was `relisted` is no new version, but lists more."""
    where = queries.OUTDATED_COPIES(location_id=room["_id"], version=room["version"] + relisted)
    return where, {"$set": {"location": rules.copy_of(room)}}


class Copies:
    """A thread that follows the rooms, and refreshes the copies of each that changed.

    It keeps its place under a name: one that was down goes on where it was, and where the server has forgotten the
    place, every room is refreshed. Several at once do no harm.
    """

    def __init__(self, db: Db, *, polling: bool | None = None) -> None:
        self._follower = Follower(
            db,
            FOLLOWER,
            [LOCATIONS],
            batch=MOST_CHANGES,
            polling=polling,
            look_up=False,
            apart_seconds=APART_SECONDS,
        )
        self._db = pinned(db)
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._changed: set[str] = set()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Begin, or begin anew where it ended; what changes after this call is not missed.

        Atomic: the place is saved by one upsert.
        After a crash: the next one begins at the saved place.
        Raises: `Unavailable`.
        """
        with self._lock:
            if self._thread is None and not self._stop.is_set():
                self._follower.begin()
                self._thread = threading.Thread(target=self._run, name="squinney-game-rooms", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._stop.set()
        if (thread := self._thread) is not None:
            thread.join(timeout=CLOSE_SECONDS)

    def _run(self) -> None:
        try:
            self._follower.follow(self._see, stop=self._stop, settle=self._refresh)
        except Exception:  # the next start begins another
            log.exception("following the rooms has ended")
        with self._lock:
            self._thread = None

    def _see(self, change: Change) -> None:
        if change.kind == "gap":
            rooms = cast(Iterator[Location], queries.LOCATIONS_ALL.find(self._db))
            while some := list(islice(rooms, MOST_AT_ONCE)):
                refresh_all_copies(self._db, some)
            return
        self._changed.add(change.document_id)

    def _refresh(self) -> None:
        """Many changes of one room cost one refresh. Those of which it fails are refreshed with the next."""
        while some := list(islice(self._changed, MOST_AT_ONCE)):
            rooms = queries.SOME_LOCATIONS.find(self._db, location_ids=some)
            refresh_all_copies(self._db, cast(Iterable[Location], rooms))
            self._changed.difference_update(some)
