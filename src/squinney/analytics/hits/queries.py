"""All queries of hits, each declared once."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from squinney.analytics.rules import within
from squinney.mongo.queries import Pipeline, Query, problem_query
from squinney.mongo.schema import Document

_START, _END = datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC)
_RANGE: dict[str, Any] = {"start": _START, "end": _END}


def _of_page(site: str, page: str, start: datetime, end: datetime) -> Document:
    """Filter by each field's path, because a filter on the whole sub-document depends on the order of its keys."""
    return {"metadata.site": site, "metadata.page": page, "metadata.date": within(start, end)}


def _of_site(site: str, start: datetime, end: datetime) -> Document:
    return {"metadata.site": site, "metadata.date": within(start, end)}


_PAGE: dict[str, Any] = {"site": "example.org", "page": "/", **_RANGE}
_SITE: dict[str, Any] = {"site": "example.org", **_RANGE}
_ALL_PAGES = "a site's pages are on several shards"

DAYS_OF_PAGE = Query(
    "hits.days-of-page", "analytics.hits_daily", where=_of_page, example=_PAGE, sort=[("metadata.date", 1)]
)
MONTHS_OF_PAGE = Query(
    "hits.months-of-page", "analytics.hits_monthly", where=_of_page, example=_PAGE, sort=[("metadata.date", 1)]
)
DAYS_OF_SITE = Query(
    "hits.days-of-site", "analytics.hits_daily", where=_of_site, example=_SITE, routing="few", reason=_ALL_PAGES
)
MONTHS_OF_SITE = Query(
    "hits.months-of-site", "analytics.hits_monthly", where=_of_site, example=_SITE, routing="few", reason=_ALL_PAGES
)


def _hours_within(start: datetime, end: datetime) -> Document:
    """Return the expression for a day's hits between two whole hours."""
    hour = {"$dateAdd": {"startDate": "$metadata.date", "unit": "hour", "amount": {"$toInt": "$$hour.k"}}}
    inside = {"$and": [{"$gte": [hour, start]}, {"$lt": [hour, end]}]}
    hours = {"$filter": {"input": {"$objectToArray": "$hourly"}, "as": "hour", "cond": inside}}
    following = {"$dateAdd": {"startDate": "$metadata.date", "unit": "day", "amount": 1}}
    whole_day = {"$and": [{"$gte": ["$metadata.date", start]}, {"$lte": [following, end]}]}
    return {"$cond": [whole_day, "$total", {"$sum": {"$map": {"input": hours, "as": "h", "in": "$$h.v"}}}]}


TOP_PAGES = Pipeline(
    "hits.top-pages",
    "analytics.hits_daily",
    stages=lambda site, first_day, start, end, limit: [
        {"$match": _of_site(site, first_day, end)},
        {"$group": {"_id": "$metadata.page", "hits": {"$sum": _hours_within(start, end)}}},
        {"$match": {"hits": {"$gt": 0}}},
        {"$sort": {"hits": -1, "_id": 1}},
        {"$limit": limit},
    ],
    example={**_SITE, "first_day": _START, "limit": 10},
    routing="few",
    reason=_ALL_PAGES,
)
SITE_TOTAL = Pipeline(
    "hits.site-total",
    "analytics.hits_daily",
    stages=lambda site, first_day, start, end: [
        {"$match": _of_site(site, first_day, end)},
        {"$group": {"_id": None, "hits": {"$sum": _hours_within(start, end)}}},
    ],
    example={**_SITE, "first_day": _START},
    routing="few",
    reason=_ALL_PAGES,
)
SITES = Pipeline(
    "hits.sites",
    "analytics.hits_monthly",
    stages=lambda limit: [
        {"$sort": {"metadata.site": 1}},
        {"$group": {"_id": "$metadata.site"}},
        {"$sort": {"_id": 1}},
        {"$limit": limit},
    ],
    example={"limit": 10},
    routing="broadcast",
    reason="sites are on all shards",
)
QUERIES: list[Query | Pipeline] = [
    DAYS_OF_PAGE,
    MONTHS_OF_PAGE,
    DAYS_OF_SITE,
    MONTHS_OF_SITE,
    TOP_PAGES,
    SITE_TOTAL,
    SITES,
]


def _pairs(field: str) -> Document:
    """Return the expression for the names and values of a sub-document, as an array of {k, v}."""
    return {"$objectToArray": {"$ifNull": [field, {}]}}


def _unlike_minutes() -> list[Document]:
    """Find days whose total or hours differ from the sum of their minutes."""
    minutes = {"$map": {"input": _pairs("$$hour.v"), "as": "minute", "in": "$$minute.v"}}
    hour = {"k": "$$hour.k", "v": {"$sum": minutes}}
    summed = {"$map": {"input": _pairs("$minute"), "as": "hour", "in": hour}}
    other_total = {"$ne": [{"$sum": "$summed.v"}, {"$ifNull": ["$total", 0]}]}
    other_hours = {"$not": {"$setEquals": ["$summed", _pairs("$hourly")]}}
    return [
        {"$set": {"summed": summed}},
        {"$match": {"$expr": {"$or": [other_total, other_hours]}}},
        {"$project": {"metadata": 1}},
    ]


UNLIKE_MINUTES = problem_query("hits.unlike-minutes", "analytics.hits_daily", _unlike_minutes)


def _unlike_days() -> list[Document]:
    """Find months whose total or days differ from the documents of their days; days with zero hits are ignored."""
    page = {"site": "$metadata.site", "page": "$metadata.page"}
    month = {"date": {"$dateTrunc": {"date": "$metadata.date", "unit": "month"}}, **page}
    day = {"k": {"$toString": {"$dayOfMonth": "$metadata.date"}}, "v": "$total"}
    stored = {"_id": {"date": "$metadata.date", **page}, "stored": _pairs("$daily"), "stored_total": "$total"}
    real = {
        name: {"$filter": {"input": {"$ifNull": [f"${name}", []]}, "as": "day", "cond": {"$ne": ["$$day.v", 0]}}}
        for name in ("days", "stored")
    }
    same_days = {"$setEquals": [real["days"], real["stored"]]}
    same_total = {"$eq": [{"$ifNull": ["$total", 0]}, {"$ifNull": ["$stored_total", 0]}]}
    together = {name: {"$max": f"${name}"} for name in ("days", "total", "stored", "stored_total")}
    return [
        {"$group": {"_id": month, "days": {"$push": day}, "total": {"$sum": "$total"}}},
        {"$unionWith": {"coll": "analytics.hits_monthly", "pipeline": [{"$project": stored}]}},
        {"$group": {"_id": "$_id", **together}},
        {"$match": {"$expr": {"$not": {"$and": [same_days, same_total]}}}},
    ]


UNLIKE_DAYS = problem_query("hits.unlike-days", "analytics.hits_daily", _unlike_days)
