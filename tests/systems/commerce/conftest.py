"""Fixtures: a shop."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.plugins.shelf import Prepared

from squinney import transactions
from squinney.commerce import COLLECTIONS, Carts, Catalog, Inventory, Orders, TestGateway
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db, Document
from squinney.patterns import paging
from squinney.testing.server_commands import Commands, watched
from squinney.transactions import Transactions

PRICING = {"list": 2_000, "retail": 1_500, "currency": "EUR"}


@pytest.fixture
def counted(mongod: Embedded, shop_db: Db) -> Iterator[tuple[Db, Commands]]:
    """The database through a client that records its commands."""
    with watched(mongod.uri, shop_db.name) as both:
        yield both


@pytest.fixture
def shop_db(prepared: Prepared) -> Db:
    """A database with commerce's collections."""
    return prepared([*transactions.COLLECTIONS, *COLLECTIONS])


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def pass_seconds(self, seconds: float) -> None:
        """Advance the clock."""
        self.now += timedelta(seconds=seconds)


@dataclass
class Shop:
    """The services of a shop and a clock, for tests of carts."""

    db: Db
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.transactions = Transactions(self.db, timeout_seconds=10)
        self.gateway = TestGateway(self.db)
        common: dict[str, Any] = {"transactions": self.transactions, "clock": self.clock}
        self.inventory = Inventory(self.db, **common)
        self.orders = Orders(self.db, payments=self.gateway, **common)
        self.carts = Carts(self.db, payments=self.gateway, orders=self.orders, **common)

    def stock(self, sku: str, qty: int, *, price: int = 500, currency: str = "EUR") -> str:
        """Add a product with a stock of `qty` units."""
        pricing = {"list": price, "retail": price, "savings": 0, "pct_savings": 0, "currency": currency}
        product = {"_id": sku, "type": "Film", "title": f"The {sku}", "details": {}, "pricing": pricing}
        self.db["commerce.products"].insert_one(product)
        if qty:
            self.inventory.receive(sku, qty)
        return sku

    def cart(self, **lines: int) -> str:
        """Create a cart with these quantities by SKU."""
        cart_id = self.carts.new()["_id"]
        for sku, qty in lines.items():
            self.carts.add_item(cart_id, sku, qty)
        return cart_id

    def level(self, sku: str) -> tuple[int, int, int]:
        """Return the available, carted and sold units, and assert that the counts are consistent."""
        stock = self.inventory.level(sku)
        reserved = sum(held["qty"] for held in self.db["commerce.reservations"].find({"_id.sku": sku}))
        assert stock["received"] + stock["adjusted"] == stock["qty"] + stock["carted"] + stock["sold"]
        assert stock["carted"] == reserved
        assert min(stock["qty"], stock["carted"], stock["sold"]) >= 0
        return stock["qty"], stock["carted"], stock["sold"]

    def lines(self, cart_id: str) -> dict[str, int]:
        """Return the cart's quantities by SKU."""
        return {line["sku"]: line["qty"] for line in self.carts.get(cart_id)["items"]}


@pytest.fixture
def shop(shop_db: Db) -> Shop:
    """A shop with short deadlines."""
    return Shop(shop_db)


@pytest.fixture
def real_data() -> Callable[[str], Path]:
    """Return a function that finds a file of real data, or skips the test with the reason."""

    def find(name: str) -> Path:
        root = Path(__file__).resolve().parents[3]
        given = os.environ.get("SQUINNEY_TEST_DATA")
        folders = [Path(given)] if given else [up / "shared" / "data" for up in (root.parent, root.parent.parent)]
        for folder in folders:
            if (folder / name).is_file():
                return folder / name
        pytest.skip(f"{name} is in none of {', '.join(map(str, folders))}; SQUINNEY_TEST_DATA names its folder")

    return find


def product(sku: str, **fields: Any) -> Document:
    """Return a valid film."""
    return {"_id": sku, "type": "Film", "title": f"Film {sku}", "pricing": PRICING, **fields}


@pytest.fixture
def catalog(shop_db: Db) -> Catalog:
    """An empty catalog."""
    return Catalog(shop_db)


def skus(page: paging.Page[Document]) -> list[str]:
    """Return the SKUs of a page."""
    return [found["_id"] for found in page.items]
