"""Settling beacons: what arrives together is one transaction.

Whoever comes first commits for all who wait; each is answered when the transaction that holds their beacon is
committed. Whatever comes first of a serve counts its impression too, so that no click is without one.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import islice

from pymongo.client_session import ClientSession
from pymongo.errors import DuplicateKeyError

from squinney.ads import counters, queries, rules
from squinney.ads.counters import Row, update, write
from squinney.ads.tokens import Offer, Token
from squinney.clock import Clock
from squinney.mongo.schema import Db, Document
from squinney.transactions import Busy, in_transaction

MOST_AT_ONCE = 500
MOST_REMEMBERED = 50_000
SECONDS = 2.0  # for one transaction: others wait behind it
HELD_SECONDS = 5.0  # before a campaign is tried again whose budget another process held
TRIES = 20  # to meet another process that settles the same serves
LATE_SECONDS = 30  # after the choice; before that an impression is taken for new
DAY_MS = 86_400_000
IMPRESSION, VIEWABLE, CLICK, CONVERSION = "impressions", "viewable", "clicks", "conversions"


@dataclass(slots=True)
class Beacon:
    """One event of one serve, on its way."""

    token: Token
    kind: str
    value: int = 0
    first: bool = False
    error: BaseException | None = None
    done: bool = False


class Settler:
    """The beacons of one process."""

    def __init__(self, db: Db, clock: Clock) -> None:
        self._db = db
        self._clock = clock
        self._waiting: deque[Beacon] = deque()
        self._change = threading.Condition()
        self._busy = False
        self._held_until: dict[str, float] = {}
        self._settled: dict[str, None] = {}  # serves, the latest last: of these the impression is no more the first

    def settle(self, beacons: Sequence[Beacon]) -> None:
        """Return when all of them are settled.

        Atomic: each beacon in one transaction, with others.
        After a crash: a beacon is settled whole or not at all, and may be sent again.
        Raises: the first error of one of them.
        """
        beacons = [one for one in beacons if one.kind != IMPRESSION or one.token.id not in self._settled]
        with self._change:
            self._waiting.extend(beacons)
        while batch := self._next_batch(beacons):
            try:
                # Others wait for this too: it has its own time, not what is left of this request's.
                Context().run(self._commit, batch)
            finally:
                with self._change:
                    self._busy = False
                    self._change.notify_all()
        if failed := next((beacon.error for beacon in beacons if beacon.error), None):
            raise failed

    def _next_batch(self, beacons: Sequence[Beacon]) -> list[Beacon]:
        """What to commit now, once nobody else does; nothing when one's own are done."""
        with self._change:
            self._change.wait_for(lambda: not self._busy or all(beacon.done for beacon in beacons))
            if all(beacon.done for beacon in beacons):
                return []
            self._busy = True
            return [self._waiting.popleft() for _ in range(min(MOST_AT_ONCE, len(self._waiting)))]

    def _commit(self, batch: list[Beacon]) -> None:
        """Together; where somebody holds a budget, each campaign by itself, so that the others are settled."""
        by_campaign: dict[str, list[Beacon]] = defaultdict(list)
        for beacon in batch:
            by_campaign[beacon.token.offer.campaign_id].append(beacon)
        try:
            suspects = [campaign_id for campaign_id in by_campaign if campaign_id in self._held_until]
            alone = [self._asked(campaign_id, by_campaign.pop(campaign_id)) for campaign_id in suspects]
            if not self._settled_together(list(by_campaign.values())):
                alone += by_campaign.items()
            for campaign_id, group in alone:
                self._commit_alone(campaign_id, group)
        except BaseException as error:
            for beacon in batch:
                beacon.error = beacon.error or error
            if not isinstance(error, Exception):
                raise
        finally:
            for beacon in batch:
                beacon.done = True

    def _asked(self, campaign_id: str, group: list[Beacon]) -> tuple[str, list[Beacon]]:
        """What to try of a campaign that was held: nothing yet, if that was just now."""
        if time.monotonic() >= self._held_until[campaign_id]:
            return campaign_id, group
        for beacon in group:
            beacon.error = Busy("another process holds the campaign's budget; try again")
        return campaign_id, []

    def _settled_together(self, groups: list[list[Beacon]]) -> bool:
        if len(groups) < 2:
            return not groups
        with suppress(Busy):
            self._settle_batch([beacon for group in groups for beacon in group], SECONDS)
            return True
        return False

    def _commit_alone(self, campaign_id: str, group: list[Beacon]) -> None:
        if not group:
            return
        try:
            self._settle_batch(group, SECONDS)
            self._held_until.pop(campaign_id, None)
        except Busy as error:
            self._held_until[campaign_id] = time.monotonic() + HELD_SECONDS
            for beacon in group:
                beacon.error = error

    def _settle_batch(self, batch: list[Beacon], seconds: float) -> None:
        settle_batch(self._db, batch, self._clock(), seconds=seconds)
        self._settled.update((beacon.token.id, None) for beacon in batch)
        for oldest in list(islice(self._settled, max(0, len(self._settled) - MOST_REMEMBERED))):
            del self._settled[oldest]


def settle_batch(db: Db, batch: Sequence[Beacon], now: datetime, *, seconds: float) -> None:
    """Settle beacons in one transaction.

    Impressions that are not late are as a rule new, and their leases have the money: the first try takes both for
    granted, and the server refuses it where they are not.

    Atomic: the transaction.
    After a crash: nothing.
    Raises: `Busy`, `Unavailable`.
    """
    late = now.timestamp() * 1000 - LATE_SECONDS * 1000
    bold = all(beacon.kind == IMPRESSION and beacon.token.at_ms > late for beacon in batch)
    for left in reversed(range(TRIES)):
        try:
            firsts = in_transaction(db, partial(_settle, db, batch, now, bold), seconds=seconds)
            break
        except (DuplicateKeyError, NotCovered):  # another has settled one of them, or the lease is gone: look
            bold = False
            if not left:
                raise
    for beacon, first in zip(batch, firsts, strict=True):
        beacon.first = first


def _settle(db: Db, batch: Sequence[Beacon], now: datetime, bold: bool, session: ClientSession) -> list[bool]:
    known = {}
    if not bold:
        wanted = list({beacon.token.id for beacon in batch})
        known = {one["_id"]: one for one in queries.SOME_SERVES.find(db, serves=wanted, session=session)}
    writing = Writing(known, now)
    firsts = [writing.add(beacon) for beacon in batch]
    if bold:
        writing.charge_leases()
    elif writing.is_due():
        writing.charge(_read_leases(db, writing, session), _read_budgets(db, writing, session))
    writing.write(db, session)
    return firsts


def _read_leases(db: Db, writing: Writing, session: ClientSession) -> dict[str, int]:
    wanted = sorted({group.offer.lease_id for group in writing.groups.values()})
    return {lease["_id"]: lease["amount"] for lease in queries.SOME_LEASES.find(db, lease_ids=wanted, session=session)}


def _read_budgets(db: Db, writing: Writing, session: ClientSession) -> dict[str, Document]:
    wanted = sorted({group.offer.campaign_id for group in writing.groups.values()})
    return {budget["_id"]: budget for budget in queries.SOME_BUDGETS.find(db, campaign_ids=wanted, session=session)}


class NotCovered(Exception):
    """A lease has less than was taken for granted."""


@dataclass(slots=True)
class Group:
    """The beacons of one offer and day: how many of each kind, and the serves that are to be paid for."""

    offer: Offer
    day: datetime
    counts: Counter[str] = field(default_factory=Counter)
    due: list[Document] = field(default_factory=list)
    value: int = 0
    spent: int = 0
    from_lease: int = 0

    def count(self, serve: Document, kind: str, now: datetime) -> None:
        """One more of a kind."""
        serve[kind] = now
        self.counts[kind] += 1
        if kind == (CLICK if self.offer.per_click else IMPRESSION):
            self.due.append(serve)

    def pay(self, serves: Sequence[Document]) -> int:
        """Charge these; what it comes to."""
        for serve in serves:
            serve["charged"] = self.offer.price
        amount = self.offer.price * len(serves)
        self.spent += amount
        return amount


@dataclass
class Writing:
    """What a batch comes to."""

    known: Mapping[str, Document]
    now: datetime
    serves: dict[str, Document] = field(default_factory=dict)
    groups: dict[tuple[Offer, int], Group] = field(default_factory=dict)
    budgets: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def add(self, beacon: Beacon) -> bool:
        """Whether it is the first of its kind of its serve."""
        token = beacon.token
        serve = self.serves.get(token.id)
        if serve is None:
            serve = self.serves[token.id] = self._begun(token)
        if beacon.kind in serve:
            return False
        group = self._group(token)
        if IMPRESSION not in serve:
            group.count(serve, IMPRESSION, self.now)
        if beacon.kind != IMPRESSION:
            group.count(serve, beacon.kind, self.now)
        if beacon.value:
            group.value += beacon.value
            serve["value"] = beacon.value
        return True

    def _begun(self, token: Token) -> Document:
        if known := self.known.get(token.id):
            return dict(known)
        return {"_id": token.id, "campaign_id": token.offer.campaign_id, "at": token.at, "charged": 0}

    def _group(self, token: Token) -> Group:
        key = (token.offer, token.at_ms // DAY_MS)
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = Group(token.offer, rules.day_of(token.at))
        return group

    def is_due(self) -> bool:
        """Whether anything is to be paid for."""
        return any(group.due for group in self.groups.values())

    def charge_leases(self) -> None:
        """Take every price out of its lease."""
        for group in self.groups.values():
            group.from_lease = group.pay(group.due)

    def charge(self, leases: dict[str, int], budgets: dict[str, Document]) -> None:
        """Take each price out of its lease; where that is gone or empty, out of what the budget has left, if it has."""
        for group in self.groups.values():
            price, lease_id = group.offer.price, group.offer.lease_id
            covered = leases.get(lease_id, 0) // price
            group.from_lease = group.pay(group.due[:covered])
            if group.from_lease:
                leases[lease_id] -= group.from_lease
            budget = budgets.get(group.offer.campaign_id)
            for serve in group.due[covered:]:
                if budget and _has_left(budget, group.day, price):
                    self._commit_more(budget, group.day, group.pay([serve]))

    def _commit_more(self, budget: Document, day: datetime, price: int) -> None:
        more = Counter(committed=price)
        if budget["day"] == day:
            more["day_committed"] = price
        for name in more:
            budget[name] += price
        self.budgets[budget["_id"]] += more

    def write(self, db: Db, session: ClientSession) -> None:
        """Send it, the documents that others may want first: who meets them gives up early."""
        rows: dict[Row, Counter[str]] = defaultdict(Counter)
        leases: Counter[str] = Counter()
        for group in self.groups.values():
            rows[_row(group)] += group.counts + Counter(value=group.value, spend=group.spent)
            self.budgets[group.offer.campaign_id] += group.counts + Counter(spent=group.spent)
            leases[group.offer.lease_id] += group.from_lease
        budgets = [update({"_id": one}, counts) for one, counts in self.budgets.items()]
        write(db, "ad_budgets", "update", budgets, session)
        _take(db, +leases, session)
        counters.add(db, rows, session)
        new = [serve for serve_id, serve in self.serves.items() if serve_id not in self.known]
        changed = [self.serves[serve_id] for serve_id, known in self.known.items() if self.serves[serve_id] != known]
        write(db, "ad_serves", "insert", new, session)
        write(db, "ad_serves", "update", [{"q": {"_id": one["_id"]}, "u": one} for one in changed], session)


def _take(db: Db, leases: Mapping[str, int], session: ClientSession) -> None:
    """Take amounts out of leases that have as much.

    Raises: `NotCovered`.
    """
    writes = [update({"_id": one, "amount": {"$gte": price}}, {"amount": -price}) for one, price in leases.items()]
    if writes and write(db, "ad_leases", "update", writes, session)["n"] < len(writes):
        raise NotCovered


def _row(group: Group) -> Row:
    offer = group.offer
    return Row(offer.campaign_id, group.day, offer.site, offer.zone, offer.unit)


def _has_left(budget: Document, day: datetime, price: int) -> bool:
    """Whether the total, and the day's money if it is still that day, has the price left."""
    if budget["committed"] + price > budget["total"]:
        return False
    if budget["daily"] is None:
        return True
    return bool(budget["day"] == day and budget["day_committed"] + price <= budget["daily"])
