"""Campaigns and placements: the part of `AdNetwork` that manages what may be shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, cast

from pymongo.errors import DuplicateKeyError

from squinney import checks
from squinney.ads import queries, rules
from squinney.ads.choosing.zones import Zones
from squinney.ads.documents import MOST_PLACEMENTS, THOUSAND, Campaign, Placement
from squinney.ads.errors import CampaignEnded, CampaignTaken, UnitTaken, UnknownCampaign
from squinney.clock import Clock
from squinney.errors import Invalid, LimitReached
from squinney.mongo.connect import operation
from squinney.mongo.schema import Db, Document
from squinney.patterns.paging import Page, page
from squinney.transactions import AlreadyExists, Plan, Step, Transactions


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
    ) -> Campaign:
        """Create a campaign. It is active from `starts_at`, or at once.

        Atomic: the campaign and its budget are one `Transactions` run.
        After a crash: nothing remains, or in two-phase mode stubs that the job `recover-transactions` removes.
        Raises: `Invalid`, `CampaignTaken`.
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
        steps = [
            Step("ad_campaigns", campaign_id, insert={name: campaign[name] for name in campaign if name != "_id"}),  # type: ignore[literal-required]
            Step("ad_budgets", campaign_id, insert=_budget_of(campaign, now)),
        ]
        try:
            self._transactions.run("ads.create", Plan(steps))
        except AlreadyExists as error:
            raise CampaignTaken(f"a campaign {campaign_id} already exists", campaign_id=campaign_id) from error
        return campaign

    @operation(reads_only=True)
    def get(self, campaign_id: str) -> Campaign:
        """Return a campaign.

        Raises: `UnknownCampaign`.
        """
        checks.identifier(campaign_id, "campaign_id")
        found = self._db["ad_campaigns"].find_one(queries.CAMPAIGN(campaign_id=campaign_id))
        if found is None:
            raise UnknownCampaign(f"there is no campaign {campaign_id}", campaign_id=campaign_id)
        return cast(Campaign, found)

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
            list[Placement], list(queries.PLACEMENTS_OF.find(self._db, campaign_id=campaign_id, limit=MOST_PLACEMENTS))
        )

    @operation(reads_only=True)
    def money(self, campaign_ids: Iterable[str]) -> dict[str, Document]:
        """Return what campaigns have spent, leased and left, and their totals, by campaign id.

        Money is in thousandths of a minor unit. The totals are `impressions`, `viewable`, `clicks` and `conversions`.
        """
        found = queries.SOME_BUDGETS.find(self._db, campaign_ids=sorted(set(campaign_ids)))
        return {one["_id"]: _money_of(one) for one in found}

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
        unless_ended = {"status": {"$ne": "ended"}} if status != "ended" else {}
        where = {**queries.CAMPAIGN(campaign_id=campaign_id), **unless_ended}
        change = {"$set": {"status": status}, "$currentDate": {"changed_at": True}}
        changed = self._db["ad_campaigns"].find_one_and_update(where, change, return_document=True)
        if changed is None:
            self.get(campaign_id)
            raise CampaignEnded(f"campaign {campaign_id} has ended", campaign_id=campaign_id)
        self._zones.update_campaign(changed)
        return cast(Campaign, changed)

    @operation()
    def place(self, campaign_id: str, site: str, zone: str, ad: Mapping[str, Any]) -> Placement:
        """Put an ad into a zone, or change the campaign's ad with the same unit in that zone.

        `ad` has a `unit` and a `creative`, and may have `keywords`, `weight`, its own `cap`, and `active`.

        Raises: `Invalid`, `UnknownCampaign`, `CampaignEnded`, `UnitTaken`, `LimitReached`.
        """
        unit, fields = _checked(ad)
        key = {"site": checks.identifier(site, "site"), "zone": checks.identifier(zone, "zone"), "unit": unit}
        campaign = self.get(campaign_id)
        if campaign["status"] == "ended":
            raise CampaignEnded(f"campaign {campaign_id} has ended", campaign_id=campaign_id)
        where = {"_id": {"site": site, "zone": zone, "ad_unit": unit}, "campaign_id": campaign_id}
        self._refuse_too_many(campaign_id, where)
        ecpm = {"ecpm": rules.ecpm(campaign["pricing"])}
        change = {"$set": fields, "$setOnInsert": ecpm, "$currentDate": {"changed_at": True}}
        try:
            found = self._db["ad_placements"].find_one_and_update(where, change, upsert=True, return_document=True)
        except DuplicateKeyError:
            raise UnitTaken(f"another campaign has a unit {unit} in this zone", **key) from None
        placed = cast(Document, found)
        self._zones.update_placement(placed, reorder=True)
        return cast(Placement, placed)

    def _refuse_too_many(self, campaign_id: str, placement: Document) -> None:
        """Limit the ads of a campaign, since a choice may look at every ad of a zone. Races may exceed it by a few."""
        ads = self._db["ad_placements"]
        listed = queries.PLACEMENTS_OF(campaign_id=campaign_id)
        if ads.count_documents(listed, limit=MOST_PLACEMENTS) == MOST_PLACEMENTS and not ads.find_one(placement):
            raise LimitReached(f"a campaign can have at most {MOST_PLACEMENTS} ads in zones", limit=MOST_PLACEMENTS)


def _budget_of(campaign: Campaign, now: datetime) -> Document:
    budget = campaign["budget"]
    daily = budget["daily"]
    return {
        "total": budget["total"] * THOUSAND,
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
        "weight": checks.integer(given.get("weight", 1), "weight", least=1, most=1_000),
        "cap": rules.cap(given.get("cap")),
        "active": given.get("active", True),
    }
