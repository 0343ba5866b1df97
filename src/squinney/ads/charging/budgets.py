"""Budgets: processes lease parts of a budget, promise the money to serves from memory, and return the rest.

`committed` of a budget is the sum of what is spent and what is leased; it never exceeds the total. The `amount` of a
lease is the money that can still be charged to it: an impression moves its price from its lease to `spent`, in one
transaction. Nearly every serve that is ever seen is seen within a minute. A lease expires some time after that, and its
rest returns to the budget, so that serves that are never seen do not block a campaign. A later impression is charged
to what the budget has left.
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
from squinney.mongo.deadlines import operation
from squinney.mongo.schema import Db, Document
from squinney.patterns.ids import new_id
from squinney.transactions import Busy, in_transaction

LEASE_SECONDS = 60  # how long a process promises money from one lease
PROMISED_SECONDS = 60  # how long money is reserved for a serve that was not seen
MARGIN_SECONDS = 60  # between the end of the last promise and the end of its lease, since clocks differ
RETRY_SECONDS = 0.5  # before the first retry for a budget with no money to lease; the pause then doubles
MAX_RETRY_SECONDS = 30.0
LEASING_SECONDS = 3  # the longest time that a choice waits for a lease
BUSY_SECONDS = 5.0  # before the next try for a budget that another transaction held
RETURNED_AT_ONCE = 500
RETURNING_SECONDS = 25  # the job runs twice a minute
RETURN_SECONDS = 2


@dataclass
class BudgetLease:
    """A part of a budget that this process holds. `free` is the amount not yet promised to a serve."""

    id: str
    day: datetime
    until: datetime
    free: int


class Wallet:
    """The money of one campaign in this process: its current lease, and when to try for another one."""

    def __init__(self, take_lease: Callable[[BudgetLease | None], BudgetLease | None]) -> None:
        self._take_lease = take_lease
        self._lock = threading.Lock()
        self._lease: BudgetLease | None = None
        self._pause = RETRY_SECONDS
        self.empty_until = 0.0
        self.refusals = 0

    def reserve(self, price: int, now: datetime, *, may_lease: bool = True) -> BudgetLease | None:
        """Subtract the price from the lease and return the lease; None without money. Take a new lease if needed."""
        with self._lock:
            lease = self._lease
            if lease is None or lease.free < price or now >= lease.until:
                if not may_lease or time.monotonic() < self.empty_until:
                    return None
                lease = self._renew(lease, price)
            if lease is not None:
                lease.free -= price
            return lease

    def _renew(self, old: BudgetLease | None, price: int) -> BudgetLease | None:
        pause = self._pause
        try:
            self._lease = lease = self._take_lease(old)
        except Busy:  # a killed process may hold the budget for a minute: not every page must wait for it
            lease, pause = None, BUSY_SECONDS
        if lease is not None and lease.free >= price:
            self._pause = RETRY_SECONDS
            return lease
        self.refusals += 1
        self.empty_until = time.monotonic() + pause
        self._pause = min(self._pause * 2, MAX_RETRY_SECONDS)
        return None

    def release(self, lease: BudgetLease, price: int) -> None:
        """Undo `reserve` when no serve was made."""
        with self._lock:
            lease.free += price

    def try_again(self) -> None:
        """Let the next choice try for a lease: the budget has got money."""
        with self._lock:
            self.empty_until = 0.0
            self._pause = RETRY_SECONDS

    def has(self, price: int) -> bool:
        """Return whether there is money for one more serve, or may be."""
        with self._lock:
            if self._lease is not None and self._lease.free >= price:
                return True
            return time.monotonic() >= self.empty_until

    def remove_lease(self) -> BudgetLease | None:
        """Remove the lease from the wallet and return it."""
        with self._lock:
            lease, self._lease = self._lease, None
            return lease


def take_lease(
    db: Db, campaign_id: str, price: int, old: BudgetLease | None, *, now: datetime, serve_seconds: float
) -> BudgetLease | None:
    """Return the free money of the old lease to the budget, and take a new lease if the budget has money.

    Atomic: one transaction.
    After a crash: the new lease exists or not; the job `return-ad-leases` returns its money when it expires.
    Raises: `Busy`, `Unavailable`.
    """
    day = rules.day_of(now)
    ends = min(now + timedelta(seconds=LEASE_SECONDS), day + timedelta(days=1))

    def work(session: ClientSession) -> BudgetLease | None:
        returned = _take_free(db, old, session) if old else None
        budget = queries.BUDGET.find_one(db, campaign_id=campaign_id, session=session)
        if budget is None:
            return None
        committed, day_committed = _after_return(budget, returned)
        amount = rules.lease_amount(_available(budget, committed, day_committed, now), price)
        if not amount and not returned:
            return None
        changes = {"committed": committed + amount}
        if amount or budget["day"] == day:
            changes |= {
                "day": max(day, budget["day"]),
                "day_committed": (day_committed if budget["day"] == day else 0) + amount,
            }
        db["ads.budgets"].update_one({"_id": campaign_id}, {"$set": changes}, session=session)
        if not amount:
            return None
        lease = BudgetLease(new_id(), day, ends, amount)
        db["ads.leases"].insert_one(_stored(lease, campaign_id, serve_seconds), session=session)
        return lease

    return in_transaction(db, work, seconds=LEASING_SECONDS)


@operation()
def end_if_spent(db: Db, campaign_id: str, price: int, *, planned: int) -> None:
    """End a campaign that has spent its total budget, `planned`: one update removes it from every zone."""
    if queries.SPENT.find_one(db, campaign_id=campaign_id, price=price, planned=planned):
        ended = {"status": "ended", "ended_because": "out of budget"}
        change = {"$set": ended, "$currentDate": {"changed_at": True}}
        db["ads.campaigns"].update_one(queries.NOT_ENDED(campaign_id=campaign_id), change)


def _stored(lease: BudgetLease, campaign_id: str, serve_seconds: float) -> Document:
    # guard: money of unseen serves returns after minutes
    until = lease.until + timedelta(seconds=min(serve_seconds, PROMISED_SECONDS) + MARGIN_SECONDS)
    return {"_id": lease.id, "campaign_id": campaign_id, "day": lease.day, "amount": lease.free, "until": until}


def _take_free(db: Db, lease: BudgetLease, session: ClientSession) -> Document | None:
    """Subtract from a stored lease the money that no serve was promised; None if nothing is left."""
    stored = queries.LEASE.find_one(db, lease_id=lease.id, session=session)
    amount = min(lease.free, stored["amount"]) if stored else 0  # clicks may have used more than was promised
    if not amount:
        return None
    db["ads.leases"].update_one({"_id": lease.id}, {"$inc": {"amount": -amount}}, session=session)
    return {"amount": amount, "day": lease.day}


def _after_return(budget: Document, returned: Document | None) -> tuple[int, int]:
    """Compute `committed` and `day_committed` of a budget after an amount is returned."""
    committed, day_committed = budget["committed"], budget["day_committed"]
    if returned:
        committed -= returned["amount"]
        if returned["day"] == budget["day"]:
            day_committed -= returned["amount"]
    return committed, day_committed


def _available(budget: Document, committed: int, day_committed: int, now: datetime) -> int:
    """Return the amount that may be leased now. A day that has ended by any process's clock has no money left."""
    day = rules.day_of(now)
    # guard: leases never exceed the total budget
    left: int = budget["total"] - committed
    if budget["day"] > day:
        return 0
    if budget["daily"] is not None:
        allowed = rules.day_allowance(budget["daily"], budget["pacing"], now)
        # guard: leases never exceed the daily budget
        left = min(left, allowed - (day_committed if budget["day"] == day else 0))
    return max(0, left)


def return_free(db: Db, campaign_id: str, lease: BudgetLease) -> None:
    """Return the free money of a lease to its budget when a process ends.

    Atomic: one transaction.
    After a crash: the lease is unchanged; the job `return-ad-leases` returns its money when it expires.
    """

    def work(session: ClientSession) -> None:
        returned = _take_free(db, lease, session)
        if returned:
            _add_to_budget(db, campaign_id, returned, session)

    in_transaction(db, work, seconds=10)


def return_lapsed(db: Db, now: datetime) -> int:
    """Return the rest of expired leases to their budgets; return how many leases there were.

    Atomic: each lease separately: one transaction deletes the lease and returns its rest.
    After a crash: the next run continues.
    """
    until = time.monotonic() + RETURNING_SECONDS
    returned = 0
    while time.monotonic() < until:
        lapsed = [lease["_id"] for lease in queries.LAPSED.find(db, now=now, limit=RETURNED_AT_ONCE)]
        before = returned
        for lease_id in lapsed:
            with suppress(Busy):  # a killed process may hold the budget for a minute: the next run tries again
                returned += in_transaction(db, partial(_return, db, lease_id), seconds=RETURN_SECONDS)
        if len(lapsed) < RETURNED_AT_ONCE or returned == before:
            break
    return returned


def _return(db: Db, lease_id: str, session: ClientSession) -> int:
    lease = db["ads.leases"].find_one_and_delete(queries.LEASE(lease_id=lease_id), session=session)
    if lease is None:
        return 0
    if lease["amount"]:
        # guard: the rest of an expired lease returns to the budget
        _add_to_budget(db, lease["campaign_id"], lease, session)
    return 1


def _add_to_budget(db: Db, campaign_id: str, returned: Document, session: ClientSession) -> None:
    budget = queries.BUDGET.find_one(db, campaign_id=campaign_id, session=session)
    if budget is None:
        return
    committed, day_committed = _after_return(budget, returned)
    changes = {"committed": committed, "day_committed": day_committed}
    db["ads.budgets"].update_one({"_id": campaign_id}, {"$set": changes}, session=session)
