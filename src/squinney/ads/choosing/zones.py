"""Zones in memory: what a choice needs, without asking the database."""

from __future__ import annotations

import logging
import random
import threading
import time
from bisect import bisect
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, merge
from itertools import accumulate, groupby
from operator import itemgetter
from typing import Any

from squinney.ads import queries, rules
from squinney.ads.budgets import Wallet
from squinney.ads.documents import Cap
from squinney.ads.tokens import Offer
from squinney.mongo.connect import operation
from squinney.mongo.schema import Db, Document
from squinney.patterns.follow import Change, Follower, Source

log = logging.getLogger(__name__)

SOURCES = [Source("ad_campaigns", since="changed_at"), Source("ad_placements", since="changed_at")]
MOST_ZONES = 10_000
REBUILD_SECONDS = 0.2  # at most so often, where many ads of a zone change
DRAWS = 20
LOOKED_AT_FIRST = 16  # ads of each word
POLL_SECONDS = 0.5
CLOSE_SECONDS = 3


@dataclass(slots=True)
class Held:
    """A campaign as this process knows it, with the money it has here. All its ads share it."""

    campaign: Document
    wallet: Wallet
    price: int
    per_click: bool


@dataclass(slots=True, eq=False)
class Ad:
    """A placement as this process knows it."""

    unit: str
    held: Held
    ecpm: int
    weight: int
    creative: dict[str, Any]
    cap: Cap | None
    keywords: frozenset[str]
    active: bool
    _offer: Offer | None = None

    def offer_from(self, lease_id: str, site: str, zone: str) -> Offer:
        """What a serve of this ad says; the same until another lease pays."""
        offer = self._offer
        if offer is None or offer.lease_id != lease_id:
            held = self.held
            offer = Offer.of(held.campaign["_id"], site, zone, self.unit, lease_id, held.price, held.per_click)
            self._offer = offer
        return offer


class Ties:
    """Ads of one score, drawn at random by their weights."""

    __slots__ = ("_sums", "ads")

    def __init__(self, ads: Sequence[Ad]) -> None:
        self.ads = ads
        self._sums: list[int] | None = None

    def drawn(self, chance: random.Random) -> Iterator[Ad]:
        """Each once. The first ones are drawn without looking at the others, of which there may be thousands."""
        if len(self.ads) < 2:
            yield from self.ads
            return
        if self._sums is None:
            self._sums = list(accumulate(ad.weight for ad in self.ads))
        seen: set[int] = set()
        for _ in range(DRAWS):
            number = bisect(self._sums, chance.random() * self._sums[-1])
            if number not in seen:
                seen.add(number)
                yield self.ads[number]
        rest = [ad for number, ad in enumerate(self.ads) if number not in seen]
        yield from sorted(rest, key=lambda ad: chance.random() ** (1 / ad.weight), reverse=True)


@dataclass
class Order:
    """A zone's ads, ordered: by worth, and by keyword."""

    groups: list[tuple[int, Ties]]
    by_keyword: dict[str, list[Ad]]

    @classmethod
    def of(cls, ads: Collection[Ad]) -> Order:
        """Order them."""
        ordered = sorted((ad for ad in ads if ad.active), key=lambda ad: (-ad.ecpm, ad.unit))
        groups = [(worth, Ties(list(same))) for worth, same in groupby(ordered, key=lambda ad: ad.ecpm)]
        by_keyword: dict[str, list[Ad]] = defaultdict(list)
        for ad in ordered:
            for word in ad.keywords:
                by_keyword[word].append(ad)
        return cls(groups, dict(by_keyword))

    def ranked(self, words: Collection[str], chance: random.Random) -> Iterator[tuple[Ad, float]]:
        """Every ad with its score, best first, in random order where scores are equal. Lazy: few are looked at."""
        if not words:
            for worth, ties in self.groups:
                for ad in ties.drawn(chance):
                    yield ad, float(worth)
            return
        asked = frozenset(words)
        others = ((rules.score(worth, 0), ties) for worth, ties in self.groups)
        for one, found in groupby(merge(self._hits(asked), others, key=_worst_last), key=itemgetter(0)):
            groups = [ties for _, ties in found]
            ties = groups[0] if len(groups) == 1 else Ties([ad for each in groups for ad in each.ads])
            for ad in ties.drawn(chance):
                # The group of an ad's worth holds it too: there it is one that does not match.
                if rules.score(ad.ecpm, len(asked & ad.keywords)) == one:
                    yield ad, one

    def _hits(self, asked: frozenset[str]) -> Iterator[tuple[float, Ties]]:
        """The ads that match, by score, best first, looking at ever more of each word's ads."""
        lists = [self.by_keyword[word] for word in asked if word in self.by_keyword]
        seen: set[Ad] = set()
        waiting: list[tuple[float, str, Ad]] = []
        start, end = 0, LOOKED_AT_FIRST
        while lists:
            fresh = set().union(*(ads[start:end] for ads in lists)) - seen
            seen |= fresh
            waiting += [(-rules.score(ad.ecpm, len(asked & ad.keywords)), ad.unit, ad) for ad in fresh]
            heapify(waiting)
            lists = [ads for ads in lists if len(ads) > end]
            yield from _popped(waiting, _most([ads[end].ecpm for ads in lists]))
            start, end = end, end * 2


def _most(worths: list[int]) -> float:
    """What an ad may score that was not seen yet: where it matches so many words, it stands behind as many ads."""
    ordered = sorted(worths, reverse=True)
    return max((rules.score(worth, number) for number, worth in enumerate(ordered, 1)), default=-1.0)


def _popped(waiting: list[tuple[float, str, Ad]], above: float) -> Iterator[tuple[float, Ties]]:
    while waiting and -waiting[0][0] > above:
        score = waiting[0][0]
        same = []
        while waiting and waiting[0][0] == score:
            same.append(heappop(waiting)[2])
        yield -score, Ties(same)


def _worst_last(group: tuple[float, Ties]) -> float:
    return -group[0]


@dataclass
class Zone:
    """One zone of a site."""

    ads: dict[str, Ad] = field(default_factory=dict)
    order: Order = field(default_factory=lambda: Order([], {}))
    built_at: float = 0.0
    changed: bool = False

    def ordered(self) -> Order:
        """The order, made anew after changes, but not after each of many."""
        if self.changed and time.monotonic() >= self.built_at + REBUILD_SECONDS:
            self.build()
        return self.order

    def build(self) -> None:
        """Order the ads as they are now."""
        self.changed = False
        self.order = Order.of(list(self.ads.values()))
        self.built_at = time.monotonic()


class Zones:
    """The zones that this process was asked for, kept fresh by one thread."""

    def __init__(self, db: Db, wallet_for: Callable[[Document], Wallet], *, polling: bool | None = None) -> None:
        self._db = db
        self._wallet_for = wallet_for
        self._polling = polling
        self._zones: OrderedDict[tuple[str, str], Zone] = OrderedDict()
        self.campaigns: dict[str, Held] = {}
        self._lock = threading.RLock()
        self._thread: threading.Thread | None = None
        self.stop = threading.Event()

    def get(self, site: str, zone: str) -> Zone:
        """The zone, read from the database the first time."""
        found = self._zones.get((site, zone))
        if found is not None and self._thread is not None:
            return found
        return self._load(site, zone)

    @operation(reads_only=True)
    def _load(self, site: str, zone: str) -> Zone:
        with self._lock:
            self._follow()
            found = self._zones.get((site, zone))
            if found is not None:
                return found
            loaded = Zone()
            placements = list(queries.ZONE.find(self._db, site=site, zone=zone))
            self._load_campaigns({one["campaign_id"] for one in placements})
            for placement in placements:
                self._put(loaded, placement)
            loaded.build()
            self._zones[site, zone] = loaded
            while len(self._zones) > MOST_ZONES:
                self._zones.popitem(last=False)
            return loaded

    def _load_campaigns(self, wanted: Collection[str]) -> None:
        missing = sorted(set(wanted) - self.campaigns.keys())
        if missing:
            for campaign in queries.SOME_CAMPAIGNS.find(self._db, campaign_ids=missing):
                self._hold(campaign)

    def _hold(self, campaign: Document) -> None:
        held = self.campaigns.get(campaign["_id"])
        if held is not None:
            held.campaign = campaign
            return
        price, per_click = rules.price_of(campaign["pricing"]), campaign["pricing"]["model"] == "cpc"
        self.campaigns[campaign["_id"]] = Held(campaign, self._wallet_for(campaign), price, per_click)

    def _put(self, zone: Zone, placement: Document) -> None:
        held = self.campaigns.get(placement["campaign_id"])
        if held is None:  # a placement of no campaign: `find_problems` tells
            return
        zone.ads[placement["_id"]["ad_unit"]] = Ad(
            unit=placement["_id"]["ad_unit"],
            held=held,
            ecpm=placement["ecpm"],
            weight=placement["weight"],
            creative=placement["creative"],
            cap=placement["cap"],
            keywords=frozenset(placement["keywords"]),
            active=placement["active"],
        )
        zone.changed = True

    def close(self) -> None:
        """End the thread."""
        self.stop.set()
        if (thread := self._thread) is not None:
            thread.join(timeout=CLOSE_SECONDS)

    # ---- keeping fresh ----

    def saw_campaign(self, campaign: Document) -> None:
        """Take note of a campaign as it is now, if any zone here has it."""
        with self._lock:
            if campaign["_id"] in self.campaigns:
                self._hold(campaign)

    def saw_placement(self, placement: Document, *, at_once: bool = False) -> None:
        """Take note of a placement as it is now, if its zone is here."""
        with self._lock:
            zone = self._zones.get((placement["_id"]["site"], placement["_id"]["zone"]))
            if zone is None:
                return
            self._load_campaigns({placement["campaign_id"]})
            self._put(zone, placement)
            if at_once:
                zone.build()

    def _follow(self) -> None:
        """Begin to follow before anything is read, so that no change is missed."""
        if self._thread is None and not self.stop.is_set():
            follower = Follower(self._db, None, SOURCES, polling=self._polling, poll_seconds=POLL_SECONDS)
            follower.begin()
            self._read_campaigns_anew()
            self._thread = threading.Thread(target=self._run, args=(follower,), name="squinney-ads", daemon=True)
            self._thread.start()

    def _run(self, follower: Follower) -> None:
        try:
            follower.follow(self._see, stop=self.stop)
        except Exception:  # the next choice reads anew and begins another
            log.exception("following the ads has ended")
        self._forget_all()

    def _see(self, change: Change) -> None:
        if change.kind == "gap":
            self._forget_zones()
        elif change.document is not None and change.collection == "ad_campaigns":
            self.saw_campaign(change.document)
        elif change.document is not None:
            self.saw_placement(change.document)

    def _forget_zones(self) -> None:
        """Read everything anew when it is asked for; the money stays."""
        with self._lock:
            self._zones.clear()
            self._read_campaigns_anew()

    def _read_campaigns_anew(self) -> None:
        if self.campaigns:
            for campaign in queries.SOME_CAMPAIGNS.find(self._db, campaign_ids=list(self.campaigns)):
                self._hold(campaign)

    def _forget_all(self) -> None:
        with self._lock:
            self._thread = None
            self._zones.clear()
