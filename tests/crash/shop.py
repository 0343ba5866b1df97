"""Helpers for the crash cases of the shop."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

from squinney.commerce import Carts, Catalog, Inventory, Orders, TestGateway
from squinney.commerce.payments.test_gateway import Behaviour
from squinney.mongo.schema import Db

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
PRICING = {"list": 500, "retail": 500, "currency": "EUR"}


def carts(db: Db, behaviour: Behaviour = "capture") -> Carts:
    """Return carts with a test provider that shows `behaviour`."""
    return Carts(db, payments=TestGateway(db, behaviour))


def orders(db: Db) -> Orders:
    """Return orders with a test provider."""
    return Orders(db, payments=TestGateway(db))


def inventory(db: Db) -> Inventory:
    """Return the inventory."""
    return Inventory(db)


def shop(db: Db) -> str:
    """Add two products and a cart with units of both; return the cart's id."""
    for sku in ("film", "album"):
        Catalog(db).add({"_id": sku, "type": "Film", "title": sku, "pricing": PRICING})
        inventory(db).receive(sku, 10)
    cart_id = carts(db).new()["_id"]
    carts(db).add_item(cart_id, "film", 2)
    carts(db).add_item(cart_id, "album", 1)
    return cart_id


def levels(db: Db, sku: str = "film") -> tuple[int, int, int]:
    """Return the available, carted and sold units, and assert that the counts are consistent."""
    stock = inventory(db).level(sku)
    assert stock["received"] + stock["adjusted"] == stock["qty"] + stock["carted"] + stock["sold"]
    return stock["qty"], stock["carted"], stock["sold"]


def lines(db: Db, cart_id: str) -> dict[str, int]:
    """Return the cart's quantities by SKU."""
    return {line["sku"]: line["qty"] for line in carts(db).get(cart_id)["items"]}


def age(db: Db) -> None:
    """Make every stalled payment old enough to be settled."""
    db["commerce.payments"].update_many({}, {"$set": {"at": LONG_AGO}})


def paired(db: Db) -> None:
    """Assert that each charge at the provider has exactly one order, and the reverse."""
    charged = Counter(charge["_id"] for charge in db["commerce.test_charges"].find({"state": "captured"}))
    ordered = Counter(order["payment_id"] for order in db["commerce.orders"].find({"status": "placed"}))
    assert charged == ordered


def paid(db: Db) -> str:
    """Add a shop with a paid cart, which has an order; return the cart's id."""
    cart_id = shop(db)
    carts(db).checkout(cart_id, key="k")
    return cart_id
