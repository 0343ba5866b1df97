"""The shop's year: 250 orders of the town's people, their payments, and the stock that is left."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta

from squinney.commerce import Categories
from squinney.mongo.schema import Document
from squinney.service.town.parts import Town, insert
from squinney.service.town.people import people
from squinney.service.town.products import PATHS, Product, document_of, id_from, picture_of, products, slug_of

ORDERS = 250
UNPAID, REFUNDED = 9, 15  # of the cancelled orders, those that were never paid and those that were
FIRST_DELIVERY, SECOND_DELIVERY = 364, 190  # days ago
MAX_DAYS = 350
# What is left of records that the docs and the tests buy.
LEFT = {"lp-blue-tuesday": 12, "lp-burrow-bop": 1, "lp-prairie-fire": 20, "film-seeds-of-doubt": 0}


@dataclass(frozen=True)
class TownOrder:
    """An order of one of the people. `kind` is `placed`, `unpaid` (cancelled before it was paid) or `refunded`."""

    id: str
    user: str
    at: datetime
    lines: list[tuple[Product, int]]
    kind: str

    @property
    def total(self) -> int:
        """What it costs."""
        return sum(product.retail * qty for product, qty in self.lines)

    @property
    def memo(self) -> str:
        """The order in a few words, for a statement."""
        more = f" and {len(self.lines) - 1} more" if len(self.lines) > 1 else ""
        return f"order {self.id[:8]}: {self.lines[0][0].title}{more}"

    @property
    def by_card(self) -> bool:
        """Whether it was paid with a card of the test gateway, and not from the customer's account."""
        return int(self.id[:2], 16) % 5 == 0

    @property
    def path(self) -> str:
        """The path of its page."""
        return f"/shop/orders/{self.id}"

    @property
    def ended(self) -> datetime:
        """When a cancelled order was cancelled."""
        return self.at + timedelta(hours=20)


def sales(now: datetime) -> list[TownOrder]:
    """Return the year's orders, oldest first. They are the same each time, apart from their dates."""
    rng = random.Random("orders")
    catalogue, customers = products(), list(people())
    popularity = [1 / (1 + place) ** 0.4 for place in rng.sample(range(len(catalogue)), len(catalogue))]
    # More towards the end of the year, and none in the last hour.
    days = sorted((MAX_DAYS * rng.random() ** 1.35 + 0.05 for _ in range(ORDERS)), reverse=True)
    kinds = ["unpaid"] * UNPAID + ["refunded"] * REFUNDED + ["placed"] * (ORDERS - UNPAID - REFUNDED)
    rng.shuffle(kinds)
    sales = []
    for number, (ago, kind) in enumerate(zip(days, kinds, strict=True)):
        chosen = dict.fromkeys(rng.choices(range(len(catalogue)), popularity, k=rng.choice([1, 1, 1, 2, 2, 3])))
        lines = [(catalogue[index], rng.choice([1, 1, 1, 1, 2])) for index in chosen]
        kind = "placed" if ago < 1 else kind
        sales.append(TownOrder(id_from("order", number), rng.choice(customers), now - timedelta(days=ago), lines, kind))
    return sales


def load(town: Town) -> None:
    """Load categories, products with their covers, and the year's orders with payments and stock.

    Atomic: the categories one by one, the rest in one transaction.
    After a crash: only categories can remain, and the next call continues.
    """
    categories = Categories(town.db)
    categories.add_paths(PATHS)
    ids = {genre: categories.get(slug_of(genre))["_id"] for _, genre in PATHS}
    made = sales(town.now)
    catalogue = products()
    insert(
        town.db,
        "town: shop",
        {
            "commerce.products": [document_of(product, ids[product.genre]) for product in catalogue],
            "commerce.pictures": [
                picture_of(product, n, town.ago(FIRST_DELIVERY)) for n, product in enumerate(catalogue)
            ],
            "commerce.orders": [_order(sale) for sale in made],
            "commerce.payments": [_payment(sale) for sale in made if sale.kind != "unpaid"],
            "commerce.test_charges": [_charge(sale) for sale in made if sale.kind != "unpaid" and sale.by_card],
            **_stock(town, catalogue, made),
        },
    )


def _lines(sale: TownOrder) -> list[Document]:
    return [
        {"sku": product.sku, "title": product.title, "price": product.retail, "qty": qty} for product, qty in sale.lines
    ]


def _order(sale: TownOrder) -> Document:
    order: Document = {
        "_id": sale.id,
        "customer": people()[sale.user].id,
        "items": _lines(sale),
        "total": sale.total,
        "currency": "EUR",
        "status": "placed" if sale.kind == "placed" else "cancelled",
        "placed_at": sale.at,
        "version": 1 if sale.kind == "placed" else 2,
    }
    return order if sale.kind == "unpaid" else {**order, "payment_id": f"{sale.id}:1"}


def _payment(sale: TownOrder) -> Document:
    refunded = sale.kind == "refunded"
    payment: Document = {
        "_id": f"{sale.id}:1",
        "cart_id": sale.id,
        "attempt": 1,
        "amount": sale.total,
        "currency": "EUR",
        "items": [{**line, "details": {}} for line in _lines(sale)],
        "state": "refunded" if refunded else "captured",
        "at": sale.at,
        "customer": people()[sale.user].id,
    }
    if refunded:
        payment |= {"refunding_at": sale.ended, "refunded_at": sale.ended}
    if sale.by_card:
        return {**payment, "intent": f"test-{sale.id}:1"}
    transfers = [transfer_of(sale.id), *([transfer_of(sale.id, "refund")] if refunded else [])]
    return {**payment, "paid_from": account_of(sale.user), "transfers": transfers}


def account_of(name: str) -> str:
    """Return the id of the account of a person or business, by short name."""
    return id_from("account", name)


def transfer_of(order_id: str, what: str = "payment") -> str:
    """Return the id of the transfer that pays or refunds an order."""
    return id_from("transfer", what, order_id)


def _charge(sale: TownOrder) -> Document:
    state = "refunded" if sale.kind == "refunded" else "captured"
    return {"_id": f"{sale.id}:1", "state": state, "amount": sale.total}


def _stock(town: Town, catalogue: list[Product], made: list[TownOrder]) -> dict[str, list[Document]]:
    """Return stock and movements: two deliveries, each sale, and what came back."""
    rng = random.Random("stock")
    sold: Counter[str] = Counter()
    early: Counter[str] = Counter()
    movements: list[Document] = []
    for sale in made:
        for product, qty in sale.lines if sale.kind != "unpaid" else []:
            movements.append(_movement(product, "sold", -qty, sale.id, sale.at))
            if sale.kind == "refunded":
                movements.append(_movement(product, "restocked", qty, sale.id, sale.ended))
                continue
            sold[product.sku] += qty
            early[product.sku] += qty if sale.at < town.ago(SECOND_DELIVERY) else 0
    stock = []
    for product in catalogue:
        left = LEFT.get(product.sku, rng.choice([0, 1, 2, 3, 5, 8, 8, 12, 20]))
        received = max(1, sold[product.sku] + left)
        first = min(received, early[product.sku] + 4)
        movements.append(_movement(product, "received", first, "first delivery", town.ago(FIRST_DELIVERY)))
        if later := received - first:
            movements.append(_movement(product, "received", later, "second delivery", town.ago(SECOND_DELIVERY)))
        gone = sold[product.sku]
        counts = {"received": received, "adjusted": 0, "qty": received - gone, "carted": 0, "sold": gone}
        stock.append({"_id": product.sku, **counts})
    return {"commerce.stock": stock, "commerce.movements": movements}


def _movement(product: Product, kind: str, qty: int, reason: str, at: datetime) -> Document:
    movement_id = id_from("movement", product.sku, kind, reason)
    return {"_id": movement_id, "sku": product.sku, "kind": kind, "qty": qty, "reason": reason, "at": at}
