"""`Follower`: follows changes by a resumable change stream, or by polling if the server provides no change stream.

`Follower.follow` passes changes to one reader in the order in which the server made them. It saves its position after
every `batch` changes and at each pause. After a crash a follower continues at the saved position: its reader misses
nothing, and sees at most the last `batch` changes again. If the server's oplog no longer contains the position, the
reader gets a `gap` change for each collection and must read the data again. Polling reports no deletes, may merge
several changes of one document, and repeats up to `overlap_seconds` of changes after a restart.
"""

from __future__ import annotations

import heapq
import logging
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Any

from bson.timestamp import Timestamp
from pymongo.errors import CursorNotFound, OperationFailure, PyMongoError

from squinney.errors import Unavailable
from squinney.mongo.deadlines import operation
from squinney.mongo.failures import is_away
from squinney.mongo.pinned import pinned
from squinney.mongo.queries import Pipeline, Query
from squinney.mongo.schema import Collection, Db, Document
from squinney.mongo.server_time import server_now

log = logging.getLogger(__name__)

NAME = "squinney.positions"
COLLECTIONS = [Collection(NAME, formerly="followers", shard_key={"_id": "hashed"})]
POSITION = Query("followers.position", NAME, where=lambda name: {"_id": name}, example={"name": "f"})
QUERIES: list[Query | Pipeline] = [POSITION]

HISTORY_LOST = (136, 260, 280, 286)  # position lost, token no longer valid, fatal, history lost
NO_STREAMS = (13, 20, 59, 40573, 40415)  # not authorised, illegal operation, no such command, not a replica set
# The server closed the stream, but still has its position. A rollback of the primary kills every query ("the catalog
# was closed and reopened"); not all versions of the server label that error as resumable.
QUERY_KILLED, CURSOR_KILLED = 175, 237
KINDS = ["insert", "update", "replace", "delete"]
# A change event also contains its session, its times and the fields it set: these double the time to send and decode.
READ = ["operationType", "ns.coll", "documentKey._id", "updateDescription.removedFields"]
WAIT_SECONDS = 0.5
AT_ONCE_SECONDS = 0.001
FIRST_PAUSE_SECONDS = 0.1
IDLE_SAVE_SECONDS = 10.0
MAX_PAUSE_SECONDS = 10.0


@dataclass(frozen=True)
class Change:
    """One change. `document` is its current state, or None if it was deleted; a `gap` has neither id nor document."""

    kind: str  # insert | update | replace | delete | seen (by polling) | gap
    collection: str
    document_id: Any = None
    document: Document | None = None


@dataclass(frozen=True)
class Source:
    """A collection to follow.

    `since` names the indexed field with the time of the last change. Without it the collection cannot be polled.
    """

    collection: str
    since: str | None = None


Step = tuple[Change | None, Document]  # a change, or None for a pause; and the position after it


class Follower:
    """Follows collections from the position saved under a name; a new name starts with the next change."""

    def __init__(
        self,
        db: Db,
        name: str | None,
        sources: Sequence[Source | str],
        *,
        batch: int = 100,
        poll_seconds: float = 1.0,
        overlap_seconds: float = 5.0,
        polling: bool | None = None,
        look_up: bool = True,
        read_every_seconds: float = 0.0,
    ) -> None:
        """Set up a follower; nothing is read yet.

        `name` None saves no position. `polling` None means polling only without a change stream. Without
        `look_up` the changes of a stream have no documents, which saves the server a read for each.
        `read_every_seconds` reads the stream in intervals, all new changes together; 0 reads each change at once.
        """
        self._db = pinned(db)
        self._name = name
        self._sources = [Source(source) if isinstance(source, str) else source for source in sources]
        self._batch = batch
        self._poll_seconds = poll_seconds
        self._overlap_seconds = overlap_seconds
        self._polling = polling
        self._look_up = look_up
        self._read_every_seconds = read_every_seconds
        self._position: Document | None = None
        self._unsaved = 0
        self._saved_at = 0.0

    @operation()
    def begin(self) -> None:
        """Load the saved position, or save the current one, so that no change after this call is missed.

        Raises: `Unavailable`.
        """
        if self._name:
            saved = POSITION.find_one(self._db, name=self._name)
            # guard: a follower continues at its saved position
            self._position = saved["position"] if saved else None
        if self._position is None:
            self._position = self._current_position()
            # guard: a new follower saves its position
            self._save()

    def _current_position(self) -> Document:
        now = server_now(self._db)
        if self._polling:
            return {"since": now}
        try:
            with self._open({}, wait_seconds=AT_ONCE_SECONDS) as stream:
                stream.try_next()  # the first reply may contain a change: the position is after it
                # guard: a stream starts at the follower's first position
                return {"token": stream.resume_token, "since": now}
        except OperationFailure as error:
            self._poll_from_now_on(error)
            return {"since": now}

    def _poll_from_now_on(self, error: OperationFailure) -> None:
        if self._polling is False or error.code not in NO_STREAMS:
            raise error
        log.info("no change stream here (%s): polling", error.code)
        self._polling = True

    def follow(
        self, read: Callable[[Change], object], *, stop: threading.Event, settle: Callable[[], object] = lambda: None
    ) -> None:
        """Pass changes to `read` until `stop` is set; wait while MongoDB is unavailable or its primary rolls back.

        `settle` is called before each save of the position: a reader that collects changes must process them there.

        Atomic: one update saves the position, after `read` returned.
        After a crash: the next call repeats the changes since the last saved position.
        Raises: whatever `read` raises; `OperationFailure` if the server rejects the request.
        """
        pause = FIRST_PAUSE_SECONDS
        while not stop.is_set():
            try:
                if self._position is None:
                    self.begin()
                for change, position in self._polled(stop) if self._polling else self._streamed(stop):
                    if change:
                        # guard: the position is saved after the change was read
                        read(change)
                    if self._must_save(position, moved=change is not None):
                        # guard, 2 lines: the position is saved after what was handed out is settled
                        settle()
                        self._save()
                    pause = FIRST_PAUSE_SECONDS
                # guard, 2 lines: a follower that stops settles what it handed out before it saves its position
                settle()
                self._save()
            except (PyMongoError, Unavailable) as error:
                # guard: a follower goes on after a rollback of the primary
                if isinstance(error, PyMongoError) and not is_away(error) and not _is_resumable(error):
                    raise
                log.warning("the follower waits for MongoDB: %s", type(error).__name__)
            stop.wait(random.uniform(pause / 2, pause))
            pause = min(pause * 2, MAX_PAUSE_SECONDS)

    def _must_save(self, position: Document, *, moved: bool) -> bool:
        """Take over the position; return True after `batch` changes, at a pause, and at times while idle.

        The token of an idle stream advances too; a saved one that is too old would drop out of the oplog.
        """
        self._position = position
        self._unsaved += moved
        idle_for_long = time.monotonic() > self._saved_at + IDLE_SAVE_SECONDS
        # guard: the position of an idle stream is saved
        return self._unsaved >= self._batch or (not moved and (self._unsaved > 0 or idle_for_long))

    @operation()
    def _save(self) -> None:
        if self._name and self._position is not None:
            stored = {"position": {"$literal": self._position}, "saved_at": "$$NOW"}
            self._db[NAME].update_one(POSITION(name=self._name), [{"$set": stored}], upsert=True)
        self._unsaved = 0
        self._saved_at = time.monotonic()

    # ---- by change stream ----

    def _open(self, position: Document, *, wait_seconds: float) -> Any:
        """Open a change stream at the position, which polling may have saved; an empty one means now."""
        names = [source.collection for source in self._sources]
        start: Document = {"resume_after": position["token"]} if "token" in position else {}
        if position and not start:
            seconds = position["since"].timestamp() - self._overlap_seconds
            start = {"start_at_operation_time": Timestamp(int(seconds), 0)}
        wanted = {"ns.coll": {"$in": names}, "operationType": {"$in": KINDS}}
        read = [*READ, "fullDocument"] if self._look_up else READ
        return self._db.watch(
            [{"$match": wanted}, {"$project": dict.fromkeys(read, 1)}],
            full_document="updateLookup" if self._look_up else None,
            max_await_time_ms=round(wait_seconds * 1000),
            **start,
        )

    def _streamed(self, stop: threading.Event) -> Iterator[Step]:
        since = (self._position or {}).get("since")
        try:
            wait_seconds = AT_ONCE_SECONDS if self._read_every_seconds else WAIT_SECONDS
            with self._open(self._position or {}, wait_seconds=wait_seconds) as stream:
                while not stop.is_set() and stream.alive:
                    event = stream.try_next()
                    # guard: the position of an idle stream advances
                    token = event["_id"] if event else stream.resume_token
                    yield _change(event) if event else None, {"token": token, "since": since}
                    if event is None:
                        stop.wait(self._read_every_seconds)
        except OperationFailure as error:
            # guard: a position that the oplog has lost is a gap
            if error.code in HISTORY_LOST:
                yield from self._gap(self._position or {})
            else:
                self._poll_from_now_on(error)

    def _gap(self, lost: Document) -> Iterator[Step]:
        """Yield a gap for each collection. The lost position stays until all of them are read: a crash repeats them."""
        log.warning("the oplog no longer has the position of %s: changes were missed", self._name or "a live feed")
        position = self._current_position()
        for source in self._sources:
            # guard: a lost position stays until the gaps of all collections are read
            yield Change("gap", source.collection), lost
        yield None, position

    # ---- by polling ----

    def _polled(self, stop: threading.Event) -> Iterator[Step]:
        seen: dict[tuple[str, str], datetime] = {}
        while not stop.is_set():
            since: datetime = (self._position or {})["since"]
            with operation(reads_only=True):
                # guard: polling finds writes that become visible late
                looked_at = max(since, server_now(self._db) - timedelta(seconds=self._overlap_seconds))
            idle = True
            try:
                for at, change in self._poll(since, looked_at, seen):
                    yield change, {"since": max(since, min(at, looked_at))}
                    idle = False
            except CursorNotFound:  # the reader took longer than the server keeps a cursor
                continue
            for key in [key for key, at in seen.items() if at < looked_at]:
                del seen[key]
            yield None, {"since": looked_at}
            if idle:
                stop.wait(self._poll_seconds)

    def _poll(
        self, since: datetime, looked_at: datetime, seen: dict[tuple[str, str], datetime]
    ) -> Iterator[tuple[datetime, Change]]:
        """Yield the changes since `since` by time.

        The next poll reads those from `looked_at` on again, since concurrent writes may become visible late.
        """
        by_source = [self._changed(source.collection, source.since, since) for source in self._sources if source.since]
        for at, change in heapq.merge(*by_source, key=itemgetter(0)):
            key = (change.collection, repr(change.document_id))  # an id may be a document
            # guard: polling repeats nothing
            if seen.get(key) != at:
                if at >= looked_at:
                    seen[key] = at
                yield at, change

    def _changed(self, name: str, field: str, since: datetime) -> Iterator[tuple[datetime, Change]]:
        for document in self._db[name].find({field: {"$gte": since}}).sort(field, 1):
            yield document[field], Change("seen", name, document["_id"], document)


def _is_resumable(error: PyMongoError) -> bool:
    """Return whether a stream that ended with this error can be opened again at its position."""
    if isinstance(error, OperationFailure) and error.code in (QUERY_KILLED, CURSOR_KILLED):
        return True
    return error.has_error_label("ResumableChangeStreamError")


def _change(event: Document) -> Change:
    kind = event["operationType"]
    return Change(kind, event["ns"]["coll"], event["documentKey"]["_id"], event.get("fullDocument"))
