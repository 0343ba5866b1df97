"""Budgets: slices of them are leased, spent from memory, and given back.

`committed` of a budget is what is spent and what is out on lease; it never passes the total. A lease holds what may yet
be settled from it: an impression takes its price out of its lease and puts it into `spent`, in one transaction. A lease
outlives the minute in which nearly every serve is seen that will be; then its rest goes back, so that serves which
nobody sees do not hold up a campaign. Who comes later is paid from what the budget has left.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from pymongo.client_session import ClientSession

from squinney.ads import queries, rules
from squinney.mongo.connect import operation
from squinney.mongo.schema import Db, Document
from squinney.patterns.ids import new_id
from squinney.transactions import Busy, in_transaction

LEASE_SECONDS = 60  # for so long serves are given out from one
PROMISED_SECONDS = 60  # for so long money is held back for a serve that nobody saw
MARGIN_SECONDS = 60  # between the last promise's end and that of its lease: clocks differ
RETRY_SECONDS = 0.5  # before a budget that had nothing to lease is asked again; then twice as long, and so on
MOST_RETRY_SECONDS = 30.0
LEASING_SECONDS = 3  # a choice waits at most so long for money
BUSY_SECONDS = 5.0  # before a budget that others held is asked again
RETURNED_AT_ONCE = 500
RETURNING_SECONDS = 25  # the job runs twice a minute
RETURN_SECONDS = 2


@dataclass
class Lease:
    """A slice that this process holds: `free` of it is promised to no serve yet."""

    id: str
    day: datetime
    until: datetime
    free: int


class Wallet:
    """One campaign's money in this process."""

    def __init__(self, lease: Callable[[Lease | None], Lease | None]) -> None:
        self._lease = lease
        self._lock = threading.Lock()
        self._held: Lease | None = None
        self._pause = RETRY_SECONDS
        self.empty_until = 0.0
        self.refusals = 0

    def reserve(self, price: int, now: datetime, *, may_ask: bool = True) -> Lease | None:
        """A lease with the price taken out; None where there is no money now. Only an empty one asks the database."""
        with self._lock:
            held = self._held
            if held is None or held.free < price or now >= held.until:
                if not may_ask or time.monotonic() < self.empty_until:
                    return None
                held = self._ask(held, price)
            if held is not None:
                held.free -= price
            return held

    def _ask(self, held: Lease | None, price: int) -> Lease | None:
        pause = self._pause
        try:
            self._held = held = self._lease(held)
        except Busy:  # a killed process holds the budget: pages must not wait for it, one after another
            held, pause = None, BUSY_SECONDS
        if held is not None and held.free >= price:
            self._pause = RETRY_SECONDS
            return held
        self.refusals += 1
        self.empty_until = time.monotonic() + pause
        self._pause = min(self._pause * 2, MOST_RETRY_SECONDS)
        return None

    def release(self, lease: Lease, price: int) -> None:
        """Take back what no serve was given for."""
        with self._lock:
            lease.free += price

    def has(self, price: int) -> bool:
        """Whether there is, or may be, money for one more."""
        with self._lock:
            if self._held is not None and self._held.free >= price:
                return True
            return time.monotonic() >= self.empty_until

    def empty(self) -> Lease | None:
        """Hold nothing any more."""
        with self._lock:
            held, self._held = self._held, None
            return held


def take_lease(
    db: Db, campaign_id: str, price: int, old: Lease | None, *, now: datetime, serve_seconds: float
) -> Lease | None:
    """Give back what is free of the old lease, and take a new one, if there is anything to take.

    Atomic: one transaction.
    After a crash: the lease is there or it is not; the job `return-ad-leases` gives it back.
    Raises: `Busy`, `Unavailable`.
    """
    day = rules.day_of(now)
    ends = min(now + timedelta(seconds=LEASE_SECONDS), day + timedelta(days=1))

    def work(session: ClientSession) -> Lease | None:
        given_back = _shrink(db, old, session) if old else None
        budget = db["ad_budgets"].find_one(queries.BUDGET(campaign_id=campaign_id), session=session)
        if budget is None:
            return None
        committed, in_day = _after_return(budget, given_back)
        amount = rules.slice_of(_left(budget, committed, in_day, now), price)
        if not amount and not given_back:
            return None
        changes = {"committed": committed + amount}
        if amount or budget["day"] == day:
            changes |= {
                "day": max(day, budget["day"]),
                "day_committed": (in_day if budget["day"] == day else 0) + amount,
            }
        db["ad_budgets"].update_one({"_id": campaign_id}, {"$set": changes}, session=session)
        if not amount:
            return None
        lease = Lease(new_id(), day, ends, amount)
        db["ad_leases"].insert_one(_stored(lease, campaign_id, serve_seconds), session=session)
        return lease

    return in_transaction(db, work, seconds=LEASING_SECONDS)


@operation()
def end_if_spent(db: Db, campaign_id: str, price: int) -> None:
    """End a campaign whose money is spent for good, so that no process asks for it any more.

    Atomic: one update, which takes it out of every zone.
    After a crash: it happened or it did not; whoever asks next does it.
    """
    if db["ad_budgets"].find_one(queries.SPENT(campaign_id=campaign_id, price=price)):
        ended = {"status": "ended", "ended_because": "out of budget"}
        change = {"$set": ended, "$currentDate": {"changed_at": True}}
        db["ad_campaigns"].update_one(queries.NOT_ENDED(campaign_id=campaign_id), change)


def _stored(lease: Lease, campaign_id: str, serve_seconds: float) -> Document:
    until = lease.until + timedelta(seconds=min(serve_seconds, PROMISED_SECONDS) + MARGIN_SECONDS)
    return {"_id": lease.id, "campaign_id": campaign_id, "day": lease.day, "amount": lease.free, "until": until}


def _shrink(db: Db, lease: Lease, session: ClientSession) -> Document | None:
    """Take out of a lease what no serve was promised; None where nothing is left to take."""
    found = db["ad_leases"].find_one(queries.LEASE(lease_id=lease.id), session=session)
    amount = min(lease.free, found["amount"]) if found else 0  # clicks take what they need, promised or not
    if not amount:
        return None
    db["ad_leases"].update_one({"_id": lease.id}, {"$inc": {"amount": -amount}}, session=session)
    return {"amount": amount, "day": lease.day}


def _after_return(budget: Document, given_back: Document | None) -> tuple[int, int]:
    """What is committed, in all and on the budget's day, once the amount has come back."""
    committed, in_day = budget["committed"], budget["day_committed"]
    if given_back:
        committed -= given_back["amount"]
        if given_back["day"] == budget["day"]:
            in_day -= given_back["amount"]
    return committed, in_day


def _left(budget: Document, committed: int, in_day: int, now: datetime) -> int:
    """What may be leased now. A day that is over, by anybody's clock, has nothing left."""
    day = rules.day_of(now)
    left: int = budget["total"] - committed
    if budget["day"] > day:
        return 0
    if budget["daily"] is not None:
        allowed = rules.day_allowance(budget["daily"], budget["pacing"], now)
        left = min(left, allowed - (in_day if budget["day"] == day else 0))
    return max(0, left)


def give_back(db: Db, campaign_id: str, lease: Lease) -> None:
    """Give back what no serve was promised, as a process does that ends.

    Atomic: one transaction.
    After a crash: the lease is as it was; the job gives it back.
    """

    def work(session: ClientSession) -> None:
        given_back = _shrink(db, lease, session)
        if given_back:
            _put_back(db, campaign_id, given_back, session)

    in_transaction(db, work, seconds=10)


def return_lapsed(db: Db, now: datetime) -> int:
    """Give back what is left of leases whose serves have all expired; how many there were.

    Atomic: each lease by itself: it goes and its campaign has the rest, in one transaction.
    After a crash: the next run goes on.
    """
    until = time.monotonic() + RETURNING_SECONDS
    returned = 0
    while time.monotonic() < until:
        lapsed = [lease["_id"] for lease in queries.LAPSED.find(db, now=now, limit=RETURNED_AT_ONCE)]
        before = returned
        for lease_id in lapsed:
            with suppress(Busy):  # a transaction of a killed process holds the budget for a minute: the next run has it
                returned += in_transaction(db, partial(_return, db, lease_id), seconds=RETURN_SECONDS)
        if len(lapsed) < RETURNED_AT_ONCE or returned == before:
            break
    return returned


def _return(db: Db, lease_id: str, session: ClientSession) -> int:
    lease = db["ad_leases"].find_one_and_delete(queries.LEASE(lease_id=lease_id), session=session)
    if lease is None:
        return 0
    if lease["amount"]:
        _put_back(db, lease["campaign_id"], lease, session)
    return 1


def _put_back(db: Db, campaign_id: str, lease: Document, session: ClientSession) -> None:
    budget = db["ad_budgets"].find_one(queries.BUDGET(campaign_id=campaign_id), session=session)
    if budget is None:
        return
    committed, in_day = _after_return(budget, lease)
    changes = {"committed": committed, "day_committed": in_day}
    db["ad_budgets"].update_one({"_id": campaign_id}, {"$set": changes}, session=session)
