"""The collections of reports."""

from __future__ import annotations

from datetime import datetime
from typing import NotRequired, TypedDict

from squinney.mongo.schema import Collection, Index

DAYS = "analytics.report_days"
REQUESTS = "analytics.report_requests"
RUNS = "analytics.report_runs"
SITES = "analytics.report_sites"
GOALS = "analytics.goals"
SHARES = "analytics.shares"

# Longer keys are cut, and beyond so many keys a panel adds the rest up: so the document of a day fits into 16 MB even
# if somebody requests addresses made up for this.
MAX_KEY_LENGTH = 200
MAX_ROWS = 200


class SiteSettings(TypedDict):
    """How a site is reported: its time zone and own hosts. `stale` until all its days are computed with `version`.

    The reports of a private site are for editors, and for whoever has a link to share it.
    """

    _id: str
    time_zone: str
    own_hosts: list[str]
    is_private: bool
    stale: bool
    version: int
    updated_at: datetime


class GoalId(TypedDict):
    """The site of a goal, and its name."""

    site: str
    name: str


class Goal(TypedDict):
    """A goal is reached by a visit that views any of its pages."""

    _id: GoalId
    pages: list[str]


class Share(TypedDict):
    """A link by which anybody reads the reports of a site; `_id` is the SHA-256 of its token."""

    _id: str
    site: str
    name: str
    created_at: datetime
    created_by: str
    expires_at: NotRequired[datetime]


REPORT_COLLECTIONS = [
    Collection(DAYS, shard_key={"_id": 1}),
    Collection(REQUESTS, shard_key={"_id": 1}),
    Collection(RUNS, unsharded="one document"),
    Collection(
        SITES,
        indexes=[
            Index([("stale", 1)], why="sites whose days are all to be computed again"),
            Index([("is_private", 1)], why="sites that visitors do not see"),
        ],
        unsharded="one small document per site",
    ),
    Collection(GOALS, unsharded="a few small documents per site"),
    Collection(
        SHARES,
        indexes=[
            Index([("site", 1), ("created_at", 1)], why="the links of a site"),
            Index([("expires_at", 1)], expire_after_seconds=0, why="deletes expired links"),
        ],
        unsharded="a few small documents per site",
    ),
]
