"""What happens by itself: leases come back, campaigns end, and clicks teach what ads are worth."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice

from pymongo import UpdateOne

from squinney.ads import budgets, queries, rules
from squinney.ads.documents import Pricing
from squinney.clock import utcnow
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db
from squinney.patterns.jobs import Job

READ_AT_ONCE = 500
LEARNED_DAYS = 30
CHANGED_BY = 100  # an ad's worth is written where it differs by more than a hundredth


def return_leases(db: Db) -> dict[str, int]:
    """Give back what lapsed leases hold.

    Atomic: each lease in one transaction.
    After a crash: the next run goes on.
    """
    return {"returned": budgets.return_lapsed(pinned(db), utcnow())}


def end_campaigns(db: Db) -> dict[str, int]:
    """Mark campaigns as ended whose time is up; choices have left them out since then.

    Atomic: each campaign by itself.
    After a crash: the next run goes on.
    """
    change = {"$set": {"status": "ended"}, "$currentDate": {"changed_at": True}}
    return {"ended": pinned(db)["ad_campaigns"].update_many(queries.OVERDUE(now=utcnow()), change).modified_count}


def refresh_ecpm(db: Db, now: datetime | None = None) -> dict[str, int]:
    """Set what each ad that is paid by the click is worth, by its clicks of the last month, where anything was
    delivered lately.

    Atomic: each ad by itself.
    After a crash: the next run goes on.
    """
    db = pinned(db)
    today = rules.day_of(now or utcnow())
    lately = db["ad_counters"].aggregate(queries.DELIVERED_SINCE(day=today - timedelta(days=1)))
    delivered = (one["_id"] for one in lately)
    changed = 0
    while some := list(islice(delivered, READ_AT_ONCE)):
        pricing = {one["_id"]: one["pricing"] for one in queries.PAID_BY_CLICK.find(db, campaign_ids=some)}
        writes = list(_new_worths(db, pricing, today - timedelta(days=LEARNED_DAYS))) if pricing else []
        if writes:
            changed += db["ad_placements"].bulk_write(writes, ordered=False).modified_count
    return {"changed": changed}


def _new_worths(db: Db, pricing: dict[str, Pricing], since: datetime) -> Iterator[UpdateOne]:
    """The updates of those campaigns' ads whose worth has changed."""
    wanted = sorted(pricing)
    counted = db["ad_counters"].aggregate(queries.RATES(campaign_ids=wanted, day=since))
    rates = {tuple(one["_id"].values()): one for one in counted}
    for placement in queries.PLACEMENTS_OF_SOME.find(db, campaign_ids=wanted):
        site, zone, unit = placement["_id"].values()
        seen = rates.get((placement["campaign_id"], site, zone, unit), {})
        price = pricing[placement["campaign_id"]]
        worth = rules.ecpm(price, seen.get("impressions", 0), seen.get("clicks", 0))
        if abs(worth - placement["ecpm"]) * CHANGED_BY > placement["ecpm"]:
            change = {"$set": {"ecpm": worth}, "$currentDate": {"changed_at": True}}
            yield UpdateOne(queries.PLACEMENT(site=site, zone=zone, unit=unit), change)


JOBS = [
    Job("return-ad-leases", every_seconds=30, run=return_leases, what="gives back budget that lapsed leases hold"),
    Job("end-ad-campaigns", every_seconds=60, run=end_campaigns, what="ends campaigns whose time is up"),
    Job("refresh-ad-ecpm", every_seconds=60, run=refresh_ecpm, what="learns from clicks what ads are worth"),
]
