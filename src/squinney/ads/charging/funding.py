"""Funding as guarded steps. Nothing here uses the database."""

from __future__ import annotations

from collections.abc import Callable

from squinney.ads.documents import THOUSAND, Campaign, Funding
from squinney.ads.errors import CampaignEnded, FundedEnough, UnknownCampaign
from squinney.errors import SquinneyError
from squinney.mongo.schema import Document
from squinney.transactions import Step


def funding_steps(campaign: Campaign, funding: Funding) -> list[Step]:
    """Return the steps of a funding. The guard keeps what is funded within the total, which never changes."""
    amount, campaign_id = funding["amount"], funding["campaign_id"]
    room = campaign["budget"]["total"] - amount
    return [
        Step(
            "ads.campaigns",
            campaign_id,
            # guard: what is funded never exceeds the total
            guard={"funded": {"$lte": room}, "status": {"$ne": "ended"}},
            # The time makes every process read the campaign again: its money is back within a second.
            update={"$inc": {"funded": amount}, "$currentDate": {"changed_at": True}},
            refused=_refused(campaign_id),
        ),
        Step("ads.budgets", campaign_id, update={"$inc": {"total": amount * THOUSAND}}),
        Step("ads.fundings", funding["_id"], insert=funding),
    ]


def _refused(campaign_id: str) -> Callable[[Document | None], SquinneyError]:
    def error(campaign: Document | None) -> SquinneyError:
        if campaign is None:
            return UnknownCampaign(f"there is no campaign {campaign_id}", campaign_id=campaign_id)
        if campaign["status"] == "ended":
            return CampaignEnded(f"campaign {campaign_id} has ended", campaign_id=campaign_id)
        total = campaign["budget"]["total"]
        room = total - campaign.get("funded", total)
        return FundedEnough(f"campaign {campaign_id} can get at most {room} more", campaign_id=campaign_id, room=room)

    return error
