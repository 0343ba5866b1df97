"""The network's jobs: return expired leases, end campaigns, and update eCPMs from clicks."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice

from pymongo import UpdateOne

from squinney.ads import queries, rules
from squinney.ads.charging import budgets
from squinney.ads.documents import Pricing
from squinney.clock import utcnow
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db
from squinney.patterns.jobs import Job

READ_AT_ONCE = 500
LEARNED_DAYS = 30
CHANGED_BY = 100  # an eCPM is written only if it differs by more than a hundredth


def return_leases(db: Db) -> dict[str, int]:
    """Return the money of expired leases to their budgets.

    Atomic: each lease in one transaction.
    After a crash: the next run continues.
    """
    return {"returned": budgets.return_lapsed(pinned(db), utcnow())}


def end_campaigns(db: Db) -> dict[str, int]:
    """Mark campaigns as ended whose end time has passed. Choices ignore them from that time, before this job runs.

    Atomic: each campaign separately.
    After a crash: the next run continues.
    """
    change = {"$set": {"status": "ended"}, "$currentDate": {"changed_at": True}}
    return {"ended": pinned(db)["ads.campaigns"].update_many(queries.OVERDUE(now=utcnow()), change).modified_count}


@operation(60)
def refresh_ecpm(db: Db, now: datetime | None = None) -> dict[str, int]:
    """Update the eCPM of each CPC ad from its clicks of the last month, for campaigns that delivered recently.

    Atomic: each ad separately.
    After a crash: the next run continues.
    """
    db = pinned(db)
    today = rules.day_of(now or utcnow())
    recent = queries.DELIVERED_SINCE.run(db, day=today - timedelta(days=1))
    campaign_ids = (row["_id"] for row in recent)
    changed = 0
    while some := list(islice(campaign_ids, READ_AT_ONCE)):
        campaigns = queries.PAID_BY_CLICK.find(db, campaign_ids=some)
        pricing = {campaign["_id"]: campaign["pricing"] for campaign in campaigns}
        writes = list(_ecpm_updates(db, pricing, today - timedelta(days=LEARNED_DAYS))) if pricing else []
        if writes:
            changed += db["ads.placements"].bulk_write(writes, ordered=False).modified_count
    return {"changed": changed}


def _ecpm_updates(db: Db, pricing: dict[str, Pricing], since: datetime) -> Iterator[UpdateOne]:
    campaign_ids = sorted(pricing)
    delivered = queries.RATES.run(db, campaign_ids=campaign_ids, day=since)
    by_ad = {tuple(row["_id"].values()): row for row in delivered}
    for placement in queries.PLACEMENTS_OF_SOME.find(db, campaign_ids=campaign_ids):
        site, zone, unit = placement["_id"].values()
        counts = by_ad.get((placement["campaign_id"], site, zone, unit), {})
        price = pricing[placement["campaign_id"]]
        ecpm = rules.ecpm(price, counts.get("impressions", 0), counts.get("clicks", 0))
        if abs(ecpm - placement["ecpm"]) * CHANGED_BY > placement["ecpm"]:
            change = {"$set": {"ecpm": ecpm}, "$currentDate": {"changed_at": True}}
            yield UpdateOne(queries.PLACEMENT(site=site, zone=zone, unit=unit), change)


JOBS = [
    Job("return-ad-leases", every_seconds=30, run=return_leases, what="returns the money of expired leases to budgets"),
    Job("end-ad-campaigns", every_seconds=60, run=end_campaigns, what="ends campaigns whose end time has passed"),
    Job("refresh-ad-ecpm", every_seconds=60, run=refresh_ecpm, what="updates the eCPM of CPC ads from their clicks"),
]
