"""Settle beacons: count and charge events of serves. Beacons that arrive together share one transaction.

The first thread that arrives commits the beacons of all threads that wait. Each call returns when the transaction with
its beacons is committed. The first beacon of a serve, of any kind, also counts its impression, so that every click has
an impression.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import islice

from pymongo.client_session import ClientSession
from pymongo.errors import DuplicateKeyError

from squinney.ads import queries, rules
from squinney.ads.charging import counters
from squinney.ads.charging.counters import CounterKey, update, write
from squinney.ads.tokens import Offer, Token
from squinney.clock import Clock
from squinney.mongo.schema import Db, Document
from squinney.transactions import Busy, in_transaction

MAX_AT_ONCE = 500
MAX_REMEMBERED = 50_000
SECONDS = 2.0  # for one transaction, since other beacons wait for it
HELD_SECONDS = 5.0  # before the next try for a campaign whose budget another process held
TRIES = 20  # when another process settles the same serves
SAME_CLICK_SECONDS = 600  # in which clicks of one visitor on one ad count once
LATE_SECONDS = 30  # after the choice; an earlier impression is assumed to be new
DAY_MS = 86_400_000
IMPRESSION, VIEWABLE, CLICK, CONVERSION = "impressions", "viewable", "clicks", "conversions"


@dataclass(slots=True)
class Beacon:
    """One event of one serve that is to be settled. `first` says afterwards whether it was the first of its kind."""

    token: Token
    kind: str
    value: int = 0
    clickers: tuple[str, ...] = ()  # the visitor of a click, under one or several ids
    first: bool = False
    error: BaseException | None = None
    done: bool = False


class Settler:
    """Settles the beacons of one process."""

    def __init__(self, db: Db, clock: Clock) -> None:
        self._db = db
        self._clock = clock
        self._waiting: deque[Beacon] = deque()
        self._changed = threading.Condition()
        self._busy = False
        self._held_until: dict[str, float] = {}
        self._settled: dict[str, None] = {}  # recently settled serves, the latest last: their impression is counted

    def settle(self, beacons: Sequence[Beacon]) -> None:
        """Settle the beacons and return when all of them are committed.

        Atomic: each beacon in one transaction, shared with others.
        After a crash: a beacon is settled completely or not at all, and may be sent again.
        Raises: the first error of these beacons.
        """
        beacons = [beacon for beacon in beacons if beacon.kind != IMPRESSION or beacon.token.id not in self._settled]
        with self._changed:
            self._waiting.extend(beacons)
        while batch := self._next_batch(beacons):
            try:
                # Other threads wait for this too, so it gets its own deadline, not the rest of this request's.
                Context().run(self._commit, batch)
            finally:
                with self._changed:
                    self._busy = False
                    self._changed.notify_all()
        if failed := next((beacon.error for beacon in beacons if beacon.error), None):
            raise failed

    def _next_batch(self, beacons: Sequence[Beacon]) -> list[Beacon]:
        """Wait until no other thread commits; return the next batch, or nothing if this thread's beacons are done."""
        with self._changed:
            self._changed.wait_for(lambda: not self._busy or all(beacon.done for beacon in beacons))
            if all(beacon.done for beacon in beacons):
                return []
            self._busy = True
            return [self._waiting.popleft() for _ in range(min(MAX_AT_ONCE, len(self._waiting)))]

    def _commit(self, batch: list[Beacon]) -> None:
        """Settle a batch in one transaction. If another process holds a budget, settle each campaign separately."""
        by_campaign: dict[str, list[Beacon]] = defaultdict(list)
        for beacon in batch:
            by_campaign[beacon.token.offer.campaign_id].append(beacon)
        try:
            suspects = [campaign_id for campaign_id in by_campaign if campaign_id in self._held_until]
            separate = {campaign_id: by_campaign.pop(campaign_id) for campaign_id in suspects}
            if not self._settled_together(list(by_campaign.values())):
                # guard: a blocked budget does not block other campaigns
                separate |= by_campaign
            for campaign_id, beacons in separate.items():
                self._commit_campaign(campaign_id, beacons)
        except BaseException as error:
            for beacon in batch:
                beacon.error = beacon.error or error
            if not isinstance(error, Exception):
                raise
        finally:
            for beacon in batch:
                beacon.done = True

    def _settled_together(self, groups: list[list[Beacon]]) -> bool:
        if len(groups) < 2:
            return not groups
        with suppress(Busy):
            self._settle_batch([beacon for group in groups for beacon in group])
            return True
        return False

    def _commit_campaign(self, campaign_id: str, beacons: list[Beacon]) -> None:
        """Settle the beacons of one campaign. If another process held its budget seconds ago, refuse them at once."""
        error = None
        # guard: a budget that was blocked seconds ago is refused without waiting
        if time.monotonic() < self._held_until.get(campaign_id, 0):
            error = Busy("another process holds the campaign's budget; try again")
        else:
            try:
                self._settle_batch(beacons)
                self._held_until.pop(campaign_id, None)
            except Busy as busy:
                self._held_until[campaign_id] = time.monotonic() + HELD_SECONDS
                error = busy
        for beacon in beacons:
            beacon.error = error

    def _settle_batch(self, batch: list[Beacon]) -> None:
        settle_batch(self._db, batch, self._clock(), seconds=SECONDS)
        self._settled.update((beacon.token.id, None) for beacon in batch)
        for oldest in list(islice(self._settled, max(0, len(self._settled) - MAX_REMEMBERED))):
            del self._settled[oldest]


def settle_batch(db: Db, batch: Sequence[Beacon], now: datetime, *, seconds: float) -> None:
    """Settle beacons in one transaction.

    An impression that is not late is usually new, and its lease usually has the money. The first try assumes both
    without reading, and the server refuses the transaction if an assumption is wrong.

    Atomic: the transaction.
    After a crash: nothing remains.
    Raises: `Busy`, `Unavailable`.
    """
    late = now.timestamp() * 1000 - LATE_SECONDS * 1000
    optimistic = all(beacon.kind == IMPRESSION and beacon.token.at_ms > late for beacon in batch)
    for left in reversed(range(TRIES)):
        try:
            firsts = in_transaction(db, partial(_settle, db, batch, now, optimistic), seconds=seconds)
            break
        except (DuplicateKeyError, LeaseTooSmall):  # a serve was settled before, or a lease has expired: read first
            # guard: serves that another process settled are read before the next try
            optimistic = False
            if not left:
                raise
    for beacon, first in zip(batch, firsts, strict=True):
        beacon.first = first


def _settle(db: Db, batch: Sequence[Beacon], now: datetime, optimistic: bool, session: ClientSession) -> list[bool]:
    known, clicked = {}, set()
    if not optimistic:
        serve_ids = list({beacon.token.id for beacon in batch})
        known = {serve["_id"]: serve for serve in queries.SOME_SERVES.find(db, serves=serve_ids, session=session)}
        clickers = sorted({clicker for beacon in batch for clicker in beacon.clickers})
        if clickers:
            recent = queries.SOME_CLICKERS.find(db, clickers=clickers, now=now, session=session)
            clicked = {serve["_id"] for serve in recent}
    writes = BatchWrites(known, now, clicked)
    firsts = [writes.add(beacon) for beacon in batch]
    if optimistic:
        writes.charge_leases()
    elif writes.has_charges():
        writes.charge(_read_leases(db, writes, session), _read_budgets(db, writes, session))
    writes.send(db, session)
    return firsts


def _read_leases(db: Db, writes: BatchWrites, session: ClientSession) -> dict[str, int]:
    ids = sorted({group.offer.lease_id for group in writes.groups.values()})
    return {lease["_id"]: lease["amount"] for lease in queries.SOME_LEASES.find(db, lease_ids=ids, session=session)}


def _read_budgets(db: Db, writes: BatchWrites, session: ClientSession) -> dict[str, Document]:
    ids = sorted({group.offer.campaign_id for group in writes.groups.values()})
    return {budget["_id"]: budget for budget in queries.SOME_BUDGETS.find(db, campaign_ids=ids, session=session)}


class LeaseTooSmall(Exception):
    """A lease has less money than the first try assumed."""


@dataclass(slots=True)
class BeaconGroup:
    """The beacons of one offer and day: the number of each kind, and the serves to charge."""

    offer: Offer
    day: datetime
    counts: Counter[str] = field(default_factory=Counter)
    to_charge: list[Document] = field(default_factory=list)
    value: int = 0
    spent: int = 0
    from_lease: int = 0

    def count(self, serve: Document, kind: str, now: datetime) -> None:
        """Count an event of a serve, and charge the serve if this kind of event is paid for."""
        serve[kind] = now
        self.counts[kind] += 1
        if kind == (CLICK if self.offer.per_click else IMPRESSION):
            self.to_charge.append(serve)

    def charge(self, serves: Sequence[Document]) -> int:
        """Charge these serves; return the amount."""
        for serve in serves:
            serve["charged"] = self.offer.price
        amount = self.offer.price * len(serves)
        self.spent += amount
        return amount


@dataclass
class BatchWrites:
    """The writes of one batch. `known` are its serves that are stored already, `clicked` its recent clickers."""

    known: Mapping[str, Document]
    now: datetime
    clicked: set[str] = field(default_factory=set)
    clickers: list[str] = field(default_factory=list)
    serves: dict[str, Document] = field(default_factory=dict)
    groups: dict[tuple[Offer, int], BeaconGroup] = field(default_factory=dict)
    budgets: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def add(self, beacon: Beacon) -> bool:
        """Add a beacon; return whether it is the first of its kind for its serve."""
        token = beacon.token
        serve = self.serves.get(token.id)
        if serve is None:
            serve = self.serves[token.id] = self._serve(token)
        # guard, 2 lines: a beacon counts once
        if beacon.kind in serve:
            return False
        group = self._group(token)
        # guard: the first beacon of a serve counts its impression
        if IMPRESSION not in serve:
            group.count(serve, IMPRESSION, self.now)
        # guard: repeated clicks of a visitor count once
        is_repeated = self._note_clickers(beacon)
        if is_repeated:
            serve[beacon.kind] = self.now  # it leads to the advertiser, but is neither counted nor charged
            return False
        if beacon.kind != IMPRESSION:
            group.count(serve, beacon.kind, self.now)
        if beacon.value:
            group.value += beacon.value
            serve["value"] = beacon.value
        return True

    def _note_clickers(self, beacon: Beacon) -> bool:
        """Remember the visitor under all names; return whether one of the names has clicked the ad recently."""
        new = [clicker for clicker in beacon.clickers if clicker not in self.clicked]
        is_repeated = len(new) < len(beacon.clickers)
        self.clicked.update(new)
        self.clickers.extend(new)
        return is_repeated

    def _serve(self, token: Token) -> Document:
        if known := self.known.get(token.id):
            return dict(known)
        return {"_id": token.id, "campaign_id": token.offer.campaign_id, "at": token.at, "charged": 0}

    def _group(self, token: Token) -> BeaconGroup:
        key = (token.offer, token.at_ms // DAY_MS)
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = BeaconGroup(token.offer, rules.day_of(token.at))
        return group

    def has_charges(self) -> bool:
        """Return whether any serve is to be charged."""
        return any(group.to_charge for group in self.groups.values())

    def charge_leases(self) -> None:
        """Charge every serve to its lease."""
        for group in self.groups.values():
            group.from_lease = group.charge(group.to_charge)

    def charge(self, leases: dict[str, int], budgets: dict[str, Document]) -> None:
        """Charge each serve to its lease or, if the lease has too little, to what the budget has left, if anything."""
        for group in self.groups.values():
            price, lease_id = group.offer.price, group.offer.lease_id
            covered = leases.get(lease_id, 0) // price
            group.from_lease = group.charge(group.to_charge[:covered])
            if group.from_lease:
                leases[lease_id] -= group.from_lease
            budget = budgets.get(group.offer.campaign_id)
            for serve in group.to_charge[covered:]:
                if budget and _has_left(budget, group.day, price):
                    self._commit_to_budget(budget, group.day, group.charge([serve]))

    def _commit_to_budget(self, budget: Document, day: datetime, price: int) -> None:
        increments = Counter(committed=price)
        if budget["day"] == day:
            increments["day_committed"] = price
        for name in increments:
            budget[name] += price
        self.budgets[budget["_id"]] += increments

    def send(self, db: Db, session: ClientSession) -> None:
        """Send the writes. Budgets come first: they conflict most, and a transaction that loses should fail early."""
        rows: dict[CounterKey, Counter[str]] = defaultdict(Counter)
        leases: Counter[str] = Counter()
        for group in self.groups.values():
            rows[_row(group)] += group.counts + Counter(value=group.value, spend=group.spent)
            self.budgets[group.offer.campaign_id] += group.counts + Counter(spent=group.spent)
            # guard: an impression is charged to its lease
            leases[group.offer.lease_id] += group.from_lease
        budgets = [update({"_id": campaign_id}, counts) for campaign_id, counts in self.budgets.items()]
        write(db, "ads.budgets", "update", budgets, session)
        _charge_leases(db, +leases, session)
        counters.add(db, rows, session)
        until = self.now + timedelta(seconds=SAME_CLICK_SECONDS)
        clickers = [
            {"q": {"_id": clicker}, "u": {"$set": {"until": until}}, "upsert": True} for clicker in self.clickers
        ]
        write(db, "ads.clickers", "update", clickers, session)
        new = [serve for serve_id, serve in self.serves.items() if serve_id not in self.known]
        changed = [self.serves[serve_id] for serve_id, known in self.known.items() if self.serves[serve_id] != known]
        write(db, "ads.serves", "insert", new, session)
        write(db, "ads.serves", "update", [{"q": {"_id": serve["_id"]}, "u": serve} for serve in changed], session)


def _charge_leases(db: Db, leases: Mapping[str, int], session: ClientSession) -> None:
    """Subtract amounts from leases.

    Raises: `LeaseTooSmall`.
    """
    # guard: a lease is never charged more than it holds
    writes = [update({"_id": lease, "amount": {"$gte": price}}, {"amount": -price}) for lease, price in leases.items()]
    if writes and write(db, "ads.leases", "update", writes, session)["n"] < len(writes):
        raise LeaseTooSmall


def _row(group: BeaconGroup) -> CounterKey:
    offer = group.offer
    return CounterKey(offer.campaign_id, group.day, offer.site, offer.zone, offer.unit)


def _has_left(budget: Document, day: datetime, price: int) -> bool:
    """Return whether the budget has the price left: in total and, with a daily limit, on that day, if it is current."""
    if budget["committed"] + price > budget["total"]:
        return False
    if budget["daily"] is None:
        return True
    return bool(budget["day"] == day and budget["day_committed"] + price <= budget["daily"])
