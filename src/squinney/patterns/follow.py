"""Following changes by a resumable change stream, or by polling if the server provides no change stream.

`Follower.follow` passes changes to one reader in the order in which the server made them. It saves its position after
every `batch` changes and at each pause. After a crash a follower continues at the saved position: its reader misses
nothing, and sees at most the last `batch` changes again. If the server's oplog no longer contains the position, the
reader gets a `gap` change for each collection and must read the data again. A document that a two-phase run inserts is
reported when the run is decided. Polling reports no deletes, may merge several changes of one document, and repeats up
to `overlap_seconds` of changes after a restart.

`Feed` is for live pages: one thread per process follows new changes and fills a bounded queue for each reader. A reader
that is too slow loses its queued changes and gets a `gap` for each collection instead. It does not delay other readers.
"""

from __future__ import annotations

import heapq
import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from operator import itemgetter
from typing import Any

from bson.timestamp import Timestamp
from pymongo.errors import CursorNotFound, OperationFailure, PyMongoError

from squinney.errors import Unavailable
from squinney.mongo.connect import is_away, operation, server_now
from squinney.mongo.pinned import pinned
from squinney.mongo.queries import Pipeline, Query
from squinney.mongo.schema import Collection, Db, Document
from squinney.transactions import visible

log = logging.getLogger(__name__)

NAME = "followers"
COLLECTIONS = [Collection(NAME, shard_key={"_id": "hashed"})]
POSITION = Query("followers.position", NAME, where=lambda name: {"_id": name}, example={"name": "f"})
QUERIES: list[Query | Pipeline] = [POSITION]

HISTORY_LOST = (136, 260, 280, 286)  # position lost, token no longer valid, fatal, history lost
NO_STREAMS = (13, 20, 59, 40573, 40415)  # not authorised, illegal operation, no such command, not a replica set
KINDS = ["insert", "update", "replace", "delete"]
# A change event also contains its session, its times and the fields it set: these double the time to send and decode.
READ = ["operationType", "ns.coll", "documentKey._id", "updateDescription.removedFields"]
WAIT_SECONDS = 0.5
AT_ONCE_SECONDS = 0.001
FIRST_PAUSE_SECONDS = 0.1
IDLE_SAVE_SECONDS = 10.0
MOST_PAUSE_SECONDS = 10.0


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
            saved = self._db[NAME].find_one(POSITION(name=self._name))
            self._position = saved["position"] if saved else None
        if self._position is None:
            self._position = self._current_position()
            self._save()

    def _current_position(self) -> Document:
        now = server_now(self._db)
        if self._polling:
            return {"since": now}
        try:
            with self._open({}, wait_seconds=AT_ONCE_SECONDS) as stream:
                stream.try_next()  # the first reply may contain a change: the position is after it
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
        """Pass changes to `read` until `stop` is set; wait while MongoDB is unavailable.

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
                        read(change)
                    if self._must_save(position, moved=change is not None):
                        settle()
                        self._save()
                    pause = FIRST_PAUSE_SECONDS
                settle()
                self._save()
            except (PyMongoError, Unavailable) as error:
                if isinstance(error, PyMongoError) and not is_away(error):
                    raise
                log.warning("the follower waits for MongoDB: %s", type(error).__name__)
            stop.wait(random.uniform(pause / 2, pause))
            pause = min(pause * 2, MOST_PAUSE_SECONDS)

    def _must_save(self, position: Document, *, moved: bool) -> bool:
        """Take over the position; return True after `batch` changes, at a pause, and at times while idle.

        The token of an idle stream advances too; a saved one that is too old would drop out of the oplog.
        """
        self._position = position
        self._unsaved += moved
        idle_for_long = time.monotonic() > self._saved_at + IDLE_SAVE_SECONDS
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
        wanted = {"ns.coll": {"$in": names}, "operationType": {"$in": KINDS}, "fullDocument.txn_stub": None}
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
                    token = event["_id"] if event else stream.resume_token
                    yield _change(event) if event else None, {"token": token, "since": since}
                    if event is None:
                        stop.wait(self._read_every_seconds)
        except OperationFailure as error:
            if error.code in HISTORY_LOST:
                yield from self._gap(self._position or {})
            else:
                self._poll_from_now_on(error)

    def _gap(self, lost: Document) -> Iterator[Step]:
        """Yield a gap for each collection. The lost position stays until all of them are read: a crash repeats them."""
        log.warning("the oplog no longer has the position of %s: changes were missed", self._name or "a live feed")
        position = self._current_position()
        for source in self._sources:
            yield Change("gap", source.collection), lost
        yield None, position

    # ---- by polling ----

    def _polled(self, stop: threading.Event) -> Iterator[Step]:
        seen: dict[tuple[str, str], datetime] = {}
        while not stop.is_set():
            since: datetime = (self._position or {})["since"]
            with operation(reads_only=True):
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
        found = [self._changed(source.collection, source.since, since) for source in self._sources if source.since]
        for at, change in heapq.merge(*found, key=itemgetter(0)):
            key = (change.collection, repr(change.document_id))  # an id may be a document
            if seen.get(key) != at:
                if at >= looked_at:
                    seen[key] = at
                yield at, change

    def _changed(self, name: str, field: str, since: datetime) -> Iterator[tuple[datetime, Change]]:
        for document in self._db[name].find(visible({field: {"$gte": since}})).sort(field, 1):
            yield document[field], Change("seen", name, document["_id"], document)


def _change(event: Document) -> Change:
    kind = event["operationType"]
    if "txn_stub" in event.get("updateDescription", {}).get("removedFields", ()):
        kind = "insert"  # it was there before, but only as a stub of an undecided run
    return Change(kind, event["ns"]["coll"], event["documentKey"]["_id"], event.get("fullDocument"))


class Reader:
    """The bounded queue of one reader; close it or use it in a `with`."""

    def __init__(self, feed: Feed, wants: Callable[[Change], bool], size: int) -> None:
        self._feed = feed
        self._wants = wants
        self._waiting: deque[Change] = deque()
        self._size = size
        self._ready = threading.Condition()
        self.closed = False  # whether it gets no more changes

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def offer(self, change: Change) -> None:
        """Queue a change if it is wanted, without blocking.

        If the queue is full, it is replaced by one gap for each collection in it.
        """
        if change.kind != "gap" and not self._wants(change):
            return
        with self._ready:
            self._waiting.append(change)
            if len(self._waiting) > self._size:
                lost = dict.fromkeys(waiting.collection for waiting in self._waiting)
                self._waiting = deque(Change("gap", collection) for collection in lost)
            self._ready.notify()

    def next(self, timeout_seconds: float) -> Change | None:
        """Return the next change, or None after `timeout_seconds` or when the reader is closed."""
        with self._ready:
            self._ready.wait_for(lambda: self._waiting or self.closed, timeout_seconds)
            return self._waiting.popleft() if self._waiting else None

    def take_all(self) -> list[Change]:
        """Return all queued changes, without blocking."""
        with self._ready:
            taken = list(self._waiting)
            self._waiting.clear()
            return taken

    def close(self) -> None:
        """Stop getting changes."""
        with self._ready:
            self.closed = True
            self._ready.notify_all()
        self._feed.remove(self)


class Feed:
    """One thread that follows new changes and passes them to every reader of this process."""

    def __init__(self, db: Db, sources: Sequence[Source | str], *, polling: bool | None = None) -> None:
        self._new_follower = partial(Follower, db, None, sources, polling=polling)
        self._readers: set[Reader] = set()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def read(self, wants: Callable[[Change], bool] = lambda change: True, *, size: int = 256) -> Reader:
        """Return a new reader of the changes that `wants` accepts; it misses no change after this call.

        Raises: `Unavailable` if the feed cannot start.
        """
        with self._lock:
            if self._thread is None and not self._stop.is_set():
                follower = self._new_follower()
                follower.begin()
                self._thread = threading.Thread(target=self._run, args=(follower,), name="squinney-feed", daemon=True)
                self._thread.start()
            reader = Reader(self, wants, size)
            self._readers.add(reader)
        if self._stop.is_set():
            reader.close()
        return reader

    def _run(self, follower: Follower) -> None:
        try:
            follower.follow(self._offer, stop=self._stop)
        except Exception:  # all readers are closed, which reports it to them; a new reader restarts the feed
            log.exception("the feed has ended")
        with self._lock:
            self._thread = None
            readers = list(self._readers)
        for reader in readers:
            reader.close()

    def _offer(self, change: Change) -> None:
        with self._lock:
            readers = list(self._readers)
        for reader in readers:
            try:
                reader.offer(change)
            except Exception:  # an error in one reader's `wants` must not end the other readers
                log.exception("a reader of the feed is closed")
                reader.close()

    def remove(self, reader: Reader) -> None:
        """Send no more changes to the reader."""
        with self._lock:
            self._readers.discard(reader)

    def close(self) -> None:
        """Stop the thread and close every reader."""
        self._stop.set()
        with self._lock:
            readers, thread = list(self._readers), self._thread
        for reader in readers:
            reader.close()
        if thread is not None:
            thread.join(timeout=5)
