"""The document types and collections of roll-ups."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypedDict

from squinney.mongo.schema import Collection, Index


class Bucket(TypedDict):
    """The totals of a key in one hour, day, week, month or year, which begins at `at`."""

    key: Any
    at: datetime
    total: float
    count: int
    mean: float
    min: float
    max: float


ROLLUPS = "rollups"
PAGE_BYTES = "page_bytes"
RUNS = "analytics.rollup_runs"
LEVELS = ("quarterhourly", "hourly", "daily", "weekly", "monthly", "yearly")


def collection_of(name: str, level: str) -> str:
    """Return the collection with the buckets of a roll-up's level."""
    return f"analytics.{name}_{level}"


def rollup_collections(name: str = ROLLUPS) -> list[Collection]:
    """Declare the collections of a roll-up, one per level. An `_id` is {k: key, d: start} and sorts by key and time."""
    begins = Index([("_id.d", 1)], why="recomputing changed buckets from the level below")
    return [
        Collection(collection_of(name, level), formerly=f"{name}.{level}", indexes=[begins], shard_key={"_id": 1})
        for level in LEVELS
    ]


ROLLUP_COLLECTIONS = [
    Collection(RUNS, formerly="rollup_runs", names_in="config.source", unsharded="one small document per roll-up"),
    *rollup_collections(),
    *rollup_collections(PAGE_BYTES),
]
