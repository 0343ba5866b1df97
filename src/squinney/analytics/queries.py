"""Every query of analytics, named once. Those of events are also asked of a day's or month's collection of them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from squinney.mongo.queries import Pipeline, Query
from squinney.mongo.schema import Document

_START, _END = datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC)
_RANGE: dict[str, Any] = {"start": _START, "end": _END}
# What of a path is told apart in a report: so much fits into a cursor, and a cursor into an address.
LONGEST_IN_A_REPORT = 512
_ALL_PATHS = "events of one time are spread over all paths, and so over all shards"


def within(start: datetime | None, end: datetime | None) -> Document:
    """From `start` to before `end`; None leaves a side open."""
    sides = {"$gte": start, "$lt": end}
    return {operator: value for operator, value in sides.items() if value is not None}


def _in_time(start: datetime | None, end: datetime | None) -> Document:
    return {"time": within(start, end)} if start or end else {}


BY_PATH = Query(
    "events.by-path",
    "events",
    where=lambda path, start=None, end=None: {"path": path, **_in_time(start, end)},
    example={"path": "/", **_RANGE},
    sort=[("time", 1)],
)
BY_HOST = Query(
    "events.by-host",
    "events",
    where=lambda host, start=None, end=None: {"host": host, **_in_time(start, end)},
    example={"host": "203.0.113.7", **_RANGE},
    sort=[("time", 1)],
    routing="broadcast",
    reason="a visitor's requests are spread over all paths, and so over all shards",
)
BETWEEN = Query(
    "events.between",
    "events",
    where=lambda start=None, end=None: _in_time(start, end),
    example=_RANGE,
    sort=[("time", 1)],
    routing="broadcast",
    reason=_ALL_PATHS,
)
OF_SOURCE = Query(
    "events.of-source",
    "events",
    where=lambda source, after, until: {"_id": {"$gte": f"{source}-{after:012x}", "$lt": f"{source}-{until:012x}"}},
    example={"source": "5d41402abc4b2a76", "after": 0, "until": 4096},
    sort=[("_id", 1)],
    routing="broadcast",
    reason="an import's events are spread over all paths, and so over all shards",
)


def _by_day_and_path(
    start: datetime, end: datetime, limit: int, behind: tuple[datetime, str] | None = None
) -> list[Document]:
    day = {"$dateTrunc": {"date": "$time", "unit": "day"}}
    path = {"$substrCP": [{"$ifNull": ["$path", ""]}, 0, LONGEST_IN_A_REPORT]}
    rest: list[Document] = [{"$match": {"_id": {"$gt": {"day": behind[0], "path": behind[1]}}}}] if behind else []
    return [
        {"$match": _in_time(start, end)},
        {"$group": {"_id": {"day": day, "path": path}, "count": {"$sum": 1}}},
        *rest,
        {"$sort": {"_id": 1}},
        {"$limit": limit},
    ]


BY_DAY_AND_PATH = Pipeline(
    "events.by-day-and-path",
    "events",
    stages=_by_day_and_path,
    example={**_RANGE, "limit": 1_000, "behind": (_START, "/")},
    routing="broadcast",
    reason=_ALL_PATHS,
)
BY_STATUS = Pipeline(
    "events.by-status",
    "events",
    stages=lambda start, end, site=None: [
        {"$match": {**_in_time(start, end), **({} if site is None else {"site": site or None})}},
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
    reason="rejects are few, and read by people",
)
LOG_QUERIES: list[Query | Pipeline] = [
    BY_PATH,
    BY_HOST,
    BETWEEN,
    OF_SOURCE,
    BY_DAY_AND_PATH,
    BY_STATUS,
    IMPORTS,
    REJECTS,
]


def _of_page(site: str, page: str, start: datetime, end: datetime) -> Document:
    """Each field by its path: a filter on the whole sub-document would depend on the order of its keys."""
    return {"metadata.site": site, "metadata.page": page, "metadata.date": within(start, end)}


def _of_site(site: str, start: datetime, end: datetime) -> Document:
    return {"metadata.site": site, "metadata.date": within(start, end)}


_PAGE: dict[str, Any] = {"site": "example.org", "page": "/", **_RANGE}
_SITE: dict[str, Any] = {"site": "example.org", **_RANGE}
_ALL_PAGES = "a site's pages are spread over shards"

DAYS_OF_PAGE = Query("hits.days-of-page", "hits.daily", where=_of_page, example=_PAGE, sort=[("metadata.date", 1)])
MONTHS_OF_PAGE = Query(
    "hits.months-of-page", "hits.monthly", where=_of_page, example=_PAGE, sort=[("metadata.date", 1)]
)


def _hours_within(start: datetime, end: datetime) -> Document:
    """The hits of a day's document that lie between two whole hours."""
    hour = {"$dateAdd": {"startDate": "$metadata.date", "unit": "hour", "amount": {"$toInt": "$$hour.k"}}}
    inside = {"$and": [{"$gte": [hour, start]}, {"$lt": [hour, end]}]}
    hours = {"$filter": {"input": {"$objectToArray": "$hourly"}, "as": "hour", "cond": inside}}
    following = {"$dateAdd": {"startDate": "$metadata.date", "unit": "day", "amount": 1}}
    whole_day = {"$and": [{"$gte": ["$metadata.date", start]}, {"$lte": [following, end]}]}
    return {"$cond": [whole_day, "$total", {"$sum": {"$map": {"input": hours, "as": "h", "in": "$$h.v"}}}]}


def _top_pages(site: str, first_day: datetime, start: datetime, end: datetime, limit: int) -> list[Document]:
    return [
        {"$match": _of_site(site, first_day, end)},
        {"$group": {"_id": "$metadata.page", "hits": {"$sum": _hours_within(start, end)}}},
        {"$match": {"hits": {"$gt": 0}}},
        {"$sort": {"hits": -1, "_id": 1}},
        {"$limit": limit},
    ]


TOP_PAGES = Pipeline(
    "hits.top-pages",
    "hits.daily",
    stages=_top_pages,
    example={**_SITE, "first_day": _START, "limit": 10},
    routing="few",
    reason=_ALL_PAGES,
)


def _site_total(site: str, first_day: datetime, start: datetime, end: datetime) -> list[Document]:
    return [
        {"$match": _of_site(site, first_day, end)},
        {"$group": {"_id": None, "hits": {"$sum": _hours_within(start, end)}}},
    ]


SITE_TOTAL = Pipeline(
    "hits.site-total",
    "hits.daily",
    stages=_site_total,
    example={**_SITE, "first_day": _START},
    routing="few",
    reason=_ALL_PAGES,
)
SITES = Pipeline(
    "hits.sites",
    "hits.monthly",
    stages=lambda limit: [
        {"$sort": {"metadata.site": 1}},
        {"$group": {"_id": "$metadata.site"}},
        {"$sort": {"_id": 1}},
        {"$limit": limit},
    ],
    example={"limit": 10},
    routing="broadcast",
    reason="sites are spread over all shards",
)
HIT_QUERIES: list[Query | Pipeline] = [DAYS_OF_PAGE, MONTHS_OF_PAGE, TOP_PAGES, SITE_TOTAL, SITES]


def _values(field: Document | str) -> Document:
    """The numbers of a document of numbers, as an array."""
    pairs = {"$objectToArray": {"$ifNull": [field, {}]}}
    return {"$map": {"input": pairs, "as": "pair", "in": "$$pair.v"}}


def _unlike_minutes() -> list[Document]:
    """Days whose total, or any hour, is not the sum of its minutes."""
    hours = {
        "$map": {
            "input": {"$objectToArray": {"$ifNull": ["$minute", {}]}},
            "as": "hour",
            "in": {"k": "$$hour.k", "v": {"$sum": _values("$$hour.v")}},
        }
    }
    stored = {"$objectToArray": {"$ifNull": ["$hourly", {}]}}
    return [
        {"$set": {"summed": hours, "stored": stored}},
        {"$set": {"sum": {"$sum": "$summed.v"}}},
        {
            "$match": {
                "$expr": {
                    "$or": [
                        {"$ne": ["$sum", {"$ifNull": ["$total", 0]}]},
                        {"$not": {"$setEquals": ["$summed", "$stored"]}},
                    ]
                }
            }
        },
        {"$project": {"metadata": 1}},
    ]


UNLIKE_MINUTES = Pipeline(
    "hits.unlike-minutes",
    "hits.daily",
    stages=_unlike_minutes,
    routing="broadcast",
    reason="find_problems() reads everything",
)


def _unlike_days() -> list[Document]:
    """Months that are not what their days say, day by day; days of zero hits do not count."""
    month = {"$dateTrunc": {"date": "$metadata.date", "unit": "month"}}
    from_days: list[Document] = [
        {
            "$group": {
                "_id": {"date": month, "site": "$metadata.site", "page": "$metadata.page"},
                "days": {"$push": {"k": {"$toString": {"$dayOfMonth": "$metadata.date"}}, "v": "$total"}},
                "total": {"$sum": "$total"},
            }
        },
    ]
    from_months: list[Document] = [
        {
            "$project": {
                "_id": {"date": "$metadata.date", "site": "$metadata.site", "page": "$metadata.page"},
                "stored": {"$objectToArray": {"$ifNull": ["$daily", {}]}},
                "stored_total": "$total",
            }
        }
    ]
    real = {
        name: {"$filter": {"input": {"$ifNull": [f"${name}", []]}, "as": "day", "cond": {"$ne": ["$$day.v", 0]}}}
        for name in ("days", "stored")
    }
    same_days = {"$setEquals": [real["days"], real["stored"]]}
    same_total = {"$eq": [{"$ifNull": ["$total", 0]}, {"$ifNull": ["$stored_total", 0]}]}
    together = {name: {"$max": f"${name}"} for name in ("days", "total", "stored", "stored_total")}
    return [
        *from_days,
        {"$unionWith": {"coll": "hits.monthly", "pipeline": from_months}},
        {"$group": {"_id": "$_id", **together}},
        {"$match": {"$expr": {"$not": {"$and": [same_days, same_total]}}}},
    ]


UNLIKE_DAYS = Pipeline(
    "hits.unlike-days",
    "hits.daily",
    stages=_unlike_days,
    routing="broadcast",
    reason="find_problems() reads everything",
)
CHECKS: list[Query | Pipeline] = [UNLIKE_MINUTES, UNLIKE_DAYS]
