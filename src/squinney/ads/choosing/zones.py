"""Zones in memory: the ads and campaigns that a choice needs, without querying the database."""

from __future__ import annotations

import math
import random
import time
from bisect import bisect
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextvars import Context
from dataclasses import dataclass, field
from heapq import merge
from itertools import accumulate, groupby
from operator import itemgetter
from typing import Any

from squinney.ads import queries, reviews, rules
from squinney.ads.charging.budgets import Wallet
from squinney.ads.documents import Cap
from squinney.ads.tokens import Offer
from squinney.mongo.deadlines import operation
from squinney.mongo.schema import Db, Document
from squinney.patterns.follow import Change, Follower, FollowerThread, Source

SOURCES = [Source("ads.campaigns", since="changed_at"), Source("ads.placements", since="changed_at")]
MAX_ZONES = 10_000
REORDER_SECONDS = 0.2  # the least time between two orderings of a zone, if many of its ads change
REORDER_SHARE = 0.1  # the largest share of the time that ordering a large zone may take
LARGE = 1_000  # ads; in a larger zone, ads that cannot be shown now are excluded from the order
READ_AT_ONCE = 1_000
DRAWS = 20
POLL_SECONDS = 0.5
LOAD_SECONDS = 60


@dataclass(slots=True, eq=False)
class CachedCampaign:
    """A campaign in this process's memory, with its wallet. All ads of the campaign share it."""

    document: Document
    wallet: Wallet
    price: int
    per_click: bool

    def can_be_shown(self, now: float) -> bool:
        """Return whether the campaign is active and may have money at this time of the monotonic clock."""
        document = self.document
        return document["status"] == "active" and document.get("funded") != 0 and self.wallet.empty_until <= now


@dataclass(slots=True, eq=False)
class Ad:
    """A placement in this process's memory. `excluded` says why it is not shown, and `url` is where a click leads."""

    unit: str
    campaign: CachedCampaign
    ecpm: int
    weight: int
    creative: dict[str, Any]
    cap: Cap | None
    keywords: frozenset[str]
    excluded: str
    url: str
    _offer: Offer | None = None

    def offer_from(self, lease_id: str, site: str, zone: str) -> Offer:
        """Return the offer for serves of this ad. It is cached until another lease pays."""
        offer = self._offer
        if offer is None or offer.lease_id != lease_id:
            campaign = self.campaign
            campaign_id = campaign.document["_id"]
            offer = Offer.of(campaign_id, site, zone, self.unit, lease_id, campaign.price, campaign.per_click)
            self._offer = offer
        return offer


class Ties:
    """Ads with the same score. They are drawn at random, by their weights."""

    __slots__ = ("_sums", "ads")

    def __init__(self, ads: Sequence[Ad]) -> None:
        self.ads = ads
        self._sums: list[int] | None = None

    def drawn(self, rng: random.Random) -> Iterator[Ad]:
        """Yield each ad once. The first draws do not look at all ads, of which there may be thousands."""
        if len(self.ads) < 2:
            yield from self.ads
            return
        if self._sums is None:
            self._sums = list(accumulate(ad.weight for ad in self.ads))
        seen: set[int] = set()
        for _ in range(DRAWS):
            index = bisect(self._sums, rng.random() * self._sums[-1])
            if index not in seen:
                seen.add(index)
                yield self.ads[index]
        rest = [ad for index, ad in enumerate(self.ads) if index not in seen]
        yield from sorted(rest, key=lambda ad: rng.random() ** (1 / ad.weight), reverse=True)


@dataclass
class ZoneOrder:
    """The active ads of a zone, by eCPM and by keyword, highest eCPM first."""

    groups: list[tuple[int, Ties]]
    by_keyword: dict[str, list[Ad]]

    @classmethod
    def of(cls, ads: Collection[Ad]) -> ZoneOrder:
        """Sort the active ads by eCPM, highest first."""
        ordered = sorted((ad for ad in ads if not ad.excluded), key=lambda ad: (-ad.ecpm, ad.unit))
        groups = [(ecpm, Ties(list(same))) for ecpm, same in groupby(ordered, key=lambda ad: ad.ecpm)]
        by_keyword: dict[str, list[Ad]] = defaultdict(list)
        for ad in ordered:
            for word in ad.keywords:
                by_keyword[word].append(ad)
        return cls(groups, dict(by_keyword))

    def ranked(self, words: Collection[str], rng: random.Random) -> Iterator[tuple[Ad, float]]:
        """Yield every ad with its score, best first, ties in random order. It is lazy: a choice needs few ads."""
        if not words:
            for ecpm, ties in self.groups:
                for ad in ties.drawn(rng):
                    yield ad, float(ecpm)
            return
        wanted = frozenset(words)
        without_match = ((rules.score(ecpm, 0), ties) for ecpm, ties in self.groups)
        merged = merge(self._matching(wanted), without_match, key=_highest_score_first)
        for score, tied in groupby(merged, key=itemgetter(0)):
            groups = [ties for _, ties in tied]
            ties = groups[0] if len(groups) == 1 else Ties([ad for each in groups for ad in each.ads])
            for ad in ties.drawn(rng):
                # A matching ad is also in its eCPM's group, with the score of an ad that does not match: skip it there.
                if rules.score(ad.ecpm, len(wanted & ad.keywords)) == score:
                    yield ad, score

    def _matching(self, wanted: frozenset[str]) -> Iterator[tuple[float, Ties]]:
        """Yield the ads that match a keyword, by score, best first.

        The ads of each keyword are sorted already. Only ads that match several keywords, usually few, must be sorted.
        """
        lists = [self.by_keyword[word] for word in wanted if word in self.by_keyword]
        once: set[Ad] = set()
        several: set[Ad] = set()
        for ads in lists:
            matching = set(ads)
            # guard: an ad that matches several keywords is scored by all of them
            several |= once & matching
            once |= matching
        scored = ((rules.score(ad.ecpm, len(wanted & ad.keywords)), ad) for ad in several)
        by_several = sorted(scored, key=_highest_score_first)
        by_one = ((rules.score(ad.ecpm, 1), ad) for ad in merge(*lists, key=_highest_ecpm_first) if ad not in several)
        for score, same in groupby(merge(by_several, by_one, key=_highest_score_first), key=itemgetter(0)):
            yield score, Ties([ad for _, ad in same])


def _highest_ecpm_first(ad: Ad) -> int:
    return -ad.ecpm


def _highest_score_first(scored: tuple[float, object]) -> float:
    return -scored[0]


@dataclass
class Zone:
    """One zone of a site in this process's memory."""

    ads: dict[str, Ad] = field(default_factory=dict)
    order: ZoneOrder = field(default_factory=lambda: ZoneOrder([], {}))
    changed: bool = False
    reorder_after: float = 0.0
    reorder_by: float = math.inf  # when an ad that was excluded from the order may be shown again

    @property
    def is_large(self) -> bool:
        """Whether looking at every ad costs too much time."""
        return len(self.ads) > LARGE

    def ordered(self) -> ZoneOrder:
        """Return the current order. After changes it is rebuilt, but not more often than `reorder_after` allows."""
        if self.changed or self.reorder_by < math.inf:
            now = time.monotonic()
            if now >= self.reorder_after and (self.changed or now >= self.reorder_by):
                self.reorder()
        return self.order

    def reorder(self) -> None:
        """Order the current ads. In a large zone, exclude those that cannot be shown now."""
        began = time.monotonic()
        self.changed, self.reorder_by = False, math.inf
        ads = list(self.ads.values())
        if self.is_large:
            empty = [ad.campaign.wallet.empty_until for ad in ads if ad.campaign.wallet.empty_until > began]
            # guard: ads excluded from the order of a large zone return
            self.reorder_by = min(empty, default=math.inf)
            # guard: the order of a large zone excludes ads that cannot be shown
            ads = [ad for ad in ads if ad.campaign.can_be_shown(began)]
        self.order = ZoneOrder.of(ads)
        ended = time.monotonic()
        self.reorder_after = ended + max(REORDER_SECONDS, (ended - began) / REORDER_SHARE)

    def reorder_if_large(self) -> None:
        """Request a new order after a campaign's money or status has changed: only large zones depend on these."""
        self.changed = self.changed or self.is_large


def _exclusion(placement: Document) -> str:
    if not placement["active"]:
        return "not active"
    if placement["creative"].get("kind") not in rules.CREATIVES:
        return "unknown creative"
    return reviews.exclusion(placement)


def _is_outdated(read: Document, known: Document) -> bool:
    """Return whether the change stream delivered a version older than the one that this process has written itself."""
    before, now = read.get("changed_at"), known.get("changed_at")
    by_server = now != known.get("created_at")  # a new campaign has the time of the caller's clock
    return bool(before and now and by_server and before < now)


class Zones:
    """The zones that this process has used. One thread keeps them up to date."""

    def __init__(self, db: Db, wallet_for: Callable[[Document], Wallet], *, polling: bool | None = None) -> None:
        self._db = db
        self._wallet_for = wallet_for
        self._polling = polling
        self._zones: OrderedDict[tuple[str, str], Zone] = OrderedDict()
        self.campaigns: dict[str, CachedCampaign] = {}
        # If following ends, the next choice reloads its zone and starts it again.
        self._thread = FollowerThread("squinney-ads", self._new_follower, self._apply, ended=self._zones.clear)
        self._lock = self._thread.lock
        self.stop = self._thread.stop

    def get(self, site: str, zone: str) -> Zone:
        """Return a zone. It is read from the database the first time."""
        known = self._zones.get((site, zone))
        if known is not None and self._thread.is_running:
            return known
        return self._load(site, zone)

    @operation(reads_only=True)
    def _load(self, site: str, zone: str) -> Zone:
        with self._lock:
            self._thread.start(began=self._reload_campaigns)  # before anything is read, so that no change is missed
            known = self._zones.get((site, zone))
            if known is not None:
                return known
            loaded = Zone()
            if list(queries.ZONE.find(self._db, site=site, zone=zone, limit=1)):
                # The server is available. Reading a large zone gets its own deadline, not the rest of this request's.
                Context().run(self._read_zone, loaded, site, zone)
            self._zones[site, zone] = loaded
            if len(self._zones) > MAX_ZONES:
                self._make_room()
            return loaded

    @operation(LOAD_SECONDS, reads_only=True)
    def _read_zone(self, zone: Zone, site: str, name: str) -> None:
        placements = list(queries.ZONE.find(self._db, site=site, zone=name))
        self._load_campaigns({placement["campaign_id"] for placement in placements})
        for placement in placements:
            self._put_ad(zone, placement)
        zone.reorder()

    def _make_room(self) -> None:
        """Drop all zones without ads, since any visitor can request such zones; if there are none, drop the oldest."""
        # guard: requests for unknown zones drop no zone with ads
        for key in [key for key, zone in self._zones.items() if not zone.ads] or [next(iter(self._zones))]:
            del self._zones[key]

    def _load_campaigns(self, wanted: Collection[str]) -> None:
        self._read_campaigns(sorted(set(wanted) - self.campaigns.keys()))

    def _read_campaigns(self, wanted: Sequence[str]) -> None:
        for start in range(0, len(wanted), READ_AT_ONCE):
            some = wanted[start : start + READ_AT_ONCE]
            for campaign in queries.SOME_CAMPAIGNS.find(self._db, campaign_ids=some):
                self._put_campaign(campaign)

    def _put_campaign(self, campaign: Document) -> None:
        cached = self.campaigns.get(campaign["_id"])
        # guard: a change that is read late does not undo a newer one
        if cached is not None and _is_outdated(campaign, cached.document):
            return
        if cached is not None:
            if cached.document.get("funded") != campaign.get("funded"):
                cached.wallet.try_again()
            if any(cached.document.get(name) != campaign.get(name) for name in ("status", "funded")):
                for zone in self._zones.values():
                    zone.reorder_if_large()
            cached.document = campaign
            return
        price, per_click = rules.price_of(campaign["pricing"]), campaign["pricing"]["model"] == "cpc"
        self.campaigns[campaign["_id"]] = CachedCampaign(campaign, self._wallet_for(campaign), price, per_click)

    def _put_ad(self, zone: Zone, placement: Document) -> None:
        campaign = self.campaigns.get(placement["campaign_id"])
        if campaign is None:  # `find_problems` reports placements without a campaign
            return
        unit = placement["_id"]["ad_unit"]
        ad = Ad(
            unit=unit,
            campaign=campaign,
            ecpm=placement["ecpm"],
            weight=placement["weight"],
            creative=placement["creative"],
            cap=placement["cap"],
            keywords=frozenset(placement["keywords"]),
            excluded=_exclusion(placement),
            url=reviews.destination(placement),
        )
        if before := zone.ads.get(unit):
            # guard: a rejected ad leaves a large zone at once
            before.excluded = ad.excluded  # a large zone may choose from its old order for some seconds
        zone.ads[unit] = ad
        zone.changed = True

    def close(self) -> None:
        """End the thread that follows changes."""
        self._thread.close()

    # ---- following changes ----

    def update_campaign(self, campaign: Document) -> None:
        """Replace a campaign in memory, if a zone in memory has used it."""
        with self._lock:
            if campaign["_id"] in self.campaigns:
                self._put_campaign(campaign)

    def update_placement(self, placement: Document, *, reorder: bool = False) -> None:
        """Add or replace an ad, if its zone is in memory. With `reorder`, order the zone at once unless it is large."""
        with self._lock:
            zone = self._zones.get((placement["_id"]["site"], placement["_id"]["zone"]))
            if zone is None:
                return
            self._load_campaigns({placement["campaign_id"]})
            self._put_ad(zone, placement)
            if reorder and not zone.is_large:
                zone.reorder()

    def _new_follower(self) -> Follower:
        return Follower(self._db, None, SOURCES, polling=self._polling, poll_seconds=POLL_SECONDS)

    def _apply(self, change: Change) -> None:
        if change.kind == "gap":
            self._reload()
        elif change.document is not None and change.collection == "ads.campaigns":
            self.update_campaign(change.document)
        elif change.document is not None:
            self.update_placement(change.document)

    def _reload(self) -> None:
        """After missed changes, drop the zones and reload the campaigns. Wallets keep their leases."""
        with self._lock:
            self._zones.clear()
            self._reload_campaigns()

    def _reload_campaigns(self) -> None:
        self._read_campaigns(list(self.campaigns))
