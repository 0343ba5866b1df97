"""Hits from imported events, each counted once, whatever dies.

A source keeps how far its events are counted (`hits_offset`). One transaction moves that mark and adds the hits of
the events it passes, so neither can happen without the other.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from functools import partial
from itertools import groupby, islice
from typing import Any

from pymongo.client_session import ClientSession

from squinney.analytics.errors import UnknownSource
from squinney.analytics.events import queries
from squinney.analytics.events.partitions import EventPartitions, Events
from squinney.analytics.events.readers import Readers
from squinney.analytics.events.sources import offset_in
from squinney.analytics.hits.documents import LONGEST_PAGE
from squinney.analytics.hits.increments import Hit, Increments, transact
from squinney.mongo.connect import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db, Document

BATCH = 2_000
SECONDS = 60


def feed_hits(db: Db, source_id: str, *, batch: int = BATCH) -> int:
    """Count a source's stored events that are not counted yet as hits of its site; returns how many were.

    Events that were recorded singly belong to no source and are never fed: whoever records a view live counts it live.

    Atomic: one transaction per batch holds the increments and the compare-and-set of the source's `hits_offset`.
    After a crash: nothing half done; the next call goes on.
    Raises: `UnknownSource`, `Unavailable`.
    """
    return _count(db, source_id, batch, mark="hits_offset", end="offset", views=1)


def uncount_hits(db: Db, source_id: str) -> int:
    """Uncount a source's events that were counted as hits; returns how many were. It is the way back of `feed_hits`.

    Atomic: one transaction per batch, from the first event on; `hits_taken_back` says how far it came.
    After a crash: nothing half done; the next call goes on.
    Raises: `UnknownSource`, `Unavailable`.
    """
    return -_count(db, source_id, BATCH, mark="hits_taken_back", end="hits_offset", views=-1)


def _count(db: Db, source_id: str, batch: int, *, mark: str, end: str, views: int) -> int:
    """Count the source's events from its one mark to its other as so many views each, and move the one along."""
    db = pinned(db)
    readers = Readers(EventPartitions(db))
    counted = 0
    while True:
        with operation(SECONDS):
            source: Any = db["imports"].find_one({"_id": source_id})
            if source is None:
                raise UnknownSource(f"nothing was imported under {source_id}")
            done, last = source.get(mark, 0), source.get(end, 0)
            if done >= last:
                return counted
            events = list(islice(_events(readers, source_id, done, last, batch + 1), batch + 1))
            until = offset_in(events[batch]["_id"]) if len(events) > batch else last
            summed = Increments(
                Hit(event.get("site", source["site"]), event["path"][:LONGEST_PAGE], event["time"], views)
                for event in events[:batch]
                if "path" in event
            )
            unmoved = {"_id": source_id, mark: done or None}
            if transact(db, partial(_move_and_add, db, unmoved, {mark: until}, summed)):
                counted += summed.hits


def _events(readers: Readers, source_id: str, after: int, until: int, most: int) -> Iterator[Document]:
    """The source's first `most` events in the order of the file, wherever they are kept."""
    where = queries.OF_SOURCE(source=source_id, after=after, until=until)

    def read(partition: Events, session: ClientSession | None) -> Iterator[Document]:
        found = partition.find(where, {"path": 1, "time": 1, "site": 1}, limit=most, batch_size=most, session=session)
        return found.sort("_id", 1)

    merged = heapq.merge(*readers.streams(read), key=_id)
    return (next(same) for _, same in groupby(merged, key=_id))


def _id(event: Document) -> str:
    return str(event["_id"])


def _move_and_add(db: Db, unmoved: Document, moved: Document, summed: Increments, session: ClientSession) -> bool:
    """Move the source's mark and add the hits; false where another process has done so."""
    if not db["imports"].update_one(unmoved, {"$set": moved}, session=session).matched_count:
        return False
    summed.write(db, session)
    return True
