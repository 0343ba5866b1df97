"""The document types and collections of hits."""

from __future__ import annotations

from typing import Any, TypedDict

from squinney.mongo.schema import Collection, Index

LONGEST_PAGE = 8_192


class DayOfHits(TypedDict):
    """The hits of a page on one day (UTC): per hour, and per minute within each hour."""

    _id: str
    metadata: dict[str, Any]
    total: int
    hourly: dict[str, int]
    minute: dict[str, dict[str, int]]


class MonthOfHits(TypedDict):
    """The hits of a page in one month, per day. `metadata.date` is the first day of the month."""

    _id: str
    metadata: dict[str, Any]
    total: int
    daily: dict[str, int]


DAILY_HITS = "hits.daily"
MONTHLY_HITS = "hits.monthly"
_PAGE_AND_DATE = [("metadata.site", 1), ("metadata.page", 1), ("metadata.date", 1)]
_SITE_AND_DATE = [("metadata.site", 1), ("metadata.date", 1)]

HIT_COLLECTIONS = [
    Collection(
        name,
        indexes=[
            Index(_PAGE_AND_DATE, why="the series of a page"),
            Index(_SITE_AND_DATE, why="top_pages() and site_total()"),
        ],
        shard_key=dict(_PAGE_AND_DATE),
    )
    for name in (DAILY_HITS, MONTHLY_HITS)
]
