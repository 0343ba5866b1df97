"""Campaigns and placements: the part of `AdNetwork` that manages what may be shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from pymongo.errors import DuplicateKeyError

from squinney import checks
from squinney.ads import queries, reviews, rules
from squinney.ads.charging.funding import funding_steps
from squinney.ads.choosing.zones import Zones
from squinney.ads.documents import MAX_BUDGET, MAX_PLACEMENTS, THOUSAND, Campaign, Funding, Placement
from squinney.ads.errors import CampaignEnded, CampaignTaken, UnitTaken, UnknownCampaign
from squinney.clock import Clock
from squinney.errors import Invalid, LimitReached
from squinney.mongo.deadlines import operation
from squinney.mongo.schema import Db, Document
from squinney.patterns.ids import new_id
from squinney.patterns.paging import Page, page
from squinney.transactions import Key, Plan, Step, Transactions


class Campaigns:
    """Creates, reads and changes campaigns. Each change updates the zones in this process's memory at once."""

    def __init__(self, db: Db, transactions: Transactions, clock: Clock, zones: Zones) -> None:
        self._db = db
        self._transactions = transactions
        self._clock = clock
        self._zones = zones

    @operation()
    def create_campaign(
        self,
        campaign_id: str,
        advertiser: str,
        *,
        pricing: Mapping[str, Any],
        budget: Mapping[str, Any],
        cap: Mapping[str, Any] | None = None,
        starts_at: datetime | None = None,
        ends_at: datetime | None = None,
        targeting: Mapping[str, Any] | None = None,
        owner: str | None = None,
        review: bool = False,
        also: Sequence[Step] = (),
    ) -> Campaign:
        """Create a campaign. It is active from `starts_at`, or at once.

        With `review`, its ads are shown after an editor has approved them, and its budget begins empty: it spends only
        what `fund` adds, up to the total. `also` are further steps, which happen with the creation or not at all.

        Atomic: the campaign and its budget are one `Transactions` run.
        After a crash: nothing remains.
        Raises: `Invalid`, `CampaignTaken`, what `also` refuses.
        """
        now = self._clock()
        campaign: Campaign = {
            "_id": checks.identifier(campaign_id, "campaign_id"),
            "advertiser": checks.identifier(advertiser, "advertiser"),
            "status": "active",
            "starts_at": rules.moment(starts_at, "starts_at"),
            "ends_at": rules.moment(ends_at, "ends_at"),
            "budget": rules.budget(budget),
            "pricing": rules.pricing(pricing),
            "cap": rules.cap(cap),
            "targeting": rules.targeting(targeting),
            "created_at": now,
            "changed_at": now,
        }
        if owner is not None:
            campaign["owner"] = checks.identifier(owner, "owner")
        if review:
            campaign["needs_review"], campaign["funded"] = True, 0
        taken = CampaignTaken(f"a campaign {campaign_id} already exists", campaign_id=campaign_id)
        steps = [
            Step("ads.campaigns", campaign_id, insert=dict(campaign), refused=lambda _: taken),
            Step("ads.budgets", campaign_id, insert=_budget_of(campaign, now), refused=lambda _: taken),
        ]
        self._transactions.run("ads.create", Plan(steps).also(also))
        return campaign

    @operation(reads_only=True)
    def get(self, campaign_id: str) -> Campaign:
        """Return a campaign.

        Raises: `UnknownCampaign`.
        """
        checks.identifier(campaign_id, "campaign_id")
        campaign = queries.CAMPAIGN.find_one(self._db, campaign_id=campaign_id)
        if campaign is None:
            raise UnknownCampaign(f"there is no campaign {campaign_id}", campaign_id=campaign_id)
        return cast(Campaign, campaign)

    @operation(reads_only=True)
    def all(self, *, cursor: str | None = None, limit: int = 50) -> Page[Campaign]:
        """List all campaigns, ordered by id."""
        return cast(Page[Campaign], page(self._db, queries.CAMPAIGNS, cursor=cursor, limit=limit))

    @operation(reads_only=True)
    def owned_by(self, owner: str, *, cursor: str | None = None, limit: int = 50) -> Page[Campaign]:
        """List the campaigns of an owner, ordered by id."""
        checks.identifier(owner, "owner")
        return cast(Page[Campaign], page(self._db, queries.CAMPAIGNS_OF, cursor=cursor, limit=limit, owner=owner))

    @operation(reads_only=True)
    def placements(self, campaign_id: str) -> list[Placement]:
        """List a campaign's ads in zones."""
        return cast(
            list[Placement], list(queries.PLACEMENTS_OF.find(self._db, campaign_id=campaign_id, limit=MAX_PLACEMENTS))
        )

    @operation(reads_only=True)
    def money(self, campaign_ids: Iterable[str]) -> dict[str, Document]:
        """Return what campaigns have spent, leased and left, and their totals, by campaign id.

        Money is in thousandths of a minor unit. The totals are `impressions`, `viewable`, `clicks` and `conversions`.
        """
        budgets = queries.SOME_BUDGETS.find(self._db, campaign_ids=sorted(set(campaign_ids)))
        return {budget["_id"]: _money_of(budget) for budget in budgets}

    def pause(self, campaign_id: str) -> Campaign:
        """Stop showing a campaign, in every process, until it is resumed.

        Raises: `UnknownCampaign`, `CampaignEnded`.
        """
        return self._set_status(campaign_id, "paused")

    def resume(self, campaign_id: str) -> Campaign:
        """Show a paused campaign again, in every process.

        Raises: `UnknownCampaign`, `CampaignEnded`.
        """
        return self._set_status(campaign_id, "active")

    def deactivate(self, campaign_id: str) -> Campaign:
        """End a campaign permanently. One update removes it from every zone, within a second in every process.

        Raises: `UnknownCampaign`.
        """
        return self._set_status(campaign_id, "ended")

    @operation()
    def _set_status(self, campaign_id: str, status: str) -> Campaign:
        checks.identifier(campaign_id, "campaign_id")
        # guard: an ended campaign cannot be paused or resumed
        unless_ended = {"status": {"$ne": "ended"}} if status != "ended" else {}
        where = {**queries.CAMPAIGN(campaign_id=campaign_id), **unless_ended}
        change = {"$set": {"status": status}, "$currentDate": {"changed_at": True}}
        changed = self._db["ads.campaigns"].find_one_and_update(where, change, return_document=True)
        if changed is None:
            self.get(campaign_id)
            raise CampaignEnded(f"campaign {campaign_id} has ended", campaign_id=campaign_id)
        self._zones.update_campaign(changed)
        return cast(Campaign, changed)

    @operation()
    def place(
        self, campaign_id: str, site: str, zone: str, ad: Mapping[str, Any], *, review: bool = False
    ) -> Placement:
        """Put an ad into a zone, or change the campaign's ad with the same unit in that zone.

        `ad` has a `unit` and a `creative`, and may have `keywords`, `weight`, its own `cap`, and `active`. With
        `review`, or if the campaign needs it, a new or changed creative is shown after an editor has approved it.

        Raises: `Invalid`, `UnknownCampaign`, `CampaignEnded`, `UnitTaken`, `LimitReached`.
        """
        unit, fields = _checked(ad)
        key = {"site": checks.identifier(site, "site"), "zone": checks.identifier(zone, "zone"), "unit": unit}
        campaign = self.get(campaign_id)
        if campaign["status"] == "ended":
            raise CampaignEnded(f"campaign {campaign_id} has ended", campaign_id=campaign_id)
        where = {"_id": {"site": site, "zone": zone, "ad_unit": unit}, "campaign_id": campaign_id}
        # guard: the ads of a campaign are limited
        self._refuse_too_many(campaign_id, where)
        values = {name: {"$literal": value} for name, value in fields.items()}
        ecpm = {"$ifNull": ["$ecpm", rules.ecpm(campaign["pricing"])]}
        needs_review = review or campaign.get("needs_review", False)
        reviewed = reviews.after_placing(fields["creative"], new_id(), self._clock()) if needs_review else "$$REMOVE"
        change = [{"$set": {**values, "ecpm": ecpm, "review": reviewed, "changed_at": "$$NOW"}}]
        try:
            placement = self._db["ads.placements"].find_one_and_update(where, change, upsert=True, return_document=True)
        except DuplicateKeyError:
            raise UnitTaken(f"another campaign has a unit {unit} in this zone", **key) from None
        placed = cast(Document, placement)
        self._zones.update_placement(placed, reorder=True)
        return cast(Placement, placed)

    # ---- review and payment ----

    @operation(reads_only=True)
    def in_review(self, *, cursor: str | None = None, limit: int = 50) -> Page[Placement]:
        """List the ads that wait for an editor, oldest first."""
        return cast(Page[Placement], page(self._db, queries.IN_REVIEW, cursor=cursor, limit=limit))

    def approve(self, site: str, zone: str, unit: str, *, review_id: str, by: str = "") -> Placement:
        """Let an ad be shown. `review_id` is the review that the editor read, so that a newer creative still waits.

        Raises: `Invalid`, `UnknownAd`, `ReviewChanged`.
        """
        checks.identifier(review_id, "review_id")
        # guard: an approval is for the creative that was read
        return self._decide(site, zone, unit, reviews.APPROVED, {"review.id": review_id}, "", by)

    def reject(
        self, site: str, zone: str, unit: str, reason: str, *, review_id: str | None = None, by: str = ""
    ) -> Placement:
        """Stop showing an ad until its creative is changed and approved. Its clicks lead to the home page.

        Without `review_id`, also an approved ad and one whose creative has just changed.

        Raises: `Invalid`, `UnknownAd`, `ReviewChanged`.
        """
        checks.text(reason, "reason", min_length=1, max_length=500)
        as_read = {} if review_id is None else {"review.id": checks.identifier(review_id, "review_id")}
        return self._decide(site, zone, unit, reviews.REJECTED, as_read, reason, by)

    @operation()
    def _decide(
        self, site: str, zone: str, unit: str, state: str, as_read: Document, reason: str, by: str
    ) -> Placement:
        ad = {"site": site, "zone": zone, "unit": unit}
        for name, value in ad.items():
            checks.identifier(value, name)
        checks.text(by, "by", max_length=200)
        change = reviews.decision(state, new_id(), reason=reason, by=by, now=self._clock())
        decided = reviews.decide(self._db, ad, as_read, change)
        self._zones.update_placement(decided, reorder=True)
        return cast(Placement, decided)

    @operation()
    def fund(
        self,
        campaign_id: str,
        amount: int,
        *,
        key: str | Key | None = None,
        by: str = "",
        paid_from: str = "",
        transfer_id: str = "",
        also: Sequence[Step] = (),
    ) -> Campaign:
        """Add money, in minor units, to what a campaign created with `review` may spend, once per `key`.

        `also` are further steps, which happen with it or not at all: for money that is paid from the account
        `paid_from`, those of the transfer `transfer_id`.

        Atomic: the campaign, its budget, the record of the funding and `also` are one `Transactions` run.
        After a crash: nothing remains.
        Raises: `Invalid`, `UnknownCampaign`, `CampaignEnded`, `FundedEnough`, what `also` refuses, `KeyReused`, `Busy`,
        `Unavailable`.
        """
        checks.integer(amount, "amount", minimum=1, maximum=MAX_BUDGET)
        campaign = self.get(campaign_id)
        funding: Funding = {
            "_id": new_id(),
            "campaign_id": campaign_id,
            "amount": amount,
            "currency": campaign["budget"]["currency"],
            "paid_from": checks.text(paid_from, "paid_from", max_length=200),
            "by": checks.text(by, "by", max_length=200),
            "at": self._clock(),
        }
        if transfer_id:
            funding["transfer_id"] = checks.text(transfer_id, "transfer_id", max_length=200)
        plan = Plan(funding_steps(campaign, funding)).also(also)
        arguments = {"campaign_id": campaign_id, "amount": amount, "paid_from": paid_from}
        self._transactions.run("ads.fund", plan, key=key, arguments=arguments)
        funded = self.get(campaign_id)
        self._zones.update_campaign(cast(Document, funded))
        return funded

    @operation(reads_only=True)
    def fundings(self, campaign_id: str, *, cursor: str | None = None, limit: int = 50) -> Page[Funding]:
        """List the money that a campaign got, oldest first."""
        checks.identifier(campaign_id, "campaign_id")
        return cast(
            Page[Funding], page(self._db, queries.FUNDINGS, cursor=cursor, limit=limit, campaign_id=campaign_id)
        )

    def _refuse_too_many(self, campaign_id: str, placement: Document) -> None:
        """Limit the ads of a campaign, since a choice may look at every ad of a zone. Races may exceed it by a few."""
        ads = self._db["ads.placements"]
        listed = queries.PLACEMENTS_OF(campaign_id=campaign_id)
        if ads.count_documents(listed, limit=MAX_PLACEMENTS) == MAX_PLACEMENTS and not ads.find_one(placement):
            raise LimitReached(f"a campaign can have at most {MAX_PLACEMENTS} ads in zones", limit=MAX_PLACEMENTS)


def _budget_of(campaign: Campaign, now: datetime) -> Document:
    budget = campaign["budget"]
    daily = budget["daily"]
    return {
        # guard: a campaign with review spends only what is funded
        "total": campaign.get("funded", budget["total"]) * THOUSAND,
        "daily": None if daily is None else daily * THOUSAND,
        "pacing": budget.get("pacing", "asap"),
        "committed": 0,
        "spent": 0,
        "day": rules.day_of(now),
        "day_committed": 0,
    }


def _money_of(budget: Document) -> Document:
    none_yet = dict.fromkeys(("impressions", "viewable", "clicks", "conversions"), 0)
    committed = budget["committed"]
    return {**none_yet, **budget, "leased": committed - budget["spent"], "left": budget["total"] - committed}


def _checked(ad: Mapping[str, Any]) -> tuple[str, Document]:
    known = ("unit", "creative", "keywords", "weight", "cap", "active")
    given = rules.fields(ad, "ad", known)
    if not isinstance(given.get("active", True), bool):
        raise Invalid("active must be true or false", field="active")
    return checks.identifier(given.get("unit"), "unit"), {
        "creative": rules.creative(given.get("creative")),
        "keywords": rules.keywords(given.get("keywords") or ()),
        "weight": checks.integer(given.get("weight", 1), "weight", minimum=1, maximum=1_000),
        "cap": rules.cap(given.get("cap")),
        "active": given.get("active", True),
    }
