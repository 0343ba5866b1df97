"""All queries of the event log, each declared once. They find pages; within these, the events are filtered."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from squinney.analytics.rules import within
from squinney.mongo.queries import Pipeline, Query, declared, problem_query
from squinney.mongo.schema import Document

_START, _END = datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC)
_RANGE: dict[str, Any] = {"start": _START, "end": _END}
_SOURCE = "5d41402abc4b2a76"
# Reports compare only this many characters of a path: a cursor contains the path and must fit into a URL.
MAX_REPORTED_LENGTH = 512
_ALL_SHARDS = "pages are spread over all shards by a hash of their id"
UNWOUND: Document = {"$unwind": "$events"}


def pages_between(start: datetime, end: datetime) -> Document:
    """Return the condition for pages that may have events of this time: a page is within one hour."""
    # guard: a page that begins before a time may have events of it
    hour = start.replace(minute=0, second=0, microsecond=0)
    return {"from": within(hour, end), "to": {"$gte": start}}


def event_stages_between(start: datetime, end: datetime, site: str | None = None) -> list[Document]:
    """Return the stages that yield the events of a time, of one site or of all, each as `events` of its page."""
    of_site: Document = {} if site is None else {"site": site or None}
    return [
        {"$match": {**pages_between(start, end), **of_site}},
        UNWOUND,
        {"$match": {"events.time": within(start, end)}},
    ]


def _wanted(path: str | None, host: str | None) -> dict[str, str]:
    return {name: value for name, value in (("path", path), ("host", host)) if value is not None}


def _of_pages(path: str | None, host: str | None) -> Document:
    return {f"events.{name}": value for name, value in _wanted(path, host).items()}


def _read(start: datetime, end: datetime, path: str | None = None, host: str | None = None) -> list[Document]:
    """Return the pages that may have such events, with these events only."""
    conditions = [
        {"$gte": ["$$event.time", start]},
        {"$lt": ["$$event.time", end]},
        *({"$eq": [f"$$event.{name}", {"$literal": value}]} for name, value in _wanted(path, host).items()),
    ]
    matching = {"$filter": {"input": "$events", "as": "event", "cond": {"$and": conditions}}}
    return [
        {"$match": {**_of_pages(path, host), **pages_between(start, end)}},
        {"$project": {"site": 1, "forget_at": 1, "events": matching}},
    ]


def _pages(name: str, **example: Any) -> Pipeline:
    return Pipeline(
        f"events.{name}",
        "analytics.events",
        stages=_read,
        example={**_RANGE, **example},
        routing="broadcast",
        reason=_ALL_SHARDS,
    )


def _begins(name: str, **example: Any) -> Query:
    """Return the query for the pages that begin in a time."""
    return Query(
        f"events.{name}-begins",
        "analytics.events",
        where=lambda start, end, path=None, host=None: {**_of_pages(path, host), "from": {"$gt": start, "$lt": end}},
        example={**_RANGE, **example},
        sort=[("from", 1)],
        routing="broadcast",
        reason=_ALL_SHARDS,
    )


BY_PATH, BY_PATH_BEGINS = _pages("by-path", path="/"), _begins("by-path", path="/")
BY_HOST, BY_HOST_BEGINS = _pages("by-host", host="203.0.113.7"), _begins("by-host", host="203.0.113.7")
BETWEEN, BETWEEN_BEGINS = _pages("between"), _begins("between")
BEGINS = {BY_PATH.name: BY_PATH_BEGINS, BY_HOST.name: BY_HOST_BEGINS, BETWEEN.name: BETWEEN_BEGINS}

OF_SOURCE = Query(
    "events.of-source",
    "analytics.events",
    where=lambda source, after=0, until=None: {
        "source": source,
        **({} if until is None else {"end": {"$gt": after, "$lte": until}}),
    },
    example={"source": _SOURCE, "after": 0, "until": 4096},
    sort=[("end", 1)],
    routing="broadcast",
    reason=_ALL_SHARDS,
)
_HOUR = {"$dateTrunc": {"date": "$from", "unit": "hour"}}
LOOSE_HOURS = Pipeline(
    "events.loose-hours",
    "analytics.events",
    stages=lambda before: [
        {"$match": {"loose": True, "from": {"$lt": before}}},
        {"$group": {"_id": {"source": "$source", "hour": _HOUR}, "pages": {"$sum": 1}}},
        {"$match": {"pages": {"$gt": 1}}},
        {"$sort": {"_id": 1}},
    ],
    example={"before": _END},
    routing="broadcast",
    reason=_ALL_SHARDS,
)
LOOSE_PAGES = Query(
    "events.loose-pages",
    "analytics.events",
    where=lambda source, start, end: {"loose": True, "from": within(start, end), "source": source},
    example={"source": _SOURCE, "start": _START, "end": _START + timedelta(hours=1)},
    sort=[("from", 1)],
    routing="broadcast",
    reason=_ALL_SHARDS,
)
BEFORE = Query(
    "events.before",
    "analytics.events",
    where=lambda end: {"from": {"$lt": end}},
    example={"end": _END},
    routing="broadcast",
    reason=_ALL_SHARDS,
)


def _by_day_and_path(
    start: datetime, end: datetime, limit: int, after: tuple[datetime, str] | None = None
) -> list[Document]:
    day = {"$dateTrunc": {"date": "$events.time", "unit": "day"}}
    path = {"$substrCP": [{"$ifNull": ["$events.path", ""]}, 0, MAX_REPORTED_LENGTH]}
    rest: list[Document] = [{"$match": {"_id": {"$gt": {"day": after[0], "path": after[1]}}}}] if after else []
    return [
        *event_stages_between(start, end),
        {"$group": {"_id": {"day": day, "path": path}, "count": {"$sum": 1}}},
        *rest,
        {"$sort": {"_id": 1}},
        {"$limit": limit},
    ]


BY_DAY_AND_PATH = Pipeline(
    "events.by-day-and-path",
    "analytics.events",
    stages=_by_day_and_path,
    example={**_RANGE, "limit": 1_000, "after": (_START, "/")},
    routing="broadcast",
    reason=_ALL_SHARDS,
)
BY_STATUS = Pipeline(
    "events.by-status",
    "analytics.events",
    stages=lambda start, end, site=None: [
        *event_stages_between(start, end, site),
        {"$group": {"_id": "$events.status", "count": {"$sum": 1}}},
    ],
    example=_RANGE,
    routing="broadcast",
    reason=_ALL_SHARDS,
)
IMPORTS = Query(
    "events.imports",
    "analytics.imports",
    where=dict,
    sort=[("updated_at", -1), ("_id", 1)],
)
IMPORTS_NAMED = Query(
    "events.imports-named",
    "analytics.imports",
    where=lambda name: {"name": name},
    example={"name": "access.log"},
)
REJECTS = Query(
    "events.rejects",
    "analytics.rejects",
    where=lambda source: {"source": source},
    example={"source": _SOURCE},
    sort=[("source", 1), ("offset", 1)],
    routing="broadcast",
    reason="there are few rejects, and only people read them",
)
AHEAD_OF_IMPORT = Query(
    "events.ahead-of-import",
    "analytics.events",
    where=lambda source, offset: {"source": source, "end": {"$gt": offset}},
    example={"source": _SOURCE, "offset": 0},
    routing="broadcast",
    reason="find_problems() reads everything",
)
QUERIES = declared(globals())


def _misshapen() -> list[Document]:
    """Find pages that do not say what is in them; `why` has what is wrong.

    Events without an hour, or of another one, would be missed by every reader.
    """
    events, hour = {"$ifNull": ["$events", []]}, {"date": "$from", "format": "%Y-%m-%dT%H", "onNull": "?"}
    begin = {"$concat": [{"$dateToString": hour}, "/", {"$ifNull": ["$source", "?"]}, "/"]}
    to_hour = {"$dateToString": {**hour, "date": "$to"}}
    right = {
        "n": {"$eq": ["$n", {"$size": events}]},
        "from": {"$eq": ["$from", {"$min": "$events.time"}]},
        "to": {"$eq": ["$to", {"$max": "$events.time"}]},
        "more than one hour": {"$eq": [to_hour, {"$dateToString": hour}]},
        "_id": {"$eq": [{"$indexOfCP": [{"$toString": "$_id"}, begin]}, 0]},
        "no events": {"$gt": [{"$size": events}, 0]},
        "site": {"$in": [{"$type": "$site"}, ["missing", "string"]]},
    }
    why = {"$concatArrays": [{"$cond": [is_right, [], [name]]} for name, is_right in right.items()]}
    return [{"$project": {"n": 1, "from": 1, "to": 1, "why": why}}, {"$match": {"why": {"$ne": []}}}]


MISSHAPEN = problem_query("events.misshapen", "analytics.events", _misshapen)
