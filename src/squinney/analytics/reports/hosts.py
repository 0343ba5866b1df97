"""The addresses that send requests to a site: how many requests and page views each, and when the last one came."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from squinney.analytics.reports import queries
from squinney.analytics.reports.ranges import Days, spans_of_range
from squinney.mongo.schema import Db


@dataclass(frozen=True)
class Host:
    """An address, or what the events have instead: views of this site's own pages have a visitor's id of one day."""

    host: str
    requests: int
    views: int
    bytes: int
    last_seen: datetime


def hosts_of(db: Db, site: str, days: Days, tz: ZoneInfo, limit: int) -> list[Host]:
    """Return the addresses with the most requests, from the events: the days of reports keep no address."""
    spans = spans_of_range(days, tz)
    if not spans:
        return []
    stages = queries.HOSTS_OF_EVENTS(site=site, spans=spans, limit=limit)
    return [
        Host(row["_id"], row["requests"], row["views"], int(row["bytes"]), row["last_seen"])
        for row in db["analytics.events"].aggregate(stages, allowDiskUse=True)
    ]
