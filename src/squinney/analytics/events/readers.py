"""Reading events in the order of their times, from pages that overlap."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import chain
from operator import itemgetter
from typing import cast

from squinney.analytics.calendar import floor
from squinney.analytics.events import queries
from squinney.analytics.events.documents import EVENTS, Event
from squinney.analytics.events.pages import events_of
from squinney.errors import Invalid
from squinney.mongo.deadlines import operation
from squinney.mongo.queries import Pipeline
from squinney.mongo.schema import Db, Document
from squinney.patterns.paging import Page, cursor_keys, page_from

SECONDS = 60
PAGES_AT_FIRST, PAGES_AT_ONCE = 16, 64
DAY_AND_PATH = [("day", 1), ("path", 1)]
EXACT_PAGES = 20_000
SAMPLED_PAGES = 1_000

Row = tuple[datetime, str]  # a day and a path


def stream(db: Db, query: Pipeline, start: datetime, end: datetime, **wanted: str) -> Iterator[Event]:
    """Yield the events, oldest first, those of one time in the order of the log; none is missed while pages are packed.

    Each step looks, in one snapshot, where the next pages begin, and reads all events before the last of these times.
    """
    size = PAGES_AT_FIRST
    begins = queries.BEGINS[query.name]
    while start < end:
        with operation(SECONDS, reads_only=True), db.client.start_session(snapshot=True) as session:
            next_pages = begins(start=start, end=end, **wanted)
            first = db[EVENTS].find(next_pages, {"_id": 0, "from": 1}, limit=size, session=session)
            times = [page["from"] for page in first.sort("from", 1)]
            until = times[-1] if len(times) == size else end
            pages = list(query.run(db, session=session, start=start, end=until, **wanted))
        in_order = chain.from_iterable(events_of(page) for page in sorted(pages, key=itemgetter("_id")))
        yield from cast(list[Event], sorted(in_order, key=itemgetter("time")))
        start, size = until, min(size * 2, PAGES_AT_ONCE)


def count(db: Db) -> int:
    """Return the number of events; of many pages only a sample is counted."""
    pages = db[EVENTS].estimated_document_count()
    if not pages:
        return 0
    sample = [{"$sample": {"size": SAMPLED_PAGES}}] if pages > EXACT_PAGES else []
    total: Document = {"_id": None, "events": {"$sum": "$n"}, "pages": {"$sum": 1}}
    row = next(iter(db[EVENTS].aggregate([*sample, {"$group": total}])), {"events": 0, "pages": 1})
    return round(row["events"] * pages / row["pages"]) if sample else int(row["events"])


def by_day_and_path(db: Db, start: datetime, end: datetime, *, cursor: str | None, limit: int) -> Page[Document]:
    """Return the page of rows after the cursor, sorted by day and path; it reads only as many days as needed."""
    after = None if cursor is None else _row_of(cursor)
    days: list[Document] = []
    for first, last in _spans(max(start, after[0]) if after else start, end):
        rows = queries.BY_DAY_AND_PATH.run(db, start=first, end=last, after=after, limit=limit + 1)
        days += [{**row["_id"], "count": row["count"]} for row in rows]
        if len(days) > limit:
            break
    return page_from(days, DAY_AND_PATH, limit=limit)


def _row_of(cursor: str) -> Row:
    day, path = cursor_keys(DAY_AND_PATH, cursor).values()
    if not isinstance(day, datetime) or not isinstance(path, str):
        raise Invalid("cursor is not a cursor of this list", field="cursor")
    return day, path


def _spans(start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Yield spans of one day, then two, four and so on, so that many empty days need only a few queries."""
    days = 1
    while start < end:
        last = floor(start, "day", UTC) + timedelta(days=min(days, (end - start).days + 1))
        yield start, min(last, end)
        start, days = last, days * 2
