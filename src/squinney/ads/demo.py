"""Create campaigns with a month of delivery, to look at on the first start."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from pymongo.client_session import ClientSession

from squinney.ads import queries, rules
from squinney.ads.documents import THOUSAND
from squinney.ads.errors import CampaignTaken
from squinney.ads.network import AdNetwork
from squinney.clock import utcnow
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db
from squinney.transactions import in_transaction

DAYS = 30
ZONES = {"site": 1.0, "shop": 0.55}
VIEWABLE_SHARE = 0.68  # of the impressions
CAP_HITS = 0.03  # for each impression
# The tuple of a campaign, and its share of impressions by zone.
Offer = tuple[str, str, dict[str, Any], int, int, float, list[str], tuple[str, str, str], Mapping[str, float]]
# Advertiser, campaign, price, daily budget, mean impressions a day, click rate, keywords; the ad's title, text and URL
CAMPAIGNS: list[tuple[str, str, dict[str, Any], int, int, float, list[str], tuple[str, str, str]]] = [
    ("Larch & Sons", "larch:autumn-boots", {"model": "cpm", "bid": 420}, 2_500, 4_200, 0.011, ["shoes", "hiking"],
     ("Boots for wet leaves", "Sewn in the valley, soled twice.", "/shop")),
    ("Harbour Coffee", "harbour:beans", {"model": "cpc", "bid": 35}, 4_000, 3_400, 0.014, ["coffee", "breakfast"],
     ("Roasted on Tuesday", "A kilo of beans, at your door on Thursday.", "/shop")),
    ("Northern Night Trains", "nnt:winter", {"model": "cpm", "bid": 380}, 2_000, 2_900, 0.006, ["travel", "winter"],
     ("Sleep to the snow", "Leave at ten, wake up at the lift.", "/site")),
    ("City Library", "library:evenings", {"model": "cpc", "bid": 8}, 300, 1_500, 0.019, ["books", "reading"],
     ("Open until ten", "Every evening but Sunday, from November.", "/site")),
]  # fmt: skip


def demo(db: Db) -> None:
    """Create campaigns with their ads and a month of counters. A second call changes nothing.

    Atomic: each campaign, each ad and each campaign's month separately.
    After a crash: the next call continues.
    """
    load_campaigns(db, [(*campaign, ZONES) for campaign in CAMPAIGNS], utcnow())


def load_campaigns(db: Db, offers: Sequence[Offer], now: datetime) -> None:
    """Create these campaigns, each with an ad in its zones and the counters of the month before.

    Atomic: each campaign, each ad and each campaign's month separately.
    After a crash: the next call continues.
    """
    db = pinned(db)
    network = AdNetwork(db)
    for advertiser, campaign_id, price, daily, mean, rate, words, (title, text, url), zones in offers:
        with suppress(CampaignTaken):
            network.create_campaign(
                campaign_id,
                advertiser,
                pricing=price,
                budget={"total": daily * 60, "daily": daily, "currency": "EUR", "pacing": "even"},
                cap={"impressions": 20, "per_seconds": 86_400},
            )
        creative = {"kind": "text", "title": title, "text": text, "url": url}
        ad = {"unit": f"{campaign_id}/text", "creative": creative, "keywords": words}
        for zone in zones:
            network.place(campaign_id, "squinney", zone, ad)
        _deliver(db, campaign_id, price, daily, mean, rate, zones, rules.day_of(now))


def _random_count(mean: float, rng: random.Random) -> int:
    """Draw a number of independent events with this mean."""
    return max(0, round(rng.gauss(mean, math.sqrt(mean))))


def _deliver(
    db: Db,
    campaign_id: str,
    price: dict[str, Any],
    daily: int,
    mean: int,
    rate: float,
    zones: Mapping[str, float],
    today: datetime,
) -> None:
    """Write the counters of the month that ended yesterday: fewer on weekends, and slightly growing."""
    rng = random.Random(campaign_id)
    rows = []
    for days_ago in range(DAYS, 0, -1):
        day = today - timedelta(days=days_ago)
        weekend = 0.62 if day.weekday() >= 5 else 1.0
        for zone, share in zones.items():
            impressions = round(mean * share * weekend * (1.25 - days_ago / 100) * rng.uniform(0.88, 1.12))
            clicks = _random_count(impressions * rate, rng)
            paid = clicks * THOUSAND if price["model"] == "cpc" else impressions
            spend = min(paid * price["bid"], math.floor(daily * THOUSAND * share / sum(zones.values())))
            row = {"campaign_id": campaign_id, "day": day, "site": "squinney", "zone": zone}
            row["unit"] = f"{campaign_id}/text"
            counts = {"impressions": impressions, "clicks": clicks, "spend": spend}
            counts["viewable"] = min(impressions, _random_count(impressions * VIEWABLE_SHARE, rng))
            counts["capped"] = _random_count(impressions * CAP_HITS * weekend, rng)
            counts["conversions"] = min(clicks, _random_count(clicks / 12, rng))
            rows.append({"_id": dict(row), **row, **counts})

    def write(session: ClientSession) -> None:
        budget = queries.BUDGET.find_one(db, campaign_id=campaign_id, session=session)
        if budget is None or "impressions" in budget:
            return
        counted = ("impressions", "viewable", "clicks", "conversions")
        sums = {name: sum(row[name] for row in rows) for name in counted}
        spent = sum(row["spend"] for row in rows)
        db["ads.counters"].insert_many(rows, session=session)
        increments = {**sums, "spent": spent, "committed": spent}
        db["ads.budgets"].update_one({"_id": campaign_id}, {"$inc": increments}, session=session)

    in_transaction(db, write)
