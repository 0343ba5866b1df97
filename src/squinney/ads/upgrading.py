"""Puts the ads of members under review that an older version, which knew no reviews, showed without one."""

from __future__ import annotations

from squinney.ads import reviews
from squinney.ads.documents import THOUSAND
from squinney.clock import utcnow
from squinney.mongo.schema import Db
from squinney.patterns.ids import new_id

_UP_TO_A_UNIT = {"$ceil": {"$divide": ["$committed", THOUSAND]}}
ONLY_WHAT_IS_PROMISED = [{"$set": {"total": {"$toLong": {"$multiply": [THOUSAND, _UP_TO_A_UNIT]}}}}]


def require_reviews(db: Db) -> None:
    """Do so in the collections with their former names, before these are renamed: after a crash it is done again."""
    for campaign in list(db["ad_campaigns"].find({"owner": {"$exists": True}, "needs_review": None}, {"_id": 1})):
        _require_review(db, campaign["_id"])


def _require_review(db: Db, campaign_id: str) -> None:
    """What was spent or promised counts as funded. The campaign is changed last, so that a crash leaves it to do."""
    budget = db["ad_budgets"].find_one_and_update({"_id": campaign_id}, ONLY_WHAT_IS_PROMISED, return_document=True)
    for ad in list(db["ad_placements"].find({"campaign_id": campaign_id}, {"_id": 1})):
        review = {"id": new_id(), "state": reviews.WAITING, "at": utcnow()}
        db["ad_placements"].update_one({"_id": ad["_id"]}, {"$set": {"review": review}})
    funded = budget["total"] // THOUSAND if budget else 0
    db["ad_campaigns"].update_one({"_id": campaign_id}, {"$set": {"needs_review": True, "funded": funded}})
