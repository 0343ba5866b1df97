"""Zones in memory: what a choice needs, without asking the database."""

from __future__ import annotations

import logging
import math
import random
import threading
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
REBUILD_SHARE = 0.1  # of the time at most, where a zone is large
LARGE = 1_000  # ads: from there on, those that cannot be shown now are left out of the order
READ_AT_ONCE = 1_000
DRAWS = 20
POLL_SECONDS = 0.5
LOAD_SECONDS = 60
CLOSE_SECONDS = 3


@dataclass(slots=True, eq=False)
class Held:
    """A campaign as this process knows it, with the money it has here. All its ads share it."""

    campaign: Document
    wallet: Wallet
    price: int
    per_click: bool

    def is_open(self, now: float) -> bool:
        """Whether it is active, and has money or may have some by now, on the monotonic clock."""
        return self.campaign["status"] == "active" and self.wallet.empty_until <= now


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
        """The ads that match, by score, best first. Those of one word are in order; those of more are few."""
        lists = [self.by_keyword[word] for word in asked if word in self.by_keyword]
        once: set[Ad] = set()
        more: set[Ad] = set()
        for ads in lists:
            found = set(ads)
            more |= once & found
            once |= found
        several = sorted(((rules.score(ad.ecpm, len(asked & ad.keywords)), ad) for ad in more), key=_worst_last)
        singly = ((rules.score(ad.ecpm, 1), ad) for ad in merge(*lists, key=_poorest_last) if ad not in more)
        for score, same in groupby(merge(several, singly, key=_worst_last), key=itemgetter(0)):
            yield score, Ties([ad for _, ad in same])


def _poorest_last(ad: Ad) -> int:
    return -ad.ecpm


def _worst_last(scored: tuple[float, object]) -> float:
    return -scored[0]


@dataclass
class Zone:
    """One zone of a site."""

    ads: dict[str, Ad] = field(default_factory=dict)
    order: Order = field(default_factory=lambda: Order([], {}))
    changed: bool = False
    build_after: float = 0.0
    build_by: float = math.inf  # then one of those that were left out may be shown again

    @property
    def is_large(self) -> bool:
        """Whether looking at every ad costs too much."""
        return len(self.ads) > LARGE

    def ordered(self) -> Order:
        """The order, made anew after changes, but not after each of many."""
        if self.changed or self.build_by < math.inf:
            now = time.monotonic()
            if now >= self.build_after and (self.changed or now >= self.build_by):
                self.build()
        return self.order

    def build(self) -> None:
        """Order the ads as they are now."""
        began = time.monotonic()
        self.changed, self.build_by = False, math.inf
        ads = list(self.ads.values())
        if self.is_large:
            empty = [ad.held.wallet.empty_until for ad in ads if ad.held.wallet.empty_until > began]
            self.build_by = min(empty, default=math.inf)
            ads = [ad for ad in ads if ad.held.is_open(began)]
        self.order = Order.of(ads)
        ended = time.monotonic()
        self.build_after = ended + max(REBUILD_SECONDS, (ended - began) / REBUILD_SHARE)

    def look_again(self) -> None:
        """A campaign has other money, or another status: where that matters, order anew."""
        self.changed = self.changed or self.is_large


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
            if list(queries.ZONE.find(self._db, site=site, zone=zone, limit=1)):
                # The server is there. A large zone has its own time, not what is left of this request's.
                Context().run(self._read_zone, loaded, site, zone)
            self._zones[site, zone] = loaded
            if len(self._zones) > MOST_ZONES:
                self._make_room()
            return loaded

    @operation(LOAD_SECONDS, reads_only=True)
    def _read_zone(self, zone: Zone, site: str, name: str) -> None:
        placements = list(queries.ZONE.find(self._db, site=site, zone=name))
        self._load_campaigns({one["campaign_id"] for one in placements})
        for placement in placements:
            self._put(zone, placement)
        zone.build()

    def _make_room(self) -> None:
        """Forget the zones without ads, of which anybody may ask for any number; or else the oldest."""
        for key in [key for key, zone in self._zones.items() if not zone.ads] or [next(iter(self._zones))]:
            del self._zones[key]

    def _load_campaigns(self, wanted: Collection[str]) -> None:
        self._read_campaigns(sorted(set(wanted) - self.campaigns.keys()))

    def _read_campaigns(self, wanted: Sequence[str]) -> None:
        for start in range(0, len(wanted), READ_AT_ONCE):
            some = wanted[start : start + READ_AT_ONCE]
            for campaign in queries.SOME_CAMPAIGNS.find(self._db, campaign_ids=some):
                self._hold(campaign)

    def _hold(self, campaign: Document) -> None:
        held = self.campaigns.get(campaign["_id"])
        if held is not None:
            if held.campaign["status"] != campaign["status"]:
                for zone in self._zones.values():
                    zone.look_again()
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
            if at_once and not zone.is_large:
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
        self._read_campaigns(list(self.campaigns))

    def _forget_all(self) -> None:
        with self._lock:
            self._thread = None
            self._zones.clear()
