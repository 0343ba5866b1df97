"""Ends carts without a sale: marks them `expiring`, returns their reservations, closes them, and later deletes them."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import cast

from squinney.commerce.carts import queries
from squinney.commerce.carts.documents import Cart
from squinney.commerce.inventory import queries as stock_queries
from squinney.commerce.inventory.steps import return_steps
from squinney.commerce.payments import queries as payment_queries
from squinney.commerce.rules import status_step
from squinney.errors import Conflict, NotFound, Unavailable
from squinney.mongo.deadlines import operation, seconds_left
from squinney.mongo.schema import Db, Document
from squinney.transactions import Plan, Transactions

log = logging.getLogger(__name__)

BATCH = 200
SECONDS_PER_CART = 5
LAST_SECONDS = 15.0  # of a call, in which it begins nothing more: the next call continues
FINISHED = ("declined", "needs_action", "cancelled", "refunded")


def begin(db: Db, cart_id: str, *, idle_since: datetime | None = None) -> bool:
    """Mark an active cart `expiring`, which closes it to changes; return False if it is not active, or not idle."""
    # guard: only an active cart begins to expire
    where: Document = {"_id": cart_id, "status": "active"}
    if idle_since is not None:
        # guard: a cart that changed after the query does not expire
        where["last_modified"] = {"$lt": idle_since}
    marked = db["commerce.carts"].update_one(where, {"$set": {"status": "expiring"}, "$inc": {"version": 1}})
    return marked.modified_count > 0


def finish(db: Db, transactions: Transactions, cart_id: str, at: datetime) -> bool:
    """Return the cart's reservations to stock and mark it `expired`; return False if it was not `expiring`."""

    def plan() -> Plan:
        cart = cast(Cart | None, queries.CART.find_one(db, cart_id=cart_id))
        # guard: only a cart that is expiring becomes expired
        if cart is None or cart["status"] != "expiring":
            return Plan([], result=False)
        reservations = list(stock_queries.RESERVED_BY.find(db, cart_id=cart_id))
        closing = status_step("commerce.carts", cart, {"status": "expired", "last_modified": at})
        return Plan([closing, *return_steps(reservations, at)], result=True)

    return bool(transactions.run("cart expire", plan).result)


def expire_carts(db: Db, transactions: Transactions, timeout_seconds: float, at: datetime) -> Counter[str]:
    """Expire carts that are idle for longer than the timeout, and carts whose expiry was interrupted."""
    counts: Counter[str] = Counter()
    idle_since = at - timedelta(seconds=timeout_seconds)
    idle = queries.IDLE_CARTS.find(db, status="active", before=idle_since, projection={"_id": 1})
    for cart in _while_time_is_left(idle, share=0.5):
        begin(db, cart["_id"], idle_since=idle_since)
    expiring = queries.IDLE_CARTS.find(db, status="expiring", before=at, projection={"_id": 1})
    for cart in _while_time_is_left(expiring):
        try:
            with operation(SECONDS_PER_CART):
                counts["expired"] += finish(db, transactions, cart["_id"], at)
        # guard: a cart that takes too long to expire does not stop the others
        # guard: a cart that cannot expire does not stop the others
        except (Conflict, Unavailable) as error:  # one cart that cannot expire now must not stop the others
            log.warning("cart %s cannot expire now: %s", cart["_id"], error)
            # guard: a cart that cannot expire is tried last the next time
            _move_to_end(db, cart["_id"], at)
            counts["left for later"] += 1
    return +counts


def _while_time_is_left(documents: Iterable[Document], *, share: float = 1) -> Iterator[Document]:
    """Yield documents until the time of this call, or a share of it, is nearly over."""
    until = time.monotonic() + seconds_left() * share - LAST_SECONDS
    for document in documents:
        # guard: a job whose time is over leaves the rest to its next run
        if time.monotonic() > until:
            log.info("the time is over; the next run continues")
            return
        yield document


def _move_to_end(db: Db, cart_id: str, at: datetime) -> None:
    """Make a cart the last of the expiring carts, so that the next call begins with carts that can expire."""
    where: Document = {"_id": cart_id, "status": "expiring"}
    db["commerce.carts"].update_one(where, {"$set": {"last_modified": at}})


def return_orphans(db: Db, transactions: Transactions, timeout_seconds: float, at: datetime) -> Counter[str]:
    """Return reservations to stock that are older than the timeout and whose cart is missing or expired."""
    counts: Counter[str] = Counter()
    orphans = stock_queries.ORPHANS(before=at - timedelta(seconds=timeout_seconds))
    for reservation in _while_time_is_left(db["commerce.reservations"].aggregate(orphans)):
        counts[_return(transactions, reservation, at)] += 1
    return counts


def _return(transactions: Transactions, reservation: Document, at: datetime) -> str:
    # Deleting the reservation decides: of two workers, only one returns it. No cart can become active again.
    try:
        transactions.run("orphan return", Plan(return_steps([reservation], at)))
    except (Conflict, NotFound) as error:
        log.info("reservation %s was not returned: %s", reservation["_id"], error)
        return "left for later"
    return "returned"


def forget_carts(db: Db, keep_seconds: float, at: datetime) -> Counter[str]:
    """Delete carts that expired more than `keep_seconds` ago, with their payment attempts.

    The attempts are deleted first, so that a later call still finds a cart whose deletion was interrupted. A cart with
    an unfinished attempt is kept with all its attempts.
    """
    counts: Counter[str] = Counter()
    before = at - timedelta(seconds=keep_seconds)
    expired = _while_time_is_left(queries.IDLE_CARTS.find(db, status="expired", before=before, projection={"_id": 1}))
    while ids := [cart["_id"] for cart in islice(expired, BATCH)]:
        # guard: a cart with an open payment attempt is not deleted
        ids = _without_payments(db, ids, FINISHED)
        attempts = {"cart_id": {"$in": ids}, "state": {"$in": FINISHED}}
        counts["payments"] += db["commerce.payments"].delete_many(attempts).deleted_count
        # An attempt that was captured late in the meantime was not deleted: its refund or order needs the cart.
        # guard: a cart whose late payment was captured in the meantime is not forgotten
        ids = _without_payments(db, ids)
        carts = {"_id": {"$in": ids}, "status": "expired", "last_modified": {"$lt": before}}
        counts["carts"] += db["commerce.carts"].delete_many(carts).deleted_count
    return +counts


def _without_payments(db: Db, cart_ids: list[str], finished: Sequence[str] = ()) -> list[str]:
    """Return the carts that have no payment attempts except `finished` ones."""
    payments = payment_queries.PAYMENTS_OF_CARTS.find(
        db, cart_ids=cart_ids, finished=list(finished), projection={"_id": 0, "cart_id": 1}
    )
    return sorted({*cart_ids} - {payment["cart_id"] for payment in payments})
