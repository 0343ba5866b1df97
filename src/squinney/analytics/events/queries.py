"""All queries of the event log, each declared once."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from squinney.mongo.queries import Pipeline, Query, declared
from squinney.mongo.schema import Document

_START, _END = datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC)
_RANGE: dict[str, Any] = {"start": _START, "end": _END}
# Reports compare only this many characters of a path: a cursor contains the path and must fit into a URL.
LONGEST_IN_A_REPORT = 512
_ALL_PATHS = "events of one time have different paths, so they are on all shards"


def within(start: datetime, end: datetime) -> Document:
    """Return the condition for times from `start` (included) to `end` (excluded)."""
    return {"$gte": start, "$lt": end}


BY_PATH = Query(
    "events.by-path",
    "events",
    where=lambda path, start, end: {"path": path, "time": within(start, end)},
    example={"path": "/", **_RANGE},
    sort=[("time", 1)],
)
BY_HOST = Query(
    "events.by-host",
    "events",
    where=lambda host, start, end: {"host": host, "time": within(start, end)},
    example={"host": "203.0.113.7", **_RANGE},
    sort=[("time", 1)],
    routing="broadcast",
    reason="a visitor's requests have different paths, so they are on all shards",
)
BETWEEN = Query(
    "events.between",
    "events",
    where=lambda start, end: {"time": within(start, end)},
    example=_RANGE,
    sort=[("time", 1)],
    routing="broadcast",
    reason=_ALL_PATHS,
)


def _of_source(source: str, after: int = 0, until: int | None = None) -> Document:
    """Return the range of the source's ids; "." is the character after "-", so the range ends there."""
    end = f"{source}." if until is None else f"{source}-{until:012x}"
    return {"_id": {"$gte": f"{source}-{after:012x}", "$lt": end}}


OF_SOURCE = Query(
    "events.of-source",
    "events",
    where=_of_source,
    example={"source": "5d41402abc4b2a76", "after": 0, "until": 4096},
    sort=[("_id", 1)],
    routing="broadcast",
    reason="an import's events have different paths, so they are on all shards",
)


def _by_day_and_path(
    start: datetime, end: datetime, limit: int, after: tuple[datetime, str] | None = None
) -> list[Document]:
    day = {"$dateTrunc": {"date": "$time", "unit": "day"}}
    path = {"$substrCP": [{"$ifNull": ["$path", ""]}, 0, LONGEST_IN_A_REPORT]}
    rest: list[Document] = [{"$match": {"_id": {"$gt": {"day": after[0], "path": after[1]}}}}] if after else []
    return [
        {"$match": {"time": within(start, end)}},
        {"$group": {"_id": {"day": day, "path": path}, "count": {"$sum": 1}}},
        *rest,
        {"$sort": {"_id": 1}},
        {"$limit": limit},
    ]


BY_DAY_AND_PATH = Pipeline(
    "events.by-day-and-path",
    "events",
    stages=_by_day_and_path,
    example={**_RANGE, "limit": 1_000, "after": (_START, "/")},
    routing="broadcast",
    reason=_ALL_PATHS,
)
BY_STATUS = Pipeline(
    "events.by-status",
    "events",
    stages=lambda start, end, site=None: [
        {"$match": {"time": within(start, end), **({} if site is None else {"site": site or None})}},
        {"$group": {"_id": "$status", "count": {"$sum": 1}}},
    ],
    example=_RANGE,
    routing="broadcast",
    reason=_ALL_PATHS,
)
IMPORTS = Query(
    "events.imports",
    "imports",
    where=dict,
    sort=[("updated_at", -1), ("_id", 1)],
)
REJECTS = Query(
    "events.rejects",
    "rejects",
    where=lambda source: {"source": source},
    example={"source": "5d41402abc4b2a76"},
    sort=[("source", 1), ("offset", 1)],
    routing="broadcast",
    reason="there are few rejects, and only people read them",
)
QUERIES = declared(globals())
