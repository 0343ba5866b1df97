"""The network's shapes and collections.

Bids and budgets are whole minor units (cents). What is spent is kept in thousandths of them, so that one impression at
a bid of 250 cents a thousand costs exactly 250 of them. Everything is a whole number.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, NotRequired, TypedDict

from squinney.mongo.schema import Collection, Index

THOUSAND = 1000  # thousandths of a minor unit; and what a CPM bid buys
COUNTED = ("impressions", "viewable", "clicks", "conversions", "value", "spend", "capped")
MOST_BID = 10**8
MOST_BUDGET = 10**14
MOST_CAP = 100
MOST_PLACEMENTS = 1_000  # of one campaign
KEEP_SERVES_SECONDS = 8 * 86_400
KEEP_PROFILES_SECONDS = 90 * 86_400


class Pricing(TypedDict):
    """`cpm`: `bid` minor units for a thousand impressions; `cpc`: for a click."""

    model: str
    bid: int


class Budget(TypedDict):
    """In minor units. `daily` None: no limit for a day. `even` lets a day's money go only as the day goes."""

    total: int
    daily: int | None
    currency: str
    pacing: NotRequired[str]


class Cap(TypedDict):
    """At most so many impressions for one user in so many seconds."""

    impressions: int
    per_seconds: int


class Campaign(TypedDict):
    """What an advertiser pays for. `owner` is the person whose it is, for the program that asks."""

    _id: str
    advertiser: str
    owner: NotRequired[str]
    status: str
    ended_because: NotRequired[str]
    starts_at: datetime | None
    ends_at: datetime | None
    budget: Budget
    pricing: Pricing
    cap: Cap | None
    targeting: dict[str, list[str]]
    created_at: datetime
    changed_at: datetime


class Placement(TypedDict):
    """An ad of a campaign in a zone. `ecpm` is in thousandths of a minor unit for a thousand impressions."""

    _id: dict[str, str]
    campaign_id: str
    keywords: list[str]
    ecpm: int
    weight: int
    creative: dict[str, Any]
    cap: Cap | None
    active: bool
    changed_at: datetime


@dataclass(frozen=True, slots=True)
class Serve:
    """An ad that was chosen. `serve_id` is what beacons and clicks send back.

    `price` is what an impression or a click costs, and `ecpm` what a thousand impressions bring, both in thousandths.
    """

    serve_id: str
    campaign_id: str
    unit: str
    creative: dict[str, Any]
    price: int
    currency: str
    ecpm: int
    score: float


@dataclass(frozen=True)
class Click:
    """Where a click leads, and whether it is the first of its serve."""

    url: str
    first: bool


@dataclass(frozen=True)
class Candidate:
    """An ad of a zone as `explain` sees it: `left_out` says why it would not be chosen, or is empty."""

    campaign_id: str
    unit: str
    ecpm: int
    matches: int
    score: float
    left_out: str


_WHOLE = {"bsonType": ["int", "long"]}
_MONEY = {**_WHOLE, "minimum": 0}


def _numbers(*required: str, **properties: Any) -> dict[str, Any]:
    return {"$jsonSchema": {"required": list(required), "properties": properties}}


COLLECTIONS = [
    Collection(
        "ad_campaigns",
        indexes=[
            Index([("changed_at", 1)], why="following by polling"),
            Index([("owner", 1), ("_id", 1)], why="owned_by(owner)"),
            Index([("status", 1), ("ends_at", 1)], why="the job that ends campaigns"),
        ],
        shard_key={"_id": "hashed"},
    ),
    Collection(
        "ad_budgets",
        shard_key={"_id": "hashed"},
        validator=_numbers("committed", "spent", committed=_MONEY, spent=_MONEY),
    ),
    Collection(
        "ad_leases",
        indexes=[
            Index([("until", 1)], why="the job that gives lapsed leases back"),
            Index([("campaign_id", 1)], why="what is out on lease"),
        ],
        shard_key={"_id": "hashed"},
        validator=_numbers("campaign_id", "amount", amount=_MONEY),
    ),
    Collection(
        "ad_placements",
        indexes=[
            Index([("_id.site", 1), ("_id.zone", 1), ("ecpm", -1)], why="a zone, best first"),
            Index([("campaign_id", 1)], why="a campaign's placements"),
            Index([("changed_at", 1)], why="following by polling"),
        ],
        shard_key={"_id.site": 1, "_id.zone": 1},
    ),
    Collection(
        "ad_users",
        indexes=[
            Index([("seen_at", 1)], expire_after_seconds=KEEP_PROFILES_SECONDS, why="nobody is kept for ever"),
        ],
        shard_key={"_id": "hashed"},
    ),
    Collection(
        "ad_counters",
        indexes=[
            Index([("campaign_id", 1), ("day", 1), ("site", 1), ("zone", 1), ("unit", 1)], why="stats()"),
            Index([("day", 1), ("campaign_id", 1)], why="the job that learns from clicks asks who delivered lately"),
        ],
        shard_key={"campaign_id": 1, "day": 1},
        validator=_numbers("campaign_id", "day", spend=_MONEY, impressions=_MONEY, clicks=_MONEY),
    ),
    Collection(
        "ad_serves",
        indexes=[
            Index([("at", 1)], expire_after_seconds=KEEP_SERVES_SECONDS, why="kept for longer than a token lives"),
        ],
        shard_key={"_id": "hashed"},
    ),
    Collection("ad_keys", unsharded="one document: the key that signs serves"),
]
