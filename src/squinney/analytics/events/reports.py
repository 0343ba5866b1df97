"""Reports over events that may have any number of rows, and so come in pages."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from squinney.analytics.calendar import floor
from squinney.analytics.events import queries
from squinney.analytics.events.readers import Readers
from squinney.errors import Invalid
from squinney.mongo.schema import Document
from squinney.patterns.paging import Page, cut, keys_of

Row = tuple[datetime, str]  # a day and a path

DAY_AND_PATH = [("day", 1), ("path", 1)]


def by_day_and_path(
    readers: Readers, start: datetime, end: datetime, *, cursor: str | None, limit: int
) -> Page[Document]:
    """The rows behind the cursor, by day and path; a page looks at the days that it takes, and some more."""
    behind = None if cursor is None else _behind(cursor)
    found: list[Document] = []
    for first, last in _spans(max(start, behind[0]) if behind else start, end):
        counts = readers.count(
            queries.BY_DAY_AND_PATH(start=first, end=last, behind=behind, limit=limit + 1),
            first,
            last,
            of_row=lambda row: (row["day"], row["path"]),
            of_event=lambda event: (floor(event["time"], "day", UTC), _cut(event.get("path"))),
        )
        rows = sorted(row for row in counts if behind is None or row > behind)
        found += [{"day": day, "path": path, "count": counts[day, path]} for day, path in rows]
        if len(found) > limit:
            break
    return cut(found, DAY_AND_PATH, limit=limit)


def _behind(cursor: str) -> Row:
    day, path = keys_of(DAY_AND_PATH, cursor).values()
    if not isinstance(day, datetime) or not isinstance(path, str):
        raise Invalid("cursor is not one that this list gave", field="cursor")
    return day, path


def _cut(path: str | None) -> str:
    return (path or "")[: queries.LONGEST_IN_A_REPORT]


def _spans(start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """One day, then two, four and so on: a few full days fill a page, and many that are empty take few questions."""
    days = 1
    while start < end:
        last = floor(start, "day", UTC) + timedelta(days=min(days, (end - start).days + 1))
        yield start, min(last, end)
        start, days = last, days * 2
