"""The document types and collections of the advertising network.

Bids and budgets are whole minor units (cents). Spend is stored in thousandths of a minor unit, so that one impression
at a bid of 250 cents for a thousand impressions costs exactly 250 thousandths. All amounts are integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, NotRequired, TypedDict

from squinney.mongo.schema import Collection, Index

THOUSAND = 1000  # thousandths in a minor unit; also the number of impressions that a CPM bid pays for
COUNTED = ("impressions", "viewable", "clicks", "conversions", "value", "spend", "capped")
MAX_BID = 10**8
MAX_BUDGET = 10**14
MAX_CAP = 100
MAX_PLACEMENTS = 1_000  # of one campaign
KEEP_SERVES_SECONDS = 8 * 86_400
KEEP_PROFILES_SECONDS = 90 * 86_400


class Pricing(TypedDict):
    """`cpm`: `bid` minor units for a thousand impressions; `cpc`: for a click."""

    model: str
    bid: int


class Budget(TypedDict):
    """Amounts in minor units. `daily` None: no daily limit. Pacing `even` spreads a day's money over the day."""

    total: int
    daily: int | None
    currency: str
    pacing: NotRequired[str]


class Cap(TypedDict):
    """The most impressions for one user within `per_seconds`."""

    impressions: int
    per_seconds: int


class Campaign(TypedDict):
    """What an advertiser pays for. `owner` is the id of the user who manages it; the network does not interpret it.

    A campaign with `needs_review` has `funded`: the part of its total budget that was paid or granted, in minor units.
    """

    _id: str
    advertiser: str
    owner: NotRequired[str]
    status: str
    ended_because: NotRequired[str]
    needs_review: NotRequired[bool]
    funded: NotRequired[int]
    starts_at: datetime | None
    ends_at: datetime | None
    budget: Budget
    pricing: Pricing
    cap: Cap | None
    targeting: dict[str, list[str]]
    created_at: datetime
    changed_at: datetime


class Review(TypedDict):
    """The state of an ad's review (`waiting`, `approved` or `rejected`), since when, why, and by whom."""

    id: str
    state: str
    at: datetime
    reason: NotRequired[str]
    by: NotRequired[str]
    approved_url: NotRequired[str]


class Funding(TypedDict):
    """Money for a campaign, in minor units: paid from an account by a transfer, or granted if `paid_from` is empty."""

    _id: str
    campaign_id: str
    amount: int
    currency: str
    paid_from: str
    transfer_id: NotRequired[str]
    by: str
    at: datetime


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
    review: NotRequired[Review]
    changed_at: datetime


@dataclass(frozen=True, slots=True)
class Serve:
    """An ad that was chosen for a visitor. Beacons and clicks send its `serve_id`.

    `price` is the price of an impression or a click, and `ecpm` the expected revenue from a thousand impressions, both
    in thousandths of a minor unit.
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
    """The URL that a click leads to, and whether it was counted: the first of its serve and of its visitor."""

    url: str
    first: bool


@dataclass(frozen=True)
class Candidate:
    """An ad of a zone in the result of `explain`. `left_out` says why it would not be chosen, or is empty."""

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
        "ads.campaigns",
        formerly="ad_campaigns",
        indexes=[
            Index([("changed_at", 1)], why="polling for changes"),
            Index([("owner", 1), ("_id", 1)], why="owned_by(owner)"),
            Index([("status", 1), ("ends_at", 1)], why="the job that ends campaigns"),
        ],
        shard_key={"_id": "hashed"},
    ),
    Collection(
        "ads.budgets",
        formerly="ad_budgets",
        shard_key={"_id": "hashed"},
        validator=_numbers("committed", "spent", committed=_MONEY, spent=_MONEY),
    ),
    Collection(
        "ads.leases",
        formerly="ad_leases",
        indexes=[
            Index([("until", 1)], why="the job that returns the money of expired leases"),
            Index([("campaign_id", 1)], why="the leases of a campaign"),
        ],
        shard_key={"_id": "hashed"},
        validator=_numbers("campaign_id", "amount", amount=_MONEY),
    ),
    Collection(
        "ads.placements",
        formerly="ad_placements",
        indexes=[
            Index([("_id.site", 1), ("_id.zone", 1), ("ecpm", -1)], why="the ads of a zone, best first"),
            Index([("campaign_id", 1)], why="a campaign's placements"),
            Index([("changed_at", 1)], why="polling for changes"),
            Index([("review.state", 1), ("review.id", 1)], why="in_review(): the ads that wait, oldest first"),
        ],
        shard_key={"_id.site": 1, "_id.zone": 1},
    ),
    Collection(
        "ads.fundings",
        formerly="ad_fundings",
        indexes=[Index([("campaign_id", 1), ("_id", 1)], why="fundings(campaign_id)")],
        shard_key={"_id": "hashed"},
        validator=_numbers("campaign_id", "amount", amount=_MONEY),
    ),
    Collection(
        "ads.users",
        formerly="ad_users",
        indexes=[
            Index([("seen_at", 1)], expire_after_seconds=KEEP_PROFILES_SECONDS, why="profiles expire"),
        ],
        shard_key={"_id": "hashed"},
    ),
    Collection(
        "ads.counters",
        formerly="ad_counters",
        indexes=[
            Index([("campaign_id", 1), ("day", 1), ("site", 1), ("zone", 1), ("unit", 1)], why="stats()"),
            Index(
                [("day", 1), ("campaign_id", 1)], why="the job that updates eCPMs finds recently delivered campaigns"
            ),
        ],
        shard_key={"campaign_id": 1, "day": 1},
        validator=_numbers("campaign_id", "day", spend=_MONEY, impressions=_MONEY, clicks=_MONEY),
    ),
    Collection(
        "ads.serves",
        formerly="ad_serves",
        indexes=[
            Index([("at", 1)], expire_after_seconds=KEEP_SERVES_SECONDS, why="kept longer than a serve id is valid"),
        ],
        shard_key={"_id": "hashed"},
    ),
    Collection(
        "ads.clickers",
        formerly="ad_clickers",
        indexes=[Index([("until", 1)], expire_after_seconds=86_400, why="kept longer than they are needed")],
        shard_key={"_id": "hashed"},
    ),
    Collection("ads.keys", formerly="ad_keys", unsharded="one document: the key that signs serves"),
]
