"""How carts end without a sale: mark, give back what the reservations say, close; and much later, forget."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, cast

from squinney.commerce.carts import queries, rules
from squinney.commerce.carts.documents import Cart
from squinney.errors import Conflict, NotFound
from squinney.mongo.connect import operation
from squinney.mongo.schema import Db, Document
from squinney.transactions import AT_REST, Plan, Transactions

log = logging.getLogger(__name__)

BATCH = 200
LONGEST_ENDING_SECONDS = 5
FINISHED = ("declined", "cancelled", "refunded")


def begin(db: Db, cart_id: str, *, idle_since: datetime | None = None) -> bool:
    """Make an active cart with nothing under way `expiring`; from then on nobody can add to it."""
    where: Document = {"_id": cart_id, "status": "active", **AT_REST}
    if idle_since is not None:
        where["last_modified"] = {"$lt": idle_since}
    marked = db["carts"].update_one(where, {"$set": {"status": "expiring"}, "$inc": {"version": 1}})
    return marked.modified_count > 0


def finish(db: Db, transactions: Transactions, cart_id: str, at: datetime) -> bool:
    """Give back what the cart's reservations say, and close it; False where somebody else did."""

    def plan() -> Plan:
        cart = cast(Cart | None, db["carts"].find_one(queries.CART(cart_id=cart_id)))
        if cart is None or cart["status"] != "expiring":
            return Plan([], result=False)
        held = list(queries.RESERVED_BY.find(db, cart_id=cart_id))
        closing = rules.cart_step(cart, {"status": "expired", "last_modified": at})
        return Plan([closing, *rules.give_back_steps(held, at)], result=True)

    return bool(transactions.run("cart expire", plan).result)


def expire_carts(db: Db, transactions: Transactions, timeout_seconds: float, at: datetime) -> Counter[str]:
    """End carts idle for longer than the timeout, and those whose ending was interrupted."""
    counts: Counter[str] = Counter()
    idle_since = at - timedelta(seconds=timeout_seconds)
    for cart in queries.IDLE_CARTS.find(db, status="active", before=idle_since, projection={"_id": 1}):
        begin(db, cart["_id"], idle_since=idle_since)
    for cart in queries.IDLE_CARTS.find(db, status="expiring", before=at, projection={"_id": 1}):
        try:
            with operation(LONGEST_ENDING_SECONDS):
                counts["expired"] += finish(db, transactions, cart["_id"], at)
        except Conflict as error:  # one cart that cannot end now must not keep the others waiting
            log.warning("cart %s cannot expire now: %s", cart["_id"], error)
            _let_others_go_first(db, cart["_id"], at)
            counts["left for later"] += 1
    return +counts


def _let_others_go_first(db: Db, cart_id: str, at: datetime) -> None:
    """Put a cart behind all that are ending: however many of its kind there are, the next call begins with others."""
    where: Document = {"_id": cart_id, "status": "expiring", "txn_lock": None}
    db["carts"].update_one(where, {"$set": {"last_modified": at}})


def return_orphans(db: Db, transactions: Transactions, timeout_seconds: float, at: datetime) -> Counter[str]:
    """Give back reservations older than the timeout whose cart is missing or expired."""
    counts: Counter[str] = Counter()
    old = queries.OLD_RESERVATIONS.find(db, before=at - timedelta(seconds=timeout_seconds))
    for batch in _batches(old):
        statuses = _statuses(db, [held["_id"]["cart"] for held in batch])
        for held in batch:
            if statuses.get(held["_id"]["cart"], "missing") in ("missing", "expired"):
                counts[_return(db, transactions, held, at)] += 1
    return counts


def _batches(found: Iterator[Document]) -> Iterator[list[Document]]:
    while batch := list(islice(found, BATCH)):
        yield batch


def _statuses(db: Db, cart_ids: list[Any]) -> dict[Any, str]:
    carts = queries.CARTS_BY_ID.find(db, cart_ids=cart_ids, projection={"status": 1})
    return {cart["_id"]: cart["status"] for cart in carts}


def _return(db: Db, transactions: Transactions, held: Document, at: datetime) -> str:
    """A cart that is gone never comes back, so its reservation can only be returned once: by whoever deletes it."""
    try:
        transactions.run("orphan return", Plan(rules.give_back_steps([held], at)))
    except (Conflict, NotFound) as error:
        log.info("reservation %s was not returned: %s", held["_id"], error)
        return "left for later"
    return "returned"


def forget_carts(db: Db, keep_seconds: float, at: datetime) -> Counter[str]:
    """Delete carts that expired so long ago, with their payment attempts.

    The attempts go first: a cart is found again until all of it is gone. One with an attempt that is not finished stays
    whole, and so does one of which a run has something in hand.
    """
    counts: Counter[str] = Counter()
    before = at - timedelta(seconds=keep_seconds)
    for batch in _batches(queries.IDLE_CARTS.find(db, status="expired", before=before, projection={"_id": 1})):
        ids = [cart["_id"] for cart in batch]
        unfinished = queries.UNFINISHED_PAYMENTS.find(
            db, cart_ids=ids, finished=FINISHED, projection={"_id": 0, "cart_id": 1}
        )
        ids = sorted({*ids} - {payment["cart_id"] for payment in unfinished})
        done = {"cart_id": {"$in": ids}, "state": {"$in": FINISHED}, **AT_REST}
        counts["payments"] += db["payments"].delete_many(done).deleted_count
        gone = {"_id": {"$in": ids}, "status": "expired", "last_modified": {"$lt": before}, **AT_REST}
        counts["carts"] += db["carts"].delete_many(gone).deleted_count
    return +counts
