"""Settling beacons: what arrives together is one transaction.

Whoever comes first commits for all who wait; each is answered when the transaction that holds their beacon is
committed. Whatever comes first of a serve counts its impression too, so that no click is without one.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from pymongo.client_session import ClientSession
from pymongo.errors import DuplicateKeyError, OperationFailure

from squinney.ads import queries, rules
from squinney.ads.documents import KEEP_SERVES_SECONDS
from squinney.ads.tokens import Token
from squinney.clock import Clock
from squinney.mongo.schema import DUPLICATE_KEY, Db, Document
from squinney.transactions import Busy, in_transaction
from squinney.transactions.native import send

MOST_AT_ONCE = 500
SECONDS = 10.0
SECONDS_BESIDE_OTHERS = 2.0  # for what is settled together; then each campaign is tried by itself
TRIES = 20  # to meet another process that settles the same serves
IMPRESSION, VIEWABLE, CLICK, CONVERSION = "impressions", "viewable", "clicks", "conversions"


@dataclass
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

    def settle(self, beacons: Sequence[Beacon]) -> None:
        """Return when all of them are settled.

        Atomic: each beacon in one transaction, with others.
        After a crash: a beacon is settled whole or not at all, and may be sent again.
        Raises: the first error of one of them.
        """
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
            by_campaign[beacon.token.campaign_id].append(beacon)
        try:
            if len(by_campaign) > 1:
                with suppress(Busy):
                    settle_batch(self._db, batch, self._clock(), seconds=SECONDS_BESIDE_OTHERS)
                    return
                for group in by_campaign.values():
                    self._commit_alone(group, SECONDS_BESIDE_OTHERS)
            else:
                self._commit_alone(batch, SECONDS)
        except BaseException as error:
            for beacon in batch:
                beacon.error = beacon.error or error
            if not isinstance(error, Exception):
                raise
        finally:
            for beacon in batch:
                beacon.done = True

    def _commit_alone(self, group: list[Beacon], seconds: float) -> None:
        try:
            settle_batch(self._db, group, self._clock(), seconds=seconds)
        except Busy as error:
            for beacon in group:
                beacon.error = error


def settle_batch(db: Db, batch: Sequence[Beacon], now: datetime, *, seconds: float) -> None:
    """Settle beacons in one transaction.

    Atomic: the transaction.
    After a crash: nothing.
    Raises: `Busy`, `Unavailable`.
    """
    for left in reversed(range(TRIES)):
        try:
            firsts = in_transaction(db, lambda session: _settle(db, batch, now, session), seconds=seconds)
            break
        except DuplicateKeyError:  # another process has just settled one of them: the next look sees it
            if not left:
                raise
    for beacon, first in zip(batch, firsts, strict=True):
        beacon.first = first


def _settle(db: Db, batch: Sequence[Beacon], now: datetime, session: ClientSession) -> list[bool]:
    tokens = {beacon.token.id: beacon.token for beacon in batch}
    known = {one["_id"]: one for one in queries.SOME_SERVES.find(db, serves=list(tokens), session=session)}
    writing = Writing(known, now)
    firsts = [writing.add(beacon) for beacon in batch]
    if writing.charges:
        writing.charge(_read_leases(db, writing, session), _read_budgets(db, writing, session))
    writing.write(db, session)
    return firsts


def _read_leases(db: Db, writing: Writing, session: ClientSession) -> dict[str, Document]:
    wanted = sorted({token.lease_id for token in writing.charges})
    return {lease["_id"]: lease for lease in queries.SOME_LEASES.find(db, lease_ids=wanted, session=session)}


def _read_budgets(db: Db, writing: Writing, session: ClientSession) -> dict[str, Document]:
    wanted = sorted({token.campaign_id for token in writing.charges})
    return {budget["_id"]: budget for budget in queries.SOME_BUDGETS.find(db, campaign_ids=wanted, session=session)}


@dataclass
class Writing:
    """What a batch comes to."""

    known: Mapping[str, Document]
    now: datetime
    serves: dict[str, Document] = field(default_factory=dict)
    charges: list[Token] = field(default_factory=list)
    counts: dict[tuple[Any, ...], Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    leases: Counter[str] = field(default_factory=Counter)
    budgets: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def add(self, beacon: Beacon) -> bool:
        """Whether it is the first of its kind of its serve."""
        token = beacon.token
        serve = self.serves.get(token.id)
        if serve is None:
            serve = self.serves[token.id] = dict(self.known.get(token.id) or self._begun(token))
        if serve.get(beacon.kind):
            return False
        if not serve.get(IMPRESSION):
            self._count(token, serve, IMPRESSION)
        if beacon.kind != IMPRESSION:
            self._count(token, serve, beacon.kind)
        if beacon.value:
            self.counts[_row(token)]["value"] += beacon.value
            serve["value"] = beacon.value
        return True

    def _begun(self, token: Token) -> Document:
        ends = self.now + timedelta(seconds=KEEP_SERVES_SECONDS)
        return {"_id": token.id, "campaign_id": token.campaign_id, "at": token.at, "charged": 0, "expires_at": ends}

    def _count(self, token: Token, serve: Document, kind: str) -> None:
        serve[kind] = self.now
        self.counts[_row(token)][kind] += 1
        self.budgets[token.campaign_id][kind] += 1
        if kind == (CLICK if token.per_click else IMPRESSION):
            self.charges.append(token)

    def charge(self, leases: dict[str, Document], budgets: dict[str, Document]) -> None:
        """Take each price out of its lease; where that is gone or empty, out of what the budget has left, if it has."""
        for token in self.charges:
            lease, budget = leases.get(token.lease_id), budgets.get(token.campaign_id)
            if lease and lease["amount"] >= token.price:
                lease["amount"] -= token.price
                self.leases[token.lease_id] += token.price
            elif budget and _has_left(budget, token):
                self._commit_more(budget, token)
            else:
                continue
            self.serves[token.id]["charged"] += token.price
            self.counts[_row(token)]["spend"] += token.price
            self.budgets[token.campaign_id]["spent"] += token.price

    def _commit_more(self, budget: Document, token: Token) -> None:
        budget["committed"] += token.price
        self.budgets[token.campaign_id]["committed"] += token.price
        if budget["day"] == rules.day_of(token.at):
            budget["day_committed"] += token.price
            self.budgets[token.campaign_id]["day_committed"] += token.price

    def write(self, db: Db, session: ClientSession) -> None:
        """Send it, the documents that others may want first: who meets them gives up early."""
        budgets = [_update({"_id": campaign_id}, counts) for campaign_id, counts in self.budgets.items()]
        leases = [_update({"_id": lease_id}, {"amount": -price}) for lease_id, price in self.leases.items()]
        counters = [_update(_counter(row), counts, upsert=True) for row, counts in self.counts.items()]
        _send(db, "ad_budgets", "update", budgets, session)
        _send(db, "ad_leases", "update", leases, session)
        _send(db, "ad_counters", "update", counters, session)
        new = [serve for serve_id, serve in self.serves.items() if serve_id not in self.known]
        changed = [serve for serve_id, serve in self.serves.items() if serve != self.known.get(serve_id, serve)]
        _send(db, "ad_serves", "insert", new, session)
        _send(db, "ad_serves", "update", [{"q": {"_id": one["_id"]}, "u": one} for one in changed], session)


def _row(token: Token) -> tuple[Any, ...]:
    return token.campaign_id, rules.day_of(token.at), token.site, token.zone, token.unit


def _counter(row: tuple[Any, ...]) -> Document:
    """One document; the campaign and day also by themselves: they are its shard key."""
    campaign_id, day, site, zone, unit = row
    whole = {"campaign_id": campaign_id, "day": day, "site": site, "zone": zone, "unit": unit}
    return {"_id": whole, **whole}


def _has_left(budget: Document, token: Token) -> bool:
    """Whether the total, and the day's money if it is still that day, has the price left."""
    if budget["committed"] + token.price > budget["total"]:
        return False
    if budget["daily"] is None:
        return True
    same_day = budget["day"] == rules.day_of(token.at)
    return bool(same_day and budget["day_committed"] + token.price <= budget["daily"])


def _update(where: Document, increments: Mapping[str, int], *, upsert: bool = False) -> Document:
    return {"q": where, "u": {"$inc": dict(increments)}, "upsert": upsert}


def _send(db: Db, name: str, verb: str, writes: Iterable[Document], session: ClientSession) -> None:
    """One command.

    Raises: `DuplicateKeyError` where another has made one of the documents.
    """
    if not (sent := list(writes)):
        return
    answer = send(db, name, verb, sent, session)
    for report in answer.get("writeErrors", ()):
        kind = DuplicateKeyError if report["code"] == DUPLICATE_KEY else OperationFailure
        raise kind(report["errmsg"], report["code"], report)
