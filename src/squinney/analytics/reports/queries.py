"""All queries of reports, each declared once. Events are read by the functions at the end, and nowhere else."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

from bson.max_key import MaxKey
from bson.min_key import MinKey
from pymongo.client_session import ClientSession

from squinney.analytics.calendar import EARLIEST
from squinney.analytics.events.pages import events_of
from squinney.analytics.events.queries import UNWOUND, pages_between
from squinney.analytics.policy import read_policy
from squinney.analytics.reports.documents import DAYS, GOALS, REQUESTS, SHARES, SITES
from squinney.analytics.reports.requests import STATIC_FILES
from squinney.analytics.rules import within
from squinney.mongo.queries import Pipeline, Query, declared
from squinney.mongo.schema import Db, Document

_FIELDS = (
    "time", "host", "user_agent", "path", "query", "method", "status", "bytes", "seconds", "referer", "country",
    "robot",
)  # fmt: skip
_READ: dict[str, Any] = {"forget_at": 1} | {f"events.{name}": 1 for name in _FIELDS}
HOUR = timedelta(hours=1)
_START, _END = datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 2, tzinfo=UTC)
_ON_ALL_SHARDS = "pages of events are spread over all shards by a hash of their id"
_DAYS: dict[str, Any] = {"site": "a", "zone": "UTC", "first": date(2026, 11, 1), "last": date(2026, 11, 30)}


def day_id(site: str, zone: str, day: date) -> Document:
    """Return the id of a day; ids sort by site, time zone and day."""
    return {"site": site, "zone": zone, "day": f"{day:%Y-%m-%d}".rjust(10, "0")}


def _of_days(site: str, zone: str, first: date, last: date) -> Document:
    after_last = {**day_id(site, zone, last), "part": MaxKey()}
    return {"_id": {"$gte": day_id(site, zone, first), "$lte": after_last}}


def _of_other_zones(site: str, zone: str) -> Document:
    """Return the filter for a site's days in any time zone but one."""
    before = {"$gte": {"site": site, "zone": MinKey()}, "$lt": {"site": site, "zone": zone, "day": MinKey()}}
    after = {"$gt": {"site": site, "zone": zone, "day": MaxKey()}, "$lt": {"site": site, "zone": MaxKey()}}
    return {"$or": [{"_id": before}, {"_id": after}]}


def _goals(site: str) -> Document:
    return {"_id": {"$gte": {"site": site, "name": MinKey()}, "$lte": {"site": site, "name": MaxKey()}}}


def _of_site(site: str, start: datetime, end: datetime) -> Document:
    """Filter the pages; one without a site belongs to the site without a name."""
    return {**pages_between(start, end), "site": site or {"$in": [None, ""]}}


def _hours(match: Document) -> list[Document]:
    hour = {"$dateTrunc": {"date": "$from", "unit": "hour"}}
    return [
        {"$match": match},
        {"$group": {"_id": {"site": {"$ifNull": ["$site", ""]}, "hour": hour}}},
    ]


# As `RequestsOfDay` decides it.
_IS_VIEW: Document = {
    "$and": [
        {"$eq": [{"$type": "$events.path"}, "string"]},
        {"$eq": [{"$ifNull": ["$events.method", "GET"]}, "GET"]},
        {"$in": [{"$ifNull": ["$events.status", 0]}, [0, *range(200, 300), 304]]},
        {"$not": {"$regexMatch": {"input": "$events.path", "regex": STATIC_FILES.pattern, "options": "i"}}},
    ]
}


def _hosts(site: str, spans: Sequence[tuple[datetime, datetime]], limit: int) -> list[Document]:
    """Group the events of these times, which are in order, by address."""
    return [
        {"$match": _of_site(site, spans[0][0], spans[-1][1])},
        UNWOUND,
        {"$match": {"$or": [{"events.time": within(start, end)} for start, end in spans]}},
        {
            "$group": {
                "_id": {"$ifNull": ["$events.host", ""]},
                "requests": {"$sum": 1},
                "views": {"$sum": {"$cond": [_IS_VIEW, 1, 0]}},
                "bytes": {"$sum": "$events.bytes"},
                "last_seen": {"$max": "$events.time"},
            }
        },
        {"$sort": {"requests": -1, "_id": 1}},
        {"$limit": limit},
    ]


DAYS_OF_SITE = Query("reports.days", DAYS, where=_of_days, example=_DAYS, sort=[("_id", 1)])
LAST_DAY = Query("reports.last-day", DAYS, where=_of_days, example=_DAYS, sort=[("_id", -1)])
REQUESTS_OF_SITE = Query("reports.requests", REQUESTS, where=_of_days, example=_DAYS, sort=[("_id", 1)])
DAYS_IN_OTHER_ZONES = Query(
    "reports.days-in-other-zones", DAYS, where=_of_other_zones, example={"site": "a", "zone": "UTC"}
)
STALE_SITES = Query("reports.stale-sites", SITES, where=lambda: {"stale": True})
PRIVATE_SITES = Query("reports.private-sites", SITES, where=lambda: {"is_private": True})
SITES_BY_NAME = Query("reports.sites", SITES, where=dict, sort=[("_id", 1)])
GOALS_OF_SITE = Query("reports.goals", GOALS, where=_goals, example={"site": "a"}, sort=[("_id", 1)])
SHARES_OF_SITE = Query(
    "reports.shares", SHARES, where=lambda site: {"site": site}, example={"site": "a"}, sort=[("created_at", 1)]
)
EVENTS_OF_SITE = Query(
    "reports.events",
    "analytics.events",
    where=_of_site,
    example={"site": "a", "start": _START, "end": _END},
    sort=[("from", 1)],
    routing="broadcast",
    reason=_ON_ALL_SHARDS,
)
HOURS_OF_EVENTS = Pipeline(
    "reports.hours",
    "analytics.events",
    stages=_hours,
    example={"match": pages_between(_START, _END)},
    routing="broadcast",
    reason=_ON_ALL_SHARDS,
)
HOSTS_OF_EVENTS = Pipeline(
    "reports.hosts",
    "analytics.events",
    stages=_hosts,
    example={"site": "a", "spans": [(_START, _END)], "limit": 100},
    routing="broadcast",
    reason=_ON_ALL_SHARDS,
)
QUERIES = declared(globals())


# ---- events ----


def events_between(db: Db, site: str, start: datetime, end: datetime) -> list[Document]:
    """Return the events of a site from `start` (included) to `end` (excluded), in the order of the log."""
    with db.client.start_session(snapshot=True) as session:
        pages = EVENTS_OF_SITE.find(db, site=site, start=start, end=end, projection=_READ, session=session)
        events = [(page["_id"], event) for page in pages for event in events_of(page) if start <= event["time"] < end]
    return [event for _, event in sorted(events, key=lambda paged: (paged[1]["time"], paged[0]))]


def hours_with_events(db: Db, match: Document, session: ClientSession | None = None) -> dict[str, set[datetime]]:
    """Return the hours of UTC, by site, of the pages that match the filter."""
    hours: dict[str, set[datetime]] = defaultdict(set)
    for row in db["analytics.events"].aggregate(HOURS_OF_EVENTS(match=match), session=session, allowDiskUse=True):
        hours[row["_id"]["site"]].add(row["_id"]["hour"])
    return hours


def all_kept_since(db: Db, now: datetime) -> datetime:
    """Return the time from which on the retention policy has deleted no event."""
    policy = read_policy(db)
    since = policy.frozen_before or EARLIEST
    if policy.keep_seconds:
        since = max(since, now - timedelta(seconds=policy.keep_seconds))
    return since


def has_lost_events(stored_day: Document, kept_since: datetime, now: datetime) -> bool:
    """Return whether events of a computed day may have been deleted since."""
    forgotten = stored_day.get("forget_from")
    return stored_day["from"] < kept_since or (forgotten is not None and forgotten <= now)
