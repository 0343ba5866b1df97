"""What happens by itself: leases come back, campaigns end, and clicks teach what ads are worth."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice

from squinney.ads import budgets, queries, rules
from squinney.clock import utcnow
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db, Document
from squinney.patterns.jobs import Job

READ_AT_ONCE = 500
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
    """Set what each ad that is paid by the click is worth, by its clicks so far, where anything was delivered lately.

    Atomic: each ad by itself.
    After a crash: the next run goes on.
    """
    db = pinned(db)
    changed = 0
    since = rules.day_of(now or utcnow()) - timedelta(days=1)
    for campaign in _paid_by_click(db, since):
        rates = {
            tuple(one["_id"].values()): one
            for one in db["ad_counters"].aggregate(queries.RATES(campaign_id=campaign["_id"]))
        }
        for placement in queries.PLACEMENTS_OF.find(db, campaign_id=campaign["_id"]):
            key = placement["_id"]
            seen = rates.get((key["site"], key["zone"], key["ad_unit"]), {})
            worth = rules.ecpm(campaign["pricing"], seen.get("impressions", 0), seen.get("clicks", 0))
            if abs(worth - placement["ecpm"]) * CHANGED_BY > placement["ecpm"]:
                change = {"$set": {"ecpm": worth}, "$currentDate": {"changed_at": True}}
                where = queries.PLACEMENT(site=key["site"], zone=key["zone"], unit=key["ad_unit"])
                changed += db["ad_placements"].update_one(where, change).modified_count
    return {"changed": changed}


def _paid_by_click(db: Db, since: datetime) -> Iterator[Document]:
    """The active campaigns of those that delivered since then, some hundreds at a time."""
    delivered = (one["_id"] for one in db["ad_counters"].aggregate(queries.DELIVERED_SINCE(day=since)))
    while some := list(islice(delivered, READ_AT_ONCE)):
        yield from list(queries.PAID_BY_CLICK.find(db, campaign_ids=some))


JOBS = [
    Job("return-ad-leases", every_seconds=30, run=return_leases, what="gives back budget that lapsed leases hold"),
    Job("end-ad-campaigns", every_seconds=60, run=end_campaigns, what="ends campaigns whose time is up"),
    Job("refresh-ad-ecpm", every_seconds=60, run=refresh_ecpm, what="learns from clicks what ads are worth"),
]
