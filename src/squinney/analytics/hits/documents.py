"""The collections of hits.

A document of `hits.daily` has a page's hits on one day (UTC): the total, `hourly: {"0": n, ...}`, and the minutes
within each hour, `minute: {"0": {"0": n, ...}, ...}`. One of `hits.monthly` has the hits of a month: the total, and
`daily: {"1": n, ...}`; its `metadata.date` is the first day of the month.
"""

from __future__ import annotations

from squinney.mongo.schema import Collection, Index

LONGEST_PAGE = 8_192

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
