"""Choose ads for one visitor of one zone."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, cast

from squinney.ads import rules
from squinney.ads.charging.budgets import BudgetLease
from squinney.ads.charging.counters import CounterKey
from squinney.ads.choosing import profiles
from squinney.ads.choosing.zones import Ad, CachedCampaign, Zone
from squinney.ads.documents import Candidate, Cap, Serve
from squinney.ads.tokens import Tokens, new_serve_token
from squinney.mongo.schema import Db, Document

MAX_REFUSALS = 5
NOT_FUNDED = "not funded"

Accepts = Callable[[Mapping[str, Any], int, str], bool]  # the creative, the eCPM, the currency


class Choice:
    """One choice: its zone, user and keywords, and what it has found out so far."""

    def __init__(self, db: Db, site: str, zone: str, *, user: str | None, words: list[str], now: datetime) -> None:
        self._db = db
        self._site = site
        self._zone = zone
        self._user = user
        self._words = words
        self._now = now
        self._skipped: set[CachedCampaign] = set()  # campaigns of which no ad can be shown
        self._refusals = 0
        self._profile_is_full = False
        self.accepts: Accepts | None = None
        self.cap_hits: list[CounterKey] = []
        self._shown: dict[str, Any] | None = None  # the user's profile, once it was read

    def best(self, zone: Zone, count: int, *, rng: random.Random, tokens: Tokens) -> list[Serve]:
        """Try the ads of the zone, best first, until there are enough serves."""
        chosen: list[Serve] = []
        if not count:
            return chosen
        for ad, score in zone.ordered().ranked(self._words, rng):
            if ad.campaign in self._skipped:
                continue
            if self._campaign_exclusion(ad.campaign.document):
                self._skipped.add(ad.campaign)
            elif not self._ad_exclusion(ad) and (serve := self._serve(ad, score, tokens)):
                chosen.append(serve)
                if len(chosen) == count:
                    break
        if self._refusals:
            zone.reorder_if_large()
        return chosen

    def _ad_exclusion(self, ad: Ad) -> str:
        if ad.excluded:
            return ad.excluded
        if self.accepts and not self.accepts(ad.creative, ad.ecpm, ad.campaign.document["budget"]["currency"]):
            return "not accepted"
        return ""

    def _campaign_exclusion(self, campaign: Document) -> str:
        # guard: a paused campaign is not shown
        if campaign["status"] != "active":
            return cast(str, campaign.get("ended_because", campaign["status"]))
        if campaign.get("funded") == 0:
            return NOT_FUNDED
        if campaign["starts_at"] and self._now < campaign["starts_at"]:
            return "not started"
        if campaign["ends_at"] and self._now >= campaign["ends_at"]:
            return "ended"
        if targeting := campaign["targeting"]:
            if "sites" in targeting and self._site not in targeting["sites"]:
                return "not for this site"
            if "keywords" in targeting and not set(self._words).intersection(targeting["keywords"]):
                return "not for these keywords"
        return ""

    def _serve(self, ad: Ad, score: float, tokens: Tokens) -> Serve | None:
        campaign = ad.campaign
        # guard: no more ads paid by click are served than could be paid
        promised = campaign.price  # also for a click: every serve may be clicked, and must then be paid
        caps = self._caps(ad) if self._user is not None else {}
        if caps and (self._profile_is_full or self._hits_cap(ad, caps)):
            return None
        lease = self._reserve(campaign, promised)
        if lease is None:
            return None
        # guard: a capped ad is counted before it is shown
        if caps and not self._count(caps):
            campaign.wallet.release(lease, promised)
            # guard: a full profile is updated once in a choice
            self._profile_is_full = not self._hits_cap(ad, caps)
            return None
        token = new_serve_token(int(self._now.timestamp() * 1000), ad.offer_from(lease.id, self._site, self._zone))
        return Serve(
            serve_id=tokens.sign(token),
            campaign_id=campaign.document["_id"],
            unit=ad.unit,
            creative=ad.creative,
            price=campaign.price,
            currency=campaign.document["budget"]["currency"],
            ecpm=ad.ecpm,
            score=score,
        )

    def _reserve(self, campaign: CachedCampaign, amount: int) -> BudgetLease | None:
        """Reserve money for a serve. Few campaigns without money are tried: each takes a transaction."""
        before = campaign.wallet.refusals
        # guard: a choice tries few campaigns without money
        lease = campaign.wallet.reserve(amount, self._now, may_lease=self._refusals < MAX_REFUSALS)
        if lease is None:
            self._refusals += campaign.wallet.refusals - before
            self._skipped.add(campaign)
        return lease

    def _hits_cap(self, ad: Ad, caps: Mapping[str, Cap]) -> bool:
        """Return whether the profile, if it was read, has reached one of the caps. If so, count the cap hit."""
        shown = self._shown
        if shown is None or not self._is_capped(caps, shown):
            return False
        campaign = ad.campaign.document
        if campaign["cap"] and rules.is_capped(shown, rules.field_name(campaign["_id"]), campaign["cap"], self._now):
            self._skipped.add(ad.campaign)
        # guard: cap hits are counted
        self.cap_hits.append(CounterKey(campaign["_id"], rules.day_of(self._now), self._site, self._zone, ad.unit))
        return True

    def _caps(self, ad: Ad) -> dict[str, Cap]:
        campaign = ad.campaign.document
        caps = {}
        if campaign["cap"]:
            caps[rules.field_name(campaign["_id"])] = campaign["cap"]
        if ad.cap:
            caps[rules.field_name(campaign["_id"], self._site, self._zone, ad.unit)] = ad.cap
        return caps

    def _count(self, caps: Mapping[str, Cap]) -> bool:
        assert self._user is not None
        counted, self._shown = profiles.count(self._db, self._user, caps, self._now)
        return counted

    def _is_capped(self, caps: Mapping[str, Cap], shown: Mapping[str, Any]) -> bool:
        return any(rules.is_capped(shown, key, cap, self._now) for key, cap in caps.items())

    def candidate(self, ad: Ad, shown: Mapping[str, Any]) -> Candidate:
        """Describe an ad for `explain`, with the reason why it would not be chosen."""
        campaign = ad.campaign
        reason = self._ad_exclusion(ad) or self._campaign_exclusion(campaign.document)
        if not reason and self._is_capped(self._caps(ad), shown):
            reason = "capped for this user"
        if not reason and not campaign.wallet.has(campaign.price):
            budget = campaign.document["budget"]["total"]
            reason = NOT_FUNDED if campaign.document.get("funded", budget) < budget else "out of budget"
        matches = len(ad.keywords.intersection(self._words))
        score = rules.score(ad.ecpm, matches if self._words else None)
        return Candidate(campaign.document["_id"], ad.unit, ad.ecpm, matches, score, reason)
