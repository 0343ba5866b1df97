"""Counting imported events as hits, each once, even after a crash: a source stores up to where it is counted."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from itertools import groupby
from typing import Any

from pymongo.client_session import ClientSession

from squinney.analytics.errors import UnknownSource
from squinney.analytics.events import queries
from squinney.analytics.events.documents import FORGETTING
from squinney.analytics.hits.documents import MAX_PAGE_LENGTH
from squinney.analytics.hits.increments import Hit, Increments, transact
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db, Document

BATCH = 2_000
PAGES_AT_ONCE = 20
_READ = {"end": 1, "site": 1, "events.path": 1, "events.time": 1}


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
    """Count the source's pages from the offset `mark` to the offset `end` as `views` each, and move `mark`."""
    db = pinned(db)
    counted = 0
    while True:
        moved = transact(db, partial(_count_batch, db, source_id, batch, mark, end, views))
        if moved is None:
            return counted
        counted += moved


def _count_batch(
    db: Db, source_id: str, batch: int, mark: str, end: str, views: int, session: ClientSession
) -> int | None:
    """Count about `batch` events; return None if nothing is left.

    It reads the pages in the transaction, so that they cannot be packed meanwhile: both write to the source's record.
    """
    source: Any = db["analytics.imports"].find_one({"_id": source_id}, session=session)
    if source is None:
        raise UnknownSource(f"nothing was imported under {source_id}")
    done, last = source.get(mark, 0), source.get(end, 0)
    # guard: hits of a log that is being forgotten are not counted
    if done >= last or (views > 0 and source["state"] == FORGETTING):
        return None
    summed, read, until = Increments(), 0, last
    pages = queries.OF_SOURCE.find(db, source=source_id, after=done, until=last, projection=_READ, session=session)
    for page_end, of_end in groupby(pages.batch_size(PAGES_AT_ONCE), lambda page: page["end"]):
        if read >= batch:
            break
        for page in of_end:
            read += len(page["events"])
            for path, at in _views(page):
                summed.add(Hit(page.get("site", source["site"]), path[:MAX_PAGE_LENGTH], at, views))
        until = page_end
    else:
        until = last
    db["analytics.imports"].update_one({"_id": source_id}, {"$set": {mark: until}}, session=session)
    summed.write(db, session)
    return summed.hits


def _views(page: Document) -> Iterator[tuple[str, datetime]]:
    return ((event["path"], event["time"]) for event in page["events"] if "path" in event)
