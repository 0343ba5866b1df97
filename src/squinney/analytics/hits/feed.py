"""Counting imported events as hits, each event once, even after a crash: a source stores up to where it is counted."""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import Any

from pymongo.client_session import ClientSession

from squinney.analytics.errors import UnknownSource
from squinney.analytics.events import queries
from squinney.analytics.events.partitions import EventPartitions
from squinney.analytics.events.readers import Readers
from squinney.analytics.events.sources import FORGETTING, offset_in
from squinney.analytics.hits.documents import LONGEST_PAGE
from squinney.analytics.hits.increments import Hit, Increments, transact
from squinney.mongo.connect import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db, Document

BATCH = 2_000
SECONDS = 60


def feed_hits(db: Db, source_id: str, *, batch: int = BATCH) -> int:
    """Count a source's events that are not counted yet as hits of its site, unless it is being forgotten.

    Returns their number. Events stored with `EventLog.record` belong to no source and are never counted here; record
    their hits with `Hits`.

    Atomic: one transaction per batch, with the increments and a compare-and-set of the source's `hits_offset`.
    After a crash: some batches are counted; the next call continues.
    Raises: `UnknownSource`, `Unavailable`.
    """
    return _count(db, source_id, batch, mark="hits_offset", end="offset", views=1)


def uncount_hits(db: Db, source_id: str) -> int:
    """Undo `feed_hits`: subtract the hits of a source's events; return their number.

    Atomic: one transaction per batch, from the first event on, which also moves the offset `hits_taken_back`.
    After a crash: some batches are subtracted; the next call continues.
    Raises: `UnknownSource`, `Unavailable`.
    """
    return -_count(db, source_id, BATCH, mark="hits_taken_back", end="hits_offset", views=-1)


def _count(db: Db, source_id: str, batch: int, *, mark: str, end: str, views: int) -> int:
    """Count the source's events from the offset `mark` to the offset `end` as `views` each, and move `mark`."""
    db = pinned(db)
    readers = Readers(EventPartitions(db))
    counted = 0
    while True:
        with operation(SECONDS):
            source: Any = db["imports"].find_one({"_id": source_id})
            if source is None:
                raise UnknownSource(f"nothing was imported under {source_id}")
            done, last = source.get(mark, 0), source.get(end, 0)
            if done >= last or (views > 0 and source["state"] == FORGETTING):
                return counted
            fields = {"path": 1, "time": 1, "site": 1}
            read = partial(readers.stream, queries.OF_SOURCE, projection=fields, in_snapshot=True)
            events = list(islice(read(source=source_id, after=done, until=last, limit=batch + 1), batch + 1))
            until = offset_in(events[batch]["_id"]) if len(events) > batch else last
            summed = Increments(
                Hit(event.get("site", source["site"]), event["path"][:LONGEST_PAGE], event["time"], views)
                for event in events[:batch]
                if "path" in event
            )
            unmoved = {"_id": source_id, mark: done or None, "state": source["state"]}
            if transact(db, partial(_move_and_add, db, unmoved, {mark: until}, summed)):
                counted += summed.hits


def _move_and_add(db: Db, unmoved: Document, moved: Document, summed: Increments, session: ClientSession) -> bool:
    """Move the source's offset and add the hits; return False if another process has moved the offset."""
    if not db["imports"].update_one(unmoved, {"$set": moved}, session=session).matched_count:
        return False
    summed.write(db, session)
    return True
