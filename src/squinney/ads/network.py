"""`AdNetwork`: choose ads, count their events and report delivery, in addition to `Campaigns`."""

from __future__ import annotations

import random
import time
import weakref
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal, Self

from squinney import checks
from squinney.ads import queries, reviews, rules
from squinney.ads.campaigns import Campaigns
from squinney.ads.charging import budgets
from squinney.ads.charging.budgets import Wallet
from squinney.ads.charging.settling import CLICK, CONVERSION, IMPRESSION, VIEWABLE, Beacon, Settler
from squinney.ads.choosing import profiles
from squinney.ads.choosing.cap_hits import CapHits
from squinney.ads.choosing.choice import Accepts, Choice
from squinney.ads.choosing.unseen import Unseen
from squinney.ads.choosing.zones import Zones
from squinney.ads.documents import COUNTED, THOUSAND, Candidate, Click, Serve
from squinney.ads.errors import BadServe, ServeExpired
from squinney.ads.tokens import Offer, Token, Tokens, stored_secret
from squinney.clock import Clock, utcnow
from squinney.errors import Invalid, Unavailable
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db, Document
from squinney.patterns.paging import page
from squinney.transactions import Busy, Transactions

IMPRESSION_SECONDS = 600
CLICK_SECONDS = 86_400
CONVERSION_SECONDS = 7 * 86_400
MAX_CHOSEN = 20
MAX_VALUE = 10**15
MAX_NAMES = 5  # of one visitor
CLOSE_SECONDS = 10  # for returning leases; the job returns the others
FIRST_DAY = datetime(2000, 1, 1, tzinfo=UTC)
LAST_DAY = datetime(9999, 1, 1, tzinfo=UTC)
MAX_ROWS = 1_000
MAX_SUMS = 100


class AdNetwork(Campaigns):
    """Campaigns whose ads are chosen from memory, and whose budgets are never exceeded.

    Several instances, in several processes, may serve the same campaigns. Close it, or use it in a `with`, to return
    its leases to the budgets; otherwise their money returns when they expire. Without a `secret` the network creates
    one and stores it in the database. `impression_seconds` is how long after a choice its impression counts.
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
        self._rng = random.Random(seed)
        self._known_tokens = Tokens(secret) if secret else None
        self._impression_seconds = checks.seconds(impression_seconds, "impression_seconds")
        # Not a bound method: the zones' thread must not keep the network alive.
        wallet_for = partial(_wallet_for, own, clock, self._impression_seconds)
        super().__init__(own, transactions or Transactions(db), clock, Zones(own, wallet_for, polling=polling))
        self._settler = Settler(own, clock)
        self._hits = CapHits(own)
        self._unseen = Unseen()
        weakref.finalize(self, self._zones.stop.set)  # ends the zones' thread when the network is collected

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @operation(2 * CLOSE_SECONDS)
    def close(self) -> None:
        """End the thread and return the leased money that no serve was promised, as far as ten seconds allow.

        Atomic: each campaign's lease in one transaction.
        After a crash: the job `return-ad-leases` returns the money of the other leases when they expire.
        """
        self._zones.close()
        self._hits.write()
        until = time.monotonic() + CLOSE_SECONDS
        for campaign_id, campaign in list(self._zones.campaigns.items()):
            lease = campaign.wallet.remove_lease()
            if lease and lease.free and time.monotonic() < until:
                # A killed process holds the budget, or the time is over: the job returns the lease when it expires.
                # guard: closing in a hurry raises nothing
                with suppress(Busy, Unavailable):
                    budgets.return_free(self._db, campaign_id, lease)

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
        """Choose up to `count` ads for a zone, best first.

        Without `consent` no profile is read or created, so no cap applies, as for an unknown user. `accepts` is called
        with the creative, the eCPM and the currency of an ad, and excludes it by returning False. `source` identifies
        the caller, such as its IP address: a source with a hundred unseen serves gets no ads for a while, since money
        is reserved for each serve.

        Atomic: a capped ad takes one conditional update of the profile; other ads need no query. Sometimes the process
        leases a part of a budget, in one transaction.
        After a crash: a lease remains, which the job `return-ad-leases` returns; or a cap counts an impression that
        the user did not see.
        Raises: `Invalid`, `Unavailable`.
        """
        checks.identifier(site, "site")
        checks.identifier(zone, "zone")
        if user is not None:
            checks.identifier(user, "user")
        words = rules.keywords(keywords) if keywords else []
        checks.integer(count, "count", minimum=1, maximum=MAX_CHOSEN)
        now = self._clock()
        if source is not None:
            # guard: a source with many unseen serves gets no more
            count = min(count, self._unseen.room(source, now.timestamp()))
        # guard: without consent there is no profile
        choice = Choice(self._db, site, zone, user=user if consent else None, words=words, now=now)
        choice.accepts = accepts
        chosen = choice.best(self._zones.get(site, zone), count, rng=self._rng, tokens=self._tokens)
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
        """List every ad of a zone, best first, with its score and why it would not be chosen. Changes nothing.

        Raises: `Invalid`.
        """
        words = rules.keywords(keywords) if keywords else []
        checks.identifier(site, "site")
        checks.identifier(zone, "zone")
        choice = Choice(self._db, site, zone, user=None, words=words, now=self._clock())
        shown = profiles.shown_to(self._db, checks.identifier(user, "user")) if user is not None else {}
        candidates = [choice.candidate(ad, shown) for ad in self._zones.get(site, zone).ads.values()]
        return sorted(candidates, key=lambda candidate: (-candidate.score, candidate.unit))

    @operation(reads_only=True)
    def ecpm(self, campaign_id: str, *, impressions: int = 0, clicks: int = 0) -> int:
        """Return the eCPM of the campaign after these impressions and clicks, in thousandths of a minor unit.

        Raises: `UnknownCampaign`, `Invalid`.
        """
        checks.integer(impressions, "impressions", minimum=0)
        checks.integer(clicks, "clicks", minimum=0)
        return rules.ecpm(self.get(campaign_id)["pricing"], impressions, clicks)

    @operation()
    def forget(self, user: str) -> bool:
        """Delete a user's profile; return whether there was one."""
        checks.identifier(user, "user")
        return self._db["ads.users"].delete_one(queries.USER(user=user)).deleted_count == 1

    # ---- beacons ----

    def impression(self, serve_id: str, *, source: str | None = None) -> bool:
        """Count a serve's impression, once; return whether this was the first time. `source` is as in `choose`.

        Atomic: one transaction, shared with other beacons that arrive at the same time.
        After a crash: the impression is counted completely or not at all; send it again.
        Raises: `BadServe`, `ServeExpired`, `Busy`, `Unavailable`.
        """
        first = self._settle(serve_id, IMPRESSION, self._impression_seconds)
        if first and source is not None:
            self._unseen.add(source, -1, self._clock().timestamp())
        return first

    def impressions(self, serve_ids: Sequence[str]) -> list[bool]:
        """Count many impressions, as `impression` does, in as few transactions as possible.

        For a forged or expired serve id, the result is False.

        Atomic: each transaction, of up to some hundreds of impressions.
        After a crash: each impression is counted completely or not at all; send all of them again.
        Raises: `Busy`, `Unavailable`.
        """
        oldest = self._oldest_ms(self._impression_seconds)
        tokens = [self._valid_token(serve_id, oldest) for serve_id in serve_ids]
        beacons = [Beacon(token, IMPRESSION) for token in tokens if token]
        self._settler.settle(beacons)
        self._hits.write_if_due()
        settled = iter(beacons)
        return [token is not None and next(settled).first for token in tokens]

    def viewable(self, serve_id: str) -> bool:
        """Count once that at least half of an ad was visible for a second; return whether this was the first time.

        Atomic: one transaction, shared with other beacons that arrive at the same time.
        After a crash: the event is counted completely or not at all; send it again.
        Raises: `BadServe`, `ServeExpired`, `Busy`, `Unavailable`.
        """
        return self._settle(serve_id, VIEWABLE, self._impression_seconds)

    def click(self, serve_id: str, *, visitor: str | Sequence[str] = ()) -> Click:
        """Count a serve's click, once, and return the URL that was approved.

        `visitor` is a name of the visitor, or several, such as the id of a cookie and the address. If a click of the
        same ad under one of these names was counted in the last ten minutes, this one is neither counted nor charged.

        Atomic: one transaction, shared with other beacons that arrive at the same time.
        After a crash: the click is counted completely or not at all; send it again.
        Raises: `BadServe`, `ServeExpired`, `Busy`, `Unavailable`.
        """
        token = self._tokens.read(serve_id)
        url = self._click_url(token)
        names = [visitor] if isinstance(visitor, str) else list(visitor)
        if len(names) > MAX_NAMES:
            raise Invalid(f"visitor must have at most {MAX_NAMES} names", field="visitor", limit=MAX_NAMES)
        clickers = tuple(
            self._clicker(token.offer, checks.text(name, "visitor", min_length=1, max_length=2_000)) for name in names
        )
        return Click(url, self._settle(serve_id, CLICK, CLICK_SECONDS, clickers=clickers))

    def _clicker(self, offer: Offer, name: str) -> str:
        """Return the id of a visitor of an ad, which does not reveal the visitor's name."""
        return self._tokens.digest("\0".join((offer.campaign_id, offer.unit, name)))

    def conversion(self, serve_id: str, value: int = 0) -> bool:
        """Count a serve's conversion, once, with its value in minor units; return whether this was the first time.

        Atomic: one transaction, shared with other beacons that arrive at the same time.
        After a crash: the conversion is counted completely or not at all; send it again.
        Raises: `BadServe`, `ServeExpired`, `Invalid`, `Busy`, `Unavailable`.
        """
        checks.integer(value, "value", minimum=0, maximum=MAX_VALUE)
        return self._settle(serve_id, CONVERSION, CONVERSION_SECONDS, value)

    def _settle(
        self, serve_id: str, kind: str, seconds: float, value: int = 0, *, clickers: tuple[str, ...] = ()
    ) -> bool:
        token = self._tokens.read(serve_id)
        # guard: late beacons are refused
        if token.at_ms < self._oldest_ms(seconds):
            raise ServeExpired
        beacon = Beacon(token, kind, value, clickers)
        self._settler.settle([beacon])
        self._hits.write_if_due()
        return beacon.first

    def _oldest_ms(self, seconds: float) -> float:
        return (self._clock().timestamp() - seconds) * 1000

    def _valid_token(self, serve_id: str, oldest_ms: float) -> Token | None:
        try:
            token = self._tokens.read(serve_id)
        except BadServe:
            return None
        return token if token.at_ms >= oldest_ms else None

    @operation(reads_only=True)
    def _click_url(self, token: Token) -> str:
        ad = self._zones.get(token.offer.site, token.offer.zone).ads.get(token.offer.unit)
        return ad.url if ad else reviews.NOWHERE

    @property
    def _tokens(self) -> Tokens:
        if self._known_tokens is None:
            self._known_tokens = Tokens(stored_secret(self._db))
        return self._known_tokens

    # ---- reports ----

    @operation(reads_only=True)
    def stats(
        self,
        campaign_id: str,
        start: datetime | None = None,
        end: datetime | None = None,
        *,
        cursor: str | None = None,
        limit: int = MAX_ROWS,
    ) -> dict[str, Any]:
        """Report what a campaign delivered from `start` until before `end`: totals, and a row per zone, unit and day.

        The totals cover the whole time. There are at most `limit` rows; `next` is the cursor of the next page.

        Raises: `UnknownCampaign`, `Invalid`.
        """
        campaign = self.get(campaign_id)
        values: dict[str, Any] = {"campaign_id": campaign_id, **_span(start, end)}
        counters = page(self._db, queries.COUNTERS, cursor=cursor, limit=limit, max_limit=MAX_ROWS, **values)
        sums = next(queries.SUMS.run(self._db, **values, by=[], limit=1), {})
        totals = {name: sums.get(name, 0) for name in COUNTED}
        totals["spend_thousandths"] = totals.pop("spend")
        totals["spend"] = totals["spend_thousandths"] // THOUSAND
        return {
            "campaign_id": campaign_id,
            "currency": campaign["budget"]["currency"],
            "totals": totals,
            "rows": [_row(item) for item in counters.items],
            "next": counters.next,
        }

    @operation(reads_only=True)
    def delivered(
        self,
        campaign_id: str,
        *by: Literal["day", "site", "zone", "unit"],
        start: datetime | None = None,
        end: datetime | None = None,
        limit: int = MAX_SUMS,
    ) -> list[dict[str, Any]]:
        """Add up what a campaign delivered by day, site, zone or unit; most impressions first.

        `spend` is in thousandths of a minor unit.

        Raises: `Invalid`.
        """
        checks.identifier(campaign_id, "campaign_id")
        limit = checks.integer(limit, "limit", minimum=1, maximum=MAX_ROWS)
        sums = queries.SUMS.run(self._db, campaign_id=campaign_id, **_span(start, end), by=by, limit=limit)
        return [{**counter.pop("_id"), **counter} for counter in sums]


def _span(start: datetime | None, end: datetime | None) -> dict[str, Any]:
    return {"start": rules.moment(start, "start") or FIRST_DAY, "end": rules.moment(end, "end") or LAST_DAY}


def _wallet_for(db: Db, clock: Clock, serve_seconds: float, campaign: Document) -> Wallet:
    def take(old: budgets.BudgetLease | None) -> budgets.BudgetLease | None:
        price = rules.price_of(campaign["pricing"])
        lease = budgets.take_lease(db, campaign["_id"], price, old, now=clock(), serve_seconds=serve_seconds)
        if lease is None:
            # guard: a campaign that has spent its budget ends
            budgets.end_if_spent(db, campaign["_id"], price, planned=campaign["budget"]["total"] * THOUSAND)
        return lease

    return Wallet(take)


def _row(counter: Document) -> dict[str, Any]:
    names = {name: counter[name] for name in ("day", "site", "zone", "unit")}
    return {**names, **{name: counter.get(name, 0) for name in COUNTED}}
