"""Choosing ads for one visitor of one zone."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, cast

from squinney.ads import rules
from squinney.ads.budgets import Lease
from squinney.ads.choosing import profiles
from squinney.ads.choosing.zones import Ad, Held, Zone
from squinney.ads.counters import Row
from squinney.ads.documents import THOUSAND, Candidate, Cap, Serve
from squinney.ads.tokens import Tokens, new_token
from squinney.mongo.schema import Db, Document

MOST_REFUSALS = 5

Accepts = Callable[[Mapping[str, Any], int, str], bool]  # the creative, the eCPM, the currency


class Choice:
    """One choice: for whom, beside which words, and what was learned on the way."""

    def __init__(self, db: Db, site: str, zone: str, *, user: str | None, words: list[str], now: datetime) -> None:
        self._db = db
        self._site = site
        self._zone = zone
        self._user = user
        self._words = words
        self._now = now
        self._passed_over: set[Held] = set()  # campaigns of which no ad can be shown
        self._refusals = 0
        self._is_full = False
        self.accepts: Accepts | None = None
        self.cap_hits: list[Row] = []
        self._shown: dict[str, Any] | None = None  # the user's profile, once it is known

    def best(self, zone: Zone, count: int, *, chance: random.Random, tokens: Tokens) -> list[Serve]:
        """Go through the ads, best first, until there are enough."""
        chosen: list[Serve] = []
        if not count:
            return chosen
        for ad, score in zone.ordered().ranked(self._words, chance):
            if ad.held in self._passed_over:
                continue
            if self._campaign_left_out(ad.held.campaign):
                self._passed_over.add(ad.held)
            elif not self._ad_left_out(ad) and (serve := self._serve(ad, score, tokens)):
                chosen.append(serve)
                if len(chosen) == count:
                    break
        if self._refusals:
            zone.look_again()
        return chosen

    def left_out(self, ad: Ad) -> str:
        """Why the ad may not be shown now, money and caps aside; empty where it may."""
        return self._ad_left_out(ad) or self._campaign_left_out(ad.held.campaign)

    def _ad_left_out(self, ad: Ad) -> str:
        if not ad.active:
            return "taken down"
        if ad.creative.get("kind") not in rules.CREATIVES:
            return "unknown creative"
        if self.accepts and not self.accepts(ad.creative, ad.ecpm, ad.held.campaign["budget"]["currency"]):
            return "not accepted"
        return ""

    def _campaign_left_out(self, campaign: Document) -> str:
        if campaign["status"] != "active":
            return cast(str, campaign.get("ended_because", campaign["status"]))
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
        held = ad.held
        promised = max(1, ad.ecpm // THOUSAND) if held.per_click else held.price
        caps = self._caps(ad) if self._user is not None else {}
        if caps and (self._is_full or self._hits_cap(ad, caps)):
            return None
        lease = self._reserve(held, promised)
        if lease is None:
            return None
        if caps and not self._count(caps):
            held.wallet.release(lease, promised)
            self._is_full = not self._hits_cap(ad, caps)
            return None
        token = new_token(int(self._now.timestamp() * 1000), ad.offer_from(lease.id, self._site, self._zone))
        campaign = held.campaign
        currency = campaign["budget"]["currency"]
        return Serve(tokens.sign(token), campaign["_id"], ad.unit, ad.creative, held.price, currency, ad.ecpm, score)

    def _reserve(self, held: Held, promised: int) -> Lease | None:
        """Money for a serve. Few campaigns that may have none are asked: each is a transaction, and a page waits."""
        before = held.wallet.refusals
        lease = held.wallet.reserve(promised, self._now, may_ask=self._refusals < MOST_REFUSALS)
        if lease is None:
            self._refusals += held.wallet.refusals - before
            self._passed_over.add(held)
        return lease

    def _hits_cap(self, ad: Ad, caps: Mapping[str, Cap]) -> bool:
        """Whether the profile, as far as it is known, has the ad's cap or its campaign's used up; if so, count it."""
        shown = self._shown
        if shown is None or not self._capped(caps, shown):
            return False
        campaign = ad.held.campaign
        if campaign["cap"] and rules.is_capped(shown, rules.encoded(campaign["_id"]), campaign["cap"], self._now):
            self._passed_over.add(ad.held)
        self.cap_hits.append(Row(campaign["_id"], rules.day_of(self._now), self._site, self._zone, ad.unit))
        return True

    def _caps(self, ad: Ad) -> dict[str, Cap]:
        campaign_id = ad.held.campaign["_id"]
        caps = {}
        if cap := ad.held.campaign["cap"]:
            caps[rules.encoded(campaign_id)] = cap
        if ad.cap:
            caps[rules.encoded(campaign_id, self._site, self._zone, ad.unit)] = ad.cap
        return caps

    def _count(self, caps: Mapping[str, Cap]) -> bool:
        assert self._user is not None
        counted, self._shown = profiles.count(self._db, self._user, caps, self._now)
        return counted

    def _capped(self, caps: Mapping[str, Cap], shown: Mapping[str, Any]) -> bool:
        return any(rules.is_capped(shown, key, cap, self._now) for key, cap in caps.items())

    def candidate(self, ad: Ad, shown: Mapping[str, Any]) -> Candidate:
        """The ad as `explain` tells of it."""
        reason = self.left_out(ad)
        if not reason and self._capped(self._caps(ad), shown):
            reason = "capped for this user"
        if not reason and not ad.held.wallet.has(ad.held.price):
            reason = "out of budget"
        matches = len(ad.keywords.intersection(self._words))
        score = rules.score(ad.ecpm, matches if self._words else None)
        return Candidate(ad.held.campaign["_id"], ad.unit, ad.ecpm, matches, score, reason)
