"""The mark on the stock of a removed product: no cart can reserve such stock until the product is added again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from pymongo.client_session import ClientSession

from squinney.commerce.carts import queries as cart_queries
from squinney.commerce.catalog import queries
from squinney.mongo.connect import seconds_left
from squinney.mongo.schema import Db
from squinney.transactions import UNLOCKED, Busy, Tries, in_transaction

T = TypeVar("T")


def unmark(db: Db, sku: str, session: ClientSession) -> None:
    """Make the stock sellable, in a transaction that also reads or inserts the product.

    Raises: `Busy` while another operation holds the stock.
    """
    stock = db["stock"].find_one(cart_queries.STOCK(sku=sku), {"removed_at": 1}, session=session)
    if stock is None or stock.get("removed_at") is None:
        return
    sellable = {"$unset": {"removed_at": ""}}
    if not db["stock"].update_one({"_id": sku, **UNLOCKED}, sellable, session=session).matched_count:
        raise Busy(f"another operation is changing the stock of {sku}; try again", sku=sku)


def unmark_existing(db: Db, skus: Sequence[str]) -> None:
    """Make the stock of those products sellable that exist, each in its own transaction."""
    stocks = cart_queries.STOCKS(skus=list(skus))
    for stock in db["stock"].find({**stocks, "removed_at": {"$ne": None}}, {"_id": 1}):
        work = partial(_unmark_if_sold, db, stock["_id"])
        retry_while_busy(partial(in_transaction, db, work))


def _unmark_if_sold(db: Db, sku: str, session: ClientSession) -> None:
    product = db["products"].find_one(queries.PRODUCT(sku=sku), {"txn_lock": 1}, session=session)
    if product is None:
        return
    if product.get("txn_lock") is not None:
        raise Busy(f"another operation is changing product {sku}; try again", sku=sku)
    unmark(db, sku, session)


def retry_while_busy(work: Callable[[], T]) -> T:
    """Call `work` until it does not raise `Busy`, for half of the operation's remaining time."""
    tries = Tries(seconds_left() / 2)
    while True:
        try:
            return work()
        except Busy as error:
            tries.pause(error)
