"""The collections of hits.

A document of `analytics.hits_daily` has a page's hits on one day (UTC): the total, `hourly: {"0": n, ...}`, and the
minutes within each hour, `minute: {"0": {"0": n, ...}, ...}`. One of `analytics.hits_monthly` has the hits of a month:
the total, and `daily: {"1": n, ...}`; its `metadata.date` is the first day of the month.
"""

from __future__ import annotations

from squinney.mongo.schema import Collection, Index

MAX_PAGE_LENGTH = 8_192

DAILY_HITS = "analytics.hits_daily"
MONTHLY_HITS = "analytics.hits_monthly"
_PAGE_AND_DATE = [("metadata.site", 1), ("metadata.page", 1), ("metadata.date", 1)]
_SITE_AND_DATE = [("metadata.site", 1), ("metadata.date", 1)]

HIT_COLLECTIONS = [
    Collection(
        name,
        formerly=formerly,
        indexes=[
            Index(_PAGE_AND_DATE, why="the series of a page"),
            Index(_SITE_AND_DATE, why="top_pages() and site_total()"),
        ],
        shard_key=dict(_PAGE_AND_DATE),
    )
    for name, formerly in ((DAILY_HITS, "hits.daily"), (MONTHLY_HITS, "hits.monthly"))
]
