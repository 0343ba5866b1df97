"""The collections of reports."""

from __future__ import annotations

from datetime import datetime
from typing import TypedDict

from squinney.mongo.schema import Collection, Index

DAYS = "analytics.report_days"
REQUESTS = "analytics.report_requests"
RUNS = "analytics.report_runs"
SITES = "analytics.report_sites"
GOALS = "analytics.goals"

# Longer keys are cut, and beyond so many keys a panel adds the rest up: so the document of a day fits into 16 MB even
# if somebody requests addresses made up for this.
MAX_KEY_LENGTH = 200
MAX_ROWS = 200


class SiteSettings(TypedDict):
    """How a site is reported: its time zone and own hosts. `stale` until all its days are computed with `version`."""

    _id: str
    time_zone: str
    own_hosts: list[str]
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


REPORT_COLLECTIONS = [
    Collection(DAYS, shard_key={"_id": 1}),
    Collection(REQUESTS, shard_key={"_id": 1}),
    Collection(RUNS, unsharded="one document"),
    Collection(
        SITES,
        indexes=[Index([("stale", 1)], why="sites whose days are all to be computed again")],
        unsharded="one small document per site",
    ),
    Collection(GOALS, unsharded="a few small documents per site"),
]
