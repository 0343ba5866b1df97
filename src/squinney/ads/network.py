"""`AdNetwork`: choices, beacons and figures, on top of `Campaigns`."""

from __future__ import annotations

import random
import time
import weakref
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal, Self, cast

from squinney import checks
from squinney.ads import budgets, queries, rules
from squinney.ads.budgets import Wallet
from squinney.ads.campaigns import Campaigns
from squinney.ads.choosing import profiles
from squinney.ads.choosing.cap_hits import CapHits
from squinney.ads.choosing.choice import Accepts, Choice
from squinney.ads.choosing.unseen import Unseen
from squinney.ads.choosing.zones import Zones
from squinney.ads.documents import COUNTED, THOUSAND, Candidate, Click, Serve
from squinney.ads.errors import BadServe, ServeExpired
from squinney.ads.settling import CLICK, CONVERSION, IMPRESSION, VIEWABLE, Beacon, Settler
from squinney.ads.tokens import Token, Tokens, stored_secret
from squinney.clock import Clock, utcnow
from squinney.mongo.connect import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db, Document
from squinney.patterns.paging import page
from squinney.transactions import Busy, Transactions

IMPRESSION_SECONDS = 600
CLICK_SECONDS = 86_400
CONVERSION_SECONDS = 7 * 86_400
MOST_CHOSEN = 20
MOST_VALUE = 10**15
CLOSE_SECONDS = 10  # for giving leases back: the job has the rest
FIRST_DAY = datetime(2000, 1, 1, tzinfo=UTC)
LAST_DAY = datetime(9999, 1, 1, tzinfo=UTC)
MOST_ROWS = 1_000
MOST_SUMS = 100


class AdNetwork(Campaigns):
    """Campaigns whose ads are chosen from memory, and whose money is never overspent.

    Several instances, in several processes, may serve the same campaigns. Close it, or use it in a `with`: it then
    gives its leases back, which otherwise happens when they lapse. Without a `secret` the network keeps one in the
    database. `impression_seconds` is how long after a choice its impression counts.
    """

    def __init__(
        self,
        db: Db,
        *,
        secret: bytes | None = None,
        transactions: Transactions | None = None,
        clock: Clock = utcnow,
        seed: int | None = None,
        polling: bool | None = None,
        impression_seconds: float = IMPRESSION_SECONDS,
    ) -> None:
        own = pinned(db)
        self._chance = random.Random(seed)
        self._given_tokens = Tokens(secret) if secret else None
        self._impression_seconds = checks.seconds(impression_seconds, "impression_seconds")
        # Not a method of this object: what its thread holds must not hold the network.
        wallet_for = partial(_wallet_for, own, clock, self._impression_seconds)
        super().__init__(own, transactions or Transactions(db), clock, Zones(own, wallet_for, polling=polling))
        self._settler = Settler(own, clock)
        self._hits = CapHits(own)
        self._unseen = Unseen()
        weakref.finalize(self, self._zones.stop.set)  # its thread ends with it

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @operation()
    def close(self) -> None:
        """End the thread and give back the money that no serve was promised.

        Atomic: each campaign's lease in one transaction.
        After a crash: the job `return-ad-leases` gives back what is left when it lapses.
        """
        self._zones.close()
        self._hits.write()
        until = time.monotonic() + CLOSE_SECONDS
        for campaign_id, held in list(self._zones.campaigns.items()):
            lease = held.wallet.empty()
            if lease and lease.free and time.monotonic() < until:
                with suppress(Busy):  # a killed process holds the budget: the job returns the lease when it lapses
                    budgets.give_back(self._db, campaign_id, lease)

    # ---- choosing ----

    def choose(
        self,
        site: str,
        zone: str,
        *,
        user: str | None = None,
        keywords: Iterable[str] = (),
        count: int = 1,
        consent: bool = True,
        accepts: Accepts | None = None,
        source: str | None = None,
    ) -> list[Serve]:
        """The best ads for a zone now, best first; fewer, or none, where there are no more.

        Without `consent` no profile is read or made, and so nothing is capped, as for an unknown user. `accepts` leaves
        out what it refuses, by the creative, the eCPM and the currency. `source` is who asks, such as an address: who
        leaves a hundred serves unseen gets no more for a while, since each holds back money.

        Atomic: a capped ad is one conditional update of the profile; others ask nobody. Now and then a process leases
        a slice of a budget, in one transaction.
        After a crash: a lease that the job `return-ad-leases` gives back, or an impression that a cap counts and
        nobody saw.
        Raises: `Invalid`, `Unavailable`.
        """
        checks.identifier(site, "site")
        checks.identifier(zone, "zone")
        if user is not None:
            checks.identifier(user, "user")
        words = rules.keywords(keywords) if keywords else []
        checks.integer(count, "count", least=1, most=MOST_CHOSEN)
        now = self._clock()
        if source is not None:
            count = min(count, self._unseen.room(source, now.timestamp()))
        choice = Choice(self._db, site, zone, user=user if consent else None, words=words, now=now)
        choice.accepts = accepts
        chosen = choice.best(self._zones.get(site, zone), count, chance=self._chance, tokens=self._tokens)
        if source is not None:
            self._unseen.add(source, len(chosen), now.timestamp())
        if choice.cap_hits:
            self._hits.add(choice.cap_hits)
            self._hits.write_if_due()
        return chosen

    @operation(reads_only=True)
    def explain(
        self, site: str, zone: str, *, user: str | None = None, keywords: Iterable[str] = ()
    ) -> list[Candidate]:
        """Every ad of the zone, best first, with its score and why it would be left out. Changes nothing."""
        words = rules.keywords(keywords) if keywords else []
        checks.identifier(site, "site")
        checks.identifier(zone, "zone")
        choice = Choice(self._db, site, zone, user=None, words=words, now=self._clock())
        shown = profiles.shown_to(self._db, checks.identifier(user, "user")) if user is not None else {}
        found = [choice.candidate(ad, shown) for ad in self._zones.get(site, zone).ads.values()]
        return sorted(found, key=lambda one: (-one.score, one.unit))

    @operation(reads_only=True)
    def ecpm(self, campaign_id: str, *, impressions: int = 0, clicks: int = 0) -> int:
        """What a thousand impressions of the campaign would bring after so many impressions and clicks, in thousandths
        of a minor unit.

        Raises: `UnknownCampaign`, `Invalid`.
        """
        checks.integer(impressions, "impressions", least=0)
        checks.integer(clicks, "clicks", least=0)
        return rules.ecpm(self.get(campaign_id)["pricing"], impressions, clicks)

    @operation()
    def forget(self, user: str) -> bool:
        """Delete a user's profile; whether there was one."""
        checks.identifier(user, "user")
        return self._db["ad_users"].delete_one(queries.USER(user=user)).deleted_count == 1

    # ---- beacons ----

    def impression(self, serve_id: str, *, source: str | None = None) -> bool:
        """Count a serve's impression, once; whether this was the first time. `source` as in `choose`.

        Atomic: one transaction, shared with the beacons that come at the same moment.
        After a crash: it is counted whole or not at all; send it again.
        Raises: `BadServe`, `ServeExpired`, `Busy`, `Unavailable`.
        """
        first = self._settled(serve_id, IMPRESSION, self._impression_seconds)
        if first and source is not None:
            self._unseen.add(source, -1, self._clock().timestamp())
        return first

    def impressions(self, serve_ids: Sequence[str]) -> list[bool]:
        """Count many impressions, as `impression` does, in as few transactions as possible.

        Those that cannot be counted, being forged or too late, are simply not the first.

        Atomic: transactions of up to some hundreds, each whole.
        After a crash: each is counted whole or not at all; send all of them again.
        Raises: `Busy`, `Unavailable`.
        """
        oldest = self._ago(self._impression_seconds)
        read = [self._readable(serve_id, oldest) for serve_id in serve_ids]
        beacons = [Beacon(token, IMPRESSION) for token in read if token]
        self._settler.settle(beacons)
        self._hits.write_if_due()
        settled = iter(beacons)
        return [token is not None and next(settled).first for token in read]

    def viewable(self, serve_id: str) -> bool:
        """Count once that at least half of a serve's ad was in sight for a second; whether this was the first time.

        Atomic: one transaction, shared with the beacons that come at the same moment.
        After a crash: it is counted whole or not at all; send it again.
        Raises: `BadServe`, `ServeExpired`, `Busy`, `Unavailable`.
        """
        return self._settled(serve_id, VIEWABLE, self._impression_seconds)

    def click(self, serve_id: str) -> Click:
        """Count a serve's click, once, and say where it leads: to the creative's own address.

        Atomic: one transaction, shared with the beacons that come at the same moment.
        After a crash: it is counted whole or not at all; send it again.
        Raises: `BadServe`, `ServeExpired`, `Busy`, `Unavailable`.
        """
        url = self._address(self._tokens.read(serve_id))
        return Click(url, self._settled(serve_id, CLICK, CLICK_SECONDS))

    def conversion(self, serve_id: str, value: int = 0) -> bool:
        """Count a serve's conversion, once, with what it was worth in minor units; whether this was the first time.

        Atomic: one transaction, shared with the beacons that come at the same moment.
        After a crash: it is counted whole or not at all; send it again.
        Raises: `BadServe`, `ServeExpired`, `Invalid`, `Busy`, `Unavailable`.
        """
        checks.integer(value, "value", least=0, most=MOST_VALUE)
        return self._settled(serve_id, CONVERSION, CONVERSION_SECONDS, value)

    def _settled(self, serve_id: str, kind: str, seconds: float, value: int = 0) -> bool:
        token = self._tokens.read(serve_id)
        if token.at_ms < self._ago(seconds):
            raise ServeExpired
        beacon = Beacon(token, kind, value)
        self._settler.settle([beacon])
        self._hits.write_if_due()
        return beacon.first

    def _ago(self, seconds: float) -> float:
        return (self._clock().timestamp() - seconds) * 1000

    def _readable(self, serve_id: str, oldest: float) -> Token | None:
        try:
            token = self._tokens.read(serve_id)
        except BadServe:
            return None
        return token if token.at_ms >= oldest else None

    @operation(reads_only=True)
    def _address(self, token: Token) -> str:
        ad = self._zones.get(token.offer.site, token.offer.zone).ads.get(token.offer.unit)
        return cast(str, ad.creative["url"]) if ad else "/"

    @property
    def _tokens(self) -> Tokens:
        if self._given_tokens is None:
            self._given_tokens = Tokens(stored_secret(self._db))
        return self._given_tokens

    # ---- figures ----

    @operation(reads_only=True)
    def stats(
        self,
        campaign_id: str,
        start: datetime | None = None,
        end: datetime | None = None,
        *,
        cursor: str | None = None,
        limit: int = MOST_ROWS,
    ) -> dict[str, Any]:
        """What a campaign delivered from `start` to before `end`: totals, and a row per zone, unit and day.

        The totals are of the whole time; of the rows there are at most `limit`, and `next` is the cursor of the others.

        Raises: `UnknownCampaign`, `Invalid`.
        """
        campaign = self.get(campaign_id)
        asked: dict[str, Any] = {"campaign_id": campaign_id, **_span(start, end)}
        found = page(self._db, queries.COUNTERS, cursor=cursor, limit=limit, most=MOST_ROWS, **asked)
        summed = next(self._db["ad_counters"].aggregate(queries.SUMS(**asked, by=[], limit=1)), {})
        totals = {name: summed.get(name, 0) for name in COUNTED}
        totals["spend_thousandths"] = totals.pop("spend")
        totals["spend"] = totals["spend_thousandths"] // THOUSAND
        said = {"campaign_id": campaign_id, "currency": campaign["budget"]["currency"]}
        return {**said, "totals": totals, "rows": [_row(one) for one in found.items], "next": found.next}

    @operation(reads_only=True)
    def delivered(
        self,
        campaign_id: str,
        *by: Literal["day", "site", "zone", "unit"],
        start: datetime | None = None,
        end: datetime | None = None,
        limit: int = MOST_SUMS,
    ) -> list[dict[str, Any]]:
        """What a campaign delivered, added up by day, site, zone or unit; the largest first. `spend` is in thousandths.

        Raises: `Invalid`.
        """
        checks.identifier(campaign_id, "campaign_id")
        limit = checks.integer(limit, "limit", least=1, most=MOST_ROWS)
        asked = queries.SUMS(campaign_id=campaign_id, **_span(start, end), by=by, limit=limit)
        return [{**one.pop("_id"), **one} for one in self._db["ad_counters"].aggregate(asked)]


def _span(start: datetime | None, end: datetime | None) -> dict[str, datetime]:
    return {"start": rules.moment(start, "start") or FIRST_DAY, "end": rules.moment(end, "end") or LAST_DAY}


def _wallet_for(db: Db, clock: Clock, serve_seconds: float, campaign: Document) -> Wallet:
    def take(old: budgets.Lease | None) -> budgets.Lease | None:
        price = rules.price_of(campaign["pricing"])
        lease = budgets.take_lease(db, campaign["_id"], price, old, now=clock(), serve_seconds=serve_seconds)
        if lease is None:
            budgets.end_if_spent(db, campaign["_id"], price)
        return lease

    return Wallet(take)


def _row(counter: Document) -> dict[str, Any]:
    names = {name: counter[name] for name in ("day", "site", "zone", "unit")}
    return {**names, **{name: counter.get(name, 0) for name in COUNTED}}
