"""Reviews of ads: an ad that needs a review is shown after an editor has approved its creative.

`review` of a placement is {id, state: waiting | approved | rejected, at, reason, by, approved_url}. A placement without
it is approved. Each new or changed creative gets a new review id, and an approval names the id: an editor can approve
only the creative that was read, not one that replaced it in the meantime.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

from squinney.ads.errors import ReviewChanged, UnknownAd
from squinney.ads.queries import PLACEMENT
from squinney.mongo.schema import Db, Document

WAITING, APPROVED, REJECTED = "waiting", "approved", "rejected"
NOWHERE = "/"  # where a click leads if no editor has approved a destination
IS_APPROVED: Document = {"$eq": [{"$ifNull": ["$review.state", APPROVED]}, APPROVED]}


def after_placing(creative: Mapping[str, Any], review_id: str, now: datetime) -> Document:
    """Return the `review` of a placement that gets this creative: the same creative keeps its review.

    Clicks of earlier serves lead to the last approved URL until the change is approved.
    """
    # guard: a changed creative is reviewed again
    is_same = {"$eq": ["$creative", {"$literal": dict(creative)}]}
    last_url = {"$cond": [IS_APPROVED, "$creative.url", "$review.approved_url"]}
    waiting = {"id": review_id, "state": WAITING, "at": now, "approved_url": last_url}
    return {"$cond": [is_same, "$review", waiting]}


def decision(state: str, new_id: str, *, reason: str, by: str, now: datetime) -> list[Document]:
    """Return the update that stores an editor's decision."""
    review = {
        "id": {"$ifNull": ["$review.id", new_id]},
        "state": state,
        "at": now,
        "reason": {"$literal": reason},
        "by": {"$literal": by},
    }
    # `$mergeObjects` replaces the old review; without it, `$set` would keep its other fields.
    return [{"$set": {"review": {"$mergeObjects": [review]}, "changed_at": "$$NOW"}}]


def decide(db: Db, ad: Mapping[str, str], as_read: Document, change: list[Document]) -> Document:
    """Store a decision on the `ad`: its site, zone and unit; `as_read` requires the creative that was read.

    Raises: `UnknownAd`, `ReviewChanged`.
    """
    where, ads = PLACEMENT(**ad), db["ads.placements"]
    decided = ads.find_one_and_update({**where, **as_read}, change, return_document=True)
    if decided is None and ads.find_one(where):
        raise ReviewChanged("the ad was changed after it was read; read it again", **ad)
    if decided is None:
        raise UnknownAd("there is no ad {unit} in zone {zone} of {site}".format(**ad), **ad)
    return decided


def exclusion(placement: Mapping[str, Any]) -> str:
    """Return why a review excludes the ad, or an empty text."""
    state = placement.get("review", {}).get("state", APPROVED)
    # guard: an ad in review is not shown
    return "" if state == APPROVED else "rejected" if state == REJECTED else "in review"


def destination(placement: Mapping[str, Any]) -> str:
    """Return the URL that a click leads to: only to one that needs no review or was approved."""
    if exclusion(placement):
        # guard: a click never leads to a destination that was not approved
        return cast(str, placement["review"].get("approved_url", NOWHERE))
    return cast(str, placement["creative"].get("url", NOWHERE))
