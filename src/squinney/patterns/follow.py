"""Following changes: a resumable change stream, with polling where the server has none to give.

The contract. `Follower.follow` hands changes to one reader, in the order in which the server made them, and saves its
place after every `batch` of them and at each pause. A follower that is killed goes on at the saved place: its reader
misses nothing, and sees again at most the last `batch` changes. Where the server no longer remembers the place (its
oplog has moved on), the reader gets a `gap` for each collection: it must read the data anew. What a two-phase run
inserts comes when the run is decided, not before. By polling there are no deletes, several changes of one document may
come as one, and a restart repeats up to `overlap_seconds` of them.

`Feed` is for live pages: one thread per process follows from now on and feeds bounded queues, one for each reader. A
reader that is too slow loses what waits for it and gets a `gap` for each collection instead; it holds up nobody.
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
PLACE = Query("followers.place", NAME, where=lambda name: {"_id": name}, example={"name": "f"})
QUERIES: list[Query | Pipeline] = [PLACE]

HISTORY_LOST = (136, 260, 280, 286)  # position lost, token not valid any more, fatal, history lost
NO_STREAMS = (13, 20, 59, 40573, 40415)  # not authorised, illegal operation, no such command, not a replica set
KINDS = ["insert", "update", "replace", "delete"]
# A change also tells its session, its times and the fields that it set, which take as long to send and to decode.
READ = ["operationType", "ns.coll", "documentKey._id", "updateDescription.removedFields"]
WAIT_SECONDS = 0.5
AT_ONCE_SECONDS = 0.001
FIRST_PAUSE_SECONDS = 0.1
IDLE_SAVE_SECONDS = 10.0
MOST_PAUSE_SECONDS = 10.0


@dataclass(frozen=True)
class Change:
    """One change. `document` is the document as it is now, None if it is gone; a `gap` has neither id nor document."""

    kind: str  # insert | update | replace | delete | seen (by polling) | gap
    collection: str
    document_id: Any = None
    document: Document | None = None


@dataclass(frozen=True)
class Source:
    """A collection to follow. `since` is a field that holds the time of the last change, for polling: it needs an
    index. Without one the collection cannot be polled."""

    collection: str
    since: str | None = None


Step = tuple[Change | None, Document]  # what came, or None for a pause; and the place behind it


class Follower:
    """Follows collections under a name, from the place saved under it; a new name begins now."""

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
        apart_seconds: float = 0.0,
    ) -> None:
        """`name` None saves nothing. `polling` None means: only where the server gives no change stream. Without
        `look_up` a stream's changes come without their documents, which saves the server a read for each. A stream is
        looked at so many seconds `apart`, and what came meanwhile is read together; 0: each change at once."""
        self._db = pinned(db)
        self._name = name
        self._sources = [Source(source) if isinstance(source, str) else source for source in sources]
        self._batch = batch
        self._poll_seconds = poll_seconds
        self._overlap_seconds = overlap_seconds
        self._polling = polling
        self._look_up = look_up
        self._apart_seconds = apart_seconds
        self._place: Document | None = None
        self._unsaved = 0
        self._saved_at = 0.0

    @operation()
    def begin(self) -> None:
        """Find the saved place, or save the present as the place, so that nothing after this call is missed.

        Atomic: one upsert.
        After a crash: the place is saved or it is not; nothing was handed out yet.
        Raises: `Unavailable`.
        """
        if self._name:
            saved = self._db[NAME].find_one(PLACE(name=self._name))
            self._place = saved["place"] if saved else None
        if self._place is None:
            self._place = self._present()
            self._save()

    def _present(self) -> Document:
        now = server_now(self._db)
        if self._polling:
            return {"since": now}
        try:
            with self._open({}, wait_seconds=AT_ONCE_SECONDS) as stream:
                stream.try_next()  # a change may have come with the first answer: the place is behind it
                return {"token": stream.resume_token, "since": now}
        except OperationFailure as error:
            if self._polling is False or error.code not in NO_STREAMS:
                raise
            log.info("no change stream here (%s): polling", error.code)
            self._polling = True
            return {"since": now}

    def follow(
        self, read: Callable[[Change], object], *, stop: threading.Event, settle: Callable[[], object] = lambda: None
    ) -> None:
        """Hand changes to `read` until `stop` is set. While MongoDB is away it waits; what `read` raises ends it.
        `settle` is called before each save of the place: a reader that gathers changes has dealt with them by then.

        Atomic: the place is saved by one update after `read` returned.
        After a crash: the next call repeats what was read since the place was last saved.
        Raises: what `read` raises; `OperationFailure` where the server refuses.
        """
        pause = FIRST_PAUSE_SECONDS
        while not stop.is_set():
            try:
                if self._place is None:
                    self.begin()
                for change, place in self._polled(stop) if self._polling else self._streamed(stop):
                    if change:
                        read(change)
                    if self._is_to_save(place, moved=change is not None):
                        settle()
                        self._save()
                    pause = FIRST_PAUSE_SECONDS
                settle()
                self._save()
            except (PyMongoError, Unavailable) as error:
                if isinstance(error, PyMongoError) and not is_away(error):
                    raise
                log.warning("following waits for MongoDB: %s", type(error).__name__)
            stop.wait(random.uniform(pause / 2, pause))
            pause = min(pause * 2, MOST_PAUSE_SECONDS)

    def _is_to_save(self, place: Document, *, moved: bool) -> bool:
        """After every `batch` changes, when there is a pause, and once in a while when nothing happens at all:
        an idle stream's token moves on too, and the oplog must not outrun it."""
        self._place = place
        self._unsaved += moved
        idle_for_long = time.monotonic() > self._saved_at + IDLE_SAVE_SECONDS
        return self._unsaved >= self._batch or (not moved and (self._unsaved > 0 or idle_for_long))

    @operation()
    def _save(self) -> None:
        if self._name and self._place is not None:
            stored = {"place": {"$literal": self._place}, "saved_at": "$$NOW"}
            self._db[NAME].update_one(PLACE(name=self._name), [{"$set": stored}], upsert=True)
        self._unsaved = 0
        self._saved_at = time.monotonic()

    # ---- by change stream ----

    def _open(self, place: Document, *, wait_seconds: float) -> Any:
        """From the place, also one that was reached by polling; from now on where it is empty."""
        names = [source.collection for source in self._sources]
        start: Document = {"resume_after": place["token"]} if "token" in place else {}
        if place and not start:
            seconds = place["since"].timestamp() - self._overlap_seconds
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
        since = (self._place or {}).get("since")
        try:
            wait_seconds = AT_ONCE_SECONDS if self._apart_seconds else WAIT_SECONDS
            with self._open(self._place or {}, wait_seconds=wait_seconds) as stream:
                while not stop.is_set() and stream.alive:
                    event = stream.try_next()
                    token = event["_id"] if event else stream.resume_token
                    yield _change(event) if event else None, {"token": token, "since": since}
                    if event is None:
                        stop.wait(self._apart_seconds)
        except OperationFailure as error:
            if error.code in HISTORY_LOST:
                yield from self._gap()
            elif self._polling is None and error.code in NO_STREAMS:
                log.info("no change stream here (%s): polling", error.code)
                self._polling = True
            else:
                raise

    def _gap(self) -> Iterator[Step]:
        log.warning("the server has forgotten the place of %s: a gap", self._name or "a live feed")
        place = self._present()
        for source in self._sources:
            yield Change("gap", source.collection), place
        yield None, place

    # ---- by polling ----

    def _polled(self, stop: threading.Event) -> Iterator[Step]:
        seen: dict[tuple[str, str], datetime] = {}
        while not stop.is_set():
            since: datetime = (self._place or {})["since"]
            with operation(reads_only=True):
                looked_at = max(since, server_now(self._db) - timedelta(seconds=self._overlap_seconds))
            idle = True
            try:
                for at, change in self._poll(since, looked_at, seen):
                    yield change, {"since": max(since, min(at, looked_at))}
                    idle = False
            except CursorNotFound:  # the reader took longer than the server waits
                continue
            for key in [key for key, at in seen.items() if at < looked_at]:
                del seen[key]
            yield None, {"since": looked_at}
            if idle:
                stop.wait(self._poll_seconds)

    def _poll(
        self, since: datetime, looked_at: datetime, seen: dict[tuple[str, str], datetime]
    ) -> Iterator[tuple[datetime, Change]]:
        """What changed since, in order of time; from `looked_at` on it is looked at again, for writes that became
        visible only now."""
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
        kind = "insert"  # it was there before, but nobody could know whether it would stay
    return Change(kind, event["ns"]["coll"], event["documentKey"]["_id"], event.get("fullDocument"))


class Reader:
    """One reader's bounded queue; close it or use it in a `with`."""

    def __init__(self, feed: Feed, wants: Callable[[Change], bool], size: int) -> None:
        self._feed = feed
        self._wants = wants
        self._waiting: deque[Change] = deque()
        self._size = size
        self._ready = threading.Condition()
        self._closed = False

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def offer(self, change: Change) -> None:
        """Queue a change if it is wanted; never waits. What does not fit becomes a gap for each collection of it."""
        if change.kind != "gap" and not self._wants(change):
            return
        with self._ready:
            self._waiting.append(change)
            if len(self._waiting) > self._size:
                lost = dict.fromkeys(waiting.collection for waiting in self._waiting)
                self._waiting = deque(Change("gap", collection) for collection in lost)
            self._ready.notify()

    def next(self, timeout_seconds: float) -> Change | None:
        """The next change, or None after so long without one or when closed."""
        with self._ready:
            self._ready.wait_for(lambda: self._waiting or self._closed, timeout_seconds)
            return self._waiting.popleft() if self._waiting else None

    def take_all(self) -> list[Change]:
        """All that wait, at once, without waiting."""
        with self._ready:
            taken = list(self._waiting)
            self._waiting.clear()
            return taken

    @property
    def closed(self) -> bool:
        """Whether nothing more will come."""
        return self._closed

    def close(self) -> None:
        """Want nothing more."""
        with self._ready:
            self._closed = True
            self._ready.notify_all()
        self._feed.forget(self)


class Feed:
    """One thread that follows from now on and feeds every reader of this process."""

    def __init__(
        self, db: Db, sources: Sequence[Source | str], *, polling: bool | None = None, poll_seconds: float = 1.0
    ) -> None:
        self._new_follower = partial(Follower, db, None, sources, polling=polling, poll_seconds=poll_seconds)
        self._readers: set[Reader] = set()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def read(self, wants: Callable[[Change], bool] = lambda change: True, *, size: int = 256) -> Reader:
        """A new reader of the changes it wants, from now on: what happens after this call is not missed.

        Raises: `Unavailable` where the feed cannot begin.
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
        except Exception:  # readers are told by their end; the next one to come begins anew
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
            except Exception:  # what one reader wants must not end the others
                log.exception("a reader of the feed is closed")
                reader.close()

    def forget(self, reader: Reader) -> None:
        """Feed it no more."""
        with self._lock:
            self._readers.discard(reader)

    def close(self) -> None:
        """End the thread and every reader."""
        self._stop.set()
        with self._lock:
            readers, thread = list(self._readers), self._thread
        for reader in readers:
            reader.close()
        if thread is not None:
            thread.join(timeout=5)
