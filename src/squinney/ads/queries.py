"""Every query of the network, with a name."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from squinney.ads.documents import COUNTED
from squinney.mongo.queries import Pipeline, Query, declared
from squinney.mongo.schema import Document

_DAY = datetime(2026, 1, 1, tzinfo=UTC)

CAMPAIGN = Query(
    "ads.campaign",
    "ads.campaigns",
    where=lambda campaign_id: {"_id": campaign_id},
    example={"campaign_id": "c"},
)
SOME_CAMPAIGNS = Query(
    "ads.some-campaigns",
    "ads.campaigns",
    where=lambda campaign_ids: {"_id": {"$in": campaign_ids}},
    example={"campaign_ids": ["a", "b"]},
    routing="few",
    reason="the campaigns of a zone may be on several shards; they are read once and then cached",
)
CAMPAIGNS = Query(
    "ads.campaigns",
    "ads.campaigns",
    where=dict,
    sort=[("_id", 1)],
    routing="broadcast",
    reason="lists the campaigns of all shards, a page at a time",
)
CAMPAIGNS_OF = Query(
    "ads.campaigns-of",
    "ads.campaigns",
    where=lambda owner: {"owner": owner},
    example={"owner": "p"},
    sort=[("_id", 1)],
    routing="broadcast",
    reason="an owner's campaigns are on all shards; they are listed a page at a time",
)
NOT_ENDED = Query(
    "ads.not-ended",
    "ads.campaigns",
    where=lambda campaign_id: {"_id": campaign_id, "status": {"$ne": "ended"}},
    example={"campaign_id": "c"},
)
PAID_BY_CLICK = Query(
    "ads.paid-by-click",
    "ads.campaigns",
    where=lambda campaign_ids: {"_id": {"$in": campaign_ids}, "status": "active", "pricing.model": "cpc"},
    example={"campaign_ids": ["a", "b"]},
    routing="few",
    reason="reads the campaigns that delivered recently",
)
OVERDUE = Query(
    "ads.overdue",
    "ads.campaigns",
    where=lambda now: {"status": {"$in": ["active", "paused"]}, "ends_at": {"$lte": now}},
    example={"now": _DAY},
    routing="broadcast",
    reason="campaigns whose end time has passed may be on any shard; once a minute",
)
BUDGET = Query(
    "ads.budget", "ads.budgets", where=lambda campaign_id: {"_id": campaign_id}, example={"campaign_id": "c"}
)
SPENT = Query(
    "ads.spent",
    "ads.budgets",
    # A budget that can still be funded is not spent.
    where=lambda campaign_id, price, planned: {
        "_id": campaign_id,
        # guard: a campaign that can still be funded does not end
        "total": {"$gte": planned},
        "$expr": {"$gt": [{"$add": ["$spent", price]}, "$total"]},
    },
    example={"campaign_id": "c", "price": 1, "planned": 1},
)
SOME_BUDGETS = Query(
    "ads.some-budgets",
    "ads.budgets",
    where=lambda campaign_ids: {"_id": {"$in": campaign_ids}},
    example={"campaign_ids": ["a", "b"]},
    routing="few",
    reason="reads the budgets of one batch of beacons, or of one page of campaigns",
)
PLACEMENT = Query(
    "ads.placement",
    "ads.placements",
    # Site and zone also as separate conditions, since they are the shard key.
    where=lambda site, zone, unit: {
        "_id": {"site": site, "zone": zone, "ad_unit": unit},
        "_id.site": site,
        "_id.zone": zone,
    },
    example={"site": "s", "zone": "z", "unit": "u"},
)
ZONE = Query(
    "ads.zone",
    "ads.placements",
    where=lambda site, zone: {"_id.site": site, "_id.zone": zone},
    example={"site": "s", "zone": "z"},
    sort=[("ecpm", -1)],
)
PLACEMENTS_OF = Query(
    "ads.placements-of",
    "ads.placements",
    where=lambda campaign_id: {"campaign_id": campaign_id},
    example={"campaign_id": "c"},
    routing="broadcast",
    reason="a campaign's zones are on all shards; used by pages and a job",
)
PLACEMENTS_OF_SOME = Query(
    "ads.placements-of-some",
    "ads.placements",
    where=lambda campaign_ids: {"campaign_id": {"$in": campaign_ids}},
    example={"campaign_ids": ["a", "b"]},
    routing="broadcast",
    reason="the zones of campaigns are on all shards; used by a job",
)
IN_REVIEW = Query(
    "ads.in-review",
    "ads.placements",
    where=lambda: {"review.state": "waiting"},
    sort=[("review.id", 1)],
    routing="broadcast",
    reason="the ads of all shards that wait for an editor, a page at a time",
)
FUNDINGS = Query(
    "ads.fundings",
    "ads.fundings",
    where=lambda campaign_id: {"campaign_id": campaign_id},
    example={"campaign_id": "c"},
    sort=[("_id", 1)],
    routing="broadcast",
    reason="lists the fundings of a campaign on its page",
)
LEASE = Query("ads.lease", "ads.leases", where=lambda lease_id: {"_id": lease_id}, example={"lease_id": "l"})
SOME_LEASES = Query(
    "ads.some-leases",
    "ads.leases",
    where=lambda lease_ids: {"_id": {"$in": lease_ids}},
    example={"lease_ids": ["a", "b"]},
    routing="few",
    reason="reads the leases of one batch of beacons",
)
LAPSED = Query(
    "ads.lapsed",
    "ads.leases",
    where=lambda now: {"until": {"$lte": now}},
    example={"now": _DAY},
    sort=[("until", 1)],
    routing="broadcast",
    reason="expired leases may be on any shard; every half minute",
)
USER = Query("ads.user", "ads.users", where=lambda user: {"_id": user}, example={"user": "u"})
SOME_SERVES = Query(
    "ads.some-serves",
    "ads.serves",
    where=lambda serves: {"_id": {"$in": serves}},
    example={"serves": ["a", "b"]},
    routing="few",
    reason="reads the serves of one batch of beacons",
)
SOME_CLICKERS = Query(
    "ads.some-clickers",
    "ads.clickers",
    where=lambda clickers, now: {"_id": {"$in": clickers}, "until": {"$gt": now}},
    example={"clickers": ["a", "b"], "now": _DAY},
    routing="few",
    reason="reads the visitors of one batch of clicks",
)
COUNTERS = Query(
    "ads.counters",
    "ads.counters",
    where=lambda campaign_id, start, end: {"campaign_id": campaign_id, "day": {"$gte": start, "$lt": end}},
    example={"campaign_id": "c", "start": _DAY, "end": _DAY},
    sort=[("day", 1), ("site", 1), ("zone", 1), ("unit", 1)],
)
DELIVERED_SINCE = Pipeline(
    "ads.delivered-since",
    "ads.counters",
    stages=lambda day: [{"$match": {"day": {"$gte": day}}}, {"$group": {"_id": "$campaign_id"}}],
    example={"day": _DAY},
    routing="broadcast",
    reason="finds the campaigns of all shards that delivered recently; once a minute",
)
SIGNING_KEY = Query("ads.signing-key", "ads.keys", where=lambda: {"_id": "serves"})


def _rates(campaign_ids: list[str], day: datetime) -> list[Document]:
    unit = {"campaign_id": "$campaign_id", "site": "$site", "zone": "$zone", "ad_unit": "$unit"}
    return [
        {"$match": {"campaign_id": {"$in": campaign_ids}, "day": {"$gte": day}}},
        {"$group": {"_id": unit, "impressions": {"$sum": "$impressions"}, "clicks": {"$sum": "$clicks"}}},
    ]


def _sums_of(campaign_id: str, start: datetime, end: datetime, by: Sequence[str], limit: int) -> list[Document]:
    sums = {name: {"$sum": f"${name}"} for name in COUNTED}
    group = {"_id": {name: f"${name}" for name in by} or None, **sums}
    largest_first: list[Document] = [{"$sort": {"impressions": -1, "_id": 1}}, {"$limit": limit}]
    return [{"$match": COUNTERS(campaign_id=campaign_id, start=start, end=end)}, {"$group": group}, *largest_first]


SUMS = Pipeline(
    "ads.sums",
    "ads.counters",
    stages=_sums_of,
    example={"campaign_id": "c", "start": _DAY, "end": _DAY, "by": ["day"], "limit": 10},
)
RATES = Pipeline(
    "ads.rates",
    "ads.counters",
    stages=_rates,
    example={"campaign_ids": ["a", "b"], "day": _DAY},
    routing="few",
    reason="adds up what some campaigns delivered; once a minute",
)


def _sums() -> list[Document]:
    """Find budgets that differ from the sums of their leases and counters. One `$group` is faster than `$lookup`s."""

    def joined(name: str, field: str) -> Document:
        pipeline = [{"$match": {"campaign_id": {"$gte": ""}}}, {"$project": {"_id": "$campaign_id", field: 1}}]
        return {"$unionWith": {"coll": name, "pipeline": pipeline}}

    own = ("spent", "committed", "total")
    group = {
        **{name: {"$max": f"${name}"} for name in (*own, "is_budget")},  # only the budget has these fields
        **{name: {"$sum": f"${name}"} for name in ("amount", "spend")},
    }
    wrong = {"$or": [{"$ne": ["$spent", "$spend"]}, _committed_differs(), _is_over()]}
    return [
        # Matches all ids, so that the server uses the index on `_id`.
        {"$match": {"_id": {"$gte": ""}}},
        {"$project": {**dict.fromkeys(own, 1), "is_budget": {"$literal": True}}},
        joined("ads.leases", "amount"),
        joined("ads.counters", "spend"),
        {"$group": {"_id": "$_id", **group}},
        # guard: a budget without a total is reported
        {"$match": {"is_budget": True, "$expr": wrong}},
    ]


def _committed_differs() -> Document:
    return {"$ne": ["$committed", {"$add": ["$spent", "$amount"]}]}


def _is_over() -> Document:
    return {"$gt": ["$committed", "$total"]}


WRONG_SUMS = Pipeline(
    "ads.wrong-sums",
    "ads.budgets",
    stages=_sums,
    routing="broadcast",
    reason="checks every budget",
)


def _without_campaign() -> list[Document]:
    campaign = {"from": "ads.campaigns", "localField": "campaign_id", "foreignField": "_id", "as": "campaign"}
    return [
        {"$match": {"campaign_id": {"$gte": ""}}},
        {"$lookup": campaign},
        {"$match": {"campaign": []}},
        {"$project": {"campaign_id": 1}},
    ]


LOST_PLACEMENTS = Pipeline(
    "ads.lost-placements",
    "ads.placements",
    stages=_without_campaign,
    routing="broadcast",
    reason="checks every placement",
)
QUERIES = declared(globals())
