"""Choosing ads for one visitor of one zone."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, cast

from squinney.ads import rules
from squinney.ads.choosing import profiles
from squinney.ads.choosing.zones import Ad, Zone
from squinney.ads.documents import THOUSAND, Candidate, Cap, Serve
from squinney.ads.tokens import Tokens, new_token
from squinney.mongo.schema import Db

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
        self._without_money: set[str] = set()  # campaigns
        self.accepts: Accepts | None = None
        self._shown: dict[str, Any] | None = None  # the user's profile, once it is known

    def best(self, zone: Zone, count: int, *, chance: random.Random, tokens: Tokens) -> list[Serve]:
        """Go through the ads, best first, until there are enough."""
        chosen: list[Serve] = []
        if not count:
            return chosen
        for ad, score in zone.ordered().ranked(self._words, chance):
            if ad.held.campaign["_id"] in self._without_money or self.left_out(ad):
                continue
            if serve := self._serve(ad, score, tokens):
                chosen.append(serve)
                if len(chosen) == count:
                    break
        return chosen

    def left_out(self, ad: Ad) -> str:
        """Why the ad may not be shown now, money and caps aside; empty where it may."""
        campaign = ad.held.campaign
        if not ad.active:
            return "taken down"
        if campaign["status"] != "active":
            return cast(str, campaign["status"])
        if campaign["starts_at"] and self._now < campaign["starts_at"]:
            return "not started"
        if campaign["ends_at"] and self._now >= campaign["ends_at"]:
            return "ended"
        if ad.creative.get("kind") not in rules.CREATIVES:
            return "unknown creative"
        if self.accepts and not self.accepts(ad.creative, ad.ecpm, campaign["budget"]["currency"]):
            return "not accepted"
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
        if caps and self._shown is not None and self._capped(caps, self._shown):
            return None
        lease = held.wallet.reserve(promised, self._now)
        if lease is None:
            self._without_money.add(held.campaign["_id"])
            return None
        if caps and not self._count(caps):
            held.wallet.release(lease, promised)
            return None
        token = new_token(int(self._now.timestamp() * 1000), ad.offer_from(lease.id, self._site, self._zone))
        campaign = held.campaign
        currency = campaign["budget"]["currency"]
        return Serve(tokens.sign(token), campaign["_id"], ad.unit, ad.creative, held.price, currency, ad.ecpm, score)

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
