"""Tests that `find_problems` finds each kind of problem, and that `repair` repairs what it can."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.systems.commerce.conftest import Shop

from squinney.clock import utcnow
from squinney.commerce import COLLECTIONS, Catalog, Categories, PaymentUnsettled, find_problems, repair
from squinney.mongo.schema import Db, Document
from squinney.testing.server_commands import Commands
from squinney.transactions import CHECKS_FIELD

LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


_BUSY: dict[str, list[Document]] = {}  # made once: it takes longer than what is asked of it


@pytest.fixture
def busy(shop: Shop) -> Shop:
    """A shop with carts, payments and orders in every state, and without problems."""
    if _BUSY:
        for name, documents in _BUSY.items():
            shop.db[name].insert_many(documents)
        shop.db["commerce.payments"].update_one({"_id": "pending:1"}, {"$set": {"at": utcnow()}})
    else:
        _let_everything_happen(shop)
        found = {collection.name: list(shop.db[collection.name].find()) for collection in COLLECTIONS}
        _BUSY.update({name: documents for name, documents in found.items() if documents})
    assert list(find_problems(shop.db)) == []
    return shop


def _let_everything_happen(shop: Shop) -> None:
    shop.stock("film", 20)
    shop.stock("album", 10)
    Categories(shop.db).add_paths([["Music", "Jazz", "Bebop"], ["Music", "Rock"], ["Films"]])
    shop.db["commerce.carts"].insert_one({**shop.carts.new(), "_id": "active"})
    shop.carts.add_item("active", "film", 2)
    shop.carts.add_item("active", "album", 1)
    for cart_id in ("paid", "refunded", "pending"):
        shop.db["commerce.carts"].insert_one({**shop.carts.new(), "_id": cart_id})
        shop.carts.add_item(cart_id, "film", 3)
        if cart_id == "pending":
            shop.gateway.behaviour = "timeout"
        try:
            shop.carts.checkout(cart_id, key="k")
        except PaymentUnsettled:
            assert cart_id == "pending"
    shop.gateway.behaviour = "capture"
    shop.orders.cancel("refunded")
    shop.db["commerce.payments"].update_one({"_id": "pending:1"}, {"$set": {"at": utcnow()}})
    shop.inventory.adjust("film", -1, "lost")
    shop.db["commerce.orders"].insert_one({**shop.orders.place([{"sku": "x", "price": 5, "qty": 2}]), "_id": "plain"})


def change(collection: str, document_id: Any, update: dict[str, Any]) -> Callable[[Shop], Any]:
    """Return a function that damages a document directly in the database."""
    options = {"bypass_document_validation": True}
    return lambda shop: shop.db[collection].update_one({"_id": document_id}, update, **options)


def category(name: str, update: dict[str, Any]) -> Callable[[Shop], Any]:
    """Return a function that damages a category directly in the database."""
    return lambda shop: shop.db["commerce.categories"].update_one({"name": name}, update)


def make_cycle(shop: Shop) -> None:
    """Put Music below its own grandchild."""
    bebop = shop.db["commerce.categories"].find_one({"name": "Bebop"})
    assert bebop
    shop.db["commerce.categories"].update_one({"name": "Music"}, {"$set": {"parent": bebop["_id"]}})


def reserve(shop: Shop, cart_id: str) -> None:
    """Add a reservation that has no line in a cart."""
    held = {"_id": {"sku": "album", "cart": cart_id}, "qty": 1, "at": shop.clock()}
    shop.db["commerce.reservations"].insert_one(held)
    shop.db["commerce.stock"].update_one({"_id": "album"}, {"$inc": {"qty": -1, "carted": 1}})


def lose_order(shop: Shop, cart: dict[str, Any]) -> None:
    """Delete the order of a captured payment, and change its cart."""
    shop.db["commerce.orders"].delete_one({"_id": "paid"})
    shop.db["commerce.carts"].update_one({"_id": "paid"}, {"$set": cart})


def stall_refund(shop: Shop) -> None:
    """Leave a cancelled order whose refund the provider has not confirmed for a long time."""
    shop.db["commerce.orders"].update_one({"_id": "paid"}, {"$set": {"status": "cancelling"}})
    owed = {"state": "refunding", "refunding_at": LONG_AGO}
    shop.db["commerce.payments"].update_one({"_id": "paid:1"}, {"$set": owed})


SPOILED: list[tuple[str, bool, Callable[[Shop], Any]]] = [
    ("wrong-stock", True, change("commerce.stock", "film", {"$inc": {"qty": 1}})),
    ("wrong-stock", True, change("commerce.stock", "film", {"$inc": {"carted": 1, "qty": -1}})),
    ("wrong-stock", True, change("commerce.stock", "film", {"$inc": {"sold": -1, "qty": 1}})),
    ("wrong-stock", True, change("commerce.stock", "film", {"$inc": {"received": 5, "qty": 5}})),
    ("wrong-stock", True, change("commerce.stock", "film", {"$set": {"qty": -1}})),
    ("orphan-reservation", True, lambda shop: reserve(shop, "nobody")),
    ("sold-reservation", True, lambda shop: reserve(shop, "paid")),
    ("unlike-reservations", True, change("commerce.carts", "active", {"$set": {"items.0.qty": 1}})),
    (
        "unlike-reservations",
        True,
        change(
            "commerce.carts", "active", {"$push": {"items": {"sku": "ghost", "qty": 1, "price": 1, "title": "Ghost"}}}
        ),
    ),
    ("unlike-reservations", True, change("commerce.carts", "active", {"$set": {"items": []}})),
    ("unlike-reservations", False, change("commerce.carts", "pending", {"$set": {"items.0.qty": 1}})),
    ("pending-without-attempt", True, change("commerce.payments", "pending:1", {"$set": {"state": "cancelled"}})),
    ("paid-without-order", True, lambda shop: shop.db["commerce.orders"].delete_one({"_id": "paid"})),
    ("paid-without-order", False, lambda shop: lose_order(shop, {"status": "expired"})),
    ("paid-without-order", False, lambda shop: lose_order(shop, {"attempt": 2})),
    ("pending-without-attempt", False, change("commerce.payments", "pending:1", {"$set": {"state": "captured"}})),
    ("order-without-payment", False, change("commerce.payments", "paid:1", {"$set": {"state": "declined"}})),
    ("stalled-payment", False, change("commerce.payments", "pending:1", {"$set": {"at": LONG_AGO}})),
    ("stalled-refund", False, stall_refund),
    ("wrong-total", True, change("commerce.orders", "plain", {"$set": {"total": 11}})),
    ("wrong-total", False, change("commerce.orders", "paid", {"$set": {"total": 11}})),
    ("wrong-total", True, change("commerce.orders", "plain", {"$set": {"total": "eleven"}})),
    ("wrong-total", True, change("commerce.orders", "plain", {"$unset": {"total": 1}})),
    ("damaged-order", False, change("commerce.orders", "plain", {"$set": {"items": 3}})),
    ("damaged-order", False, change("commerce.orders", "plain", {"$set": {"items.0.price": "much"}})),
    ("damaged-order", False, change("commerce.orders", "paid", {"$unset": {"placed_at": 1}})),
    ("damaged-cart", True, change("commerce.carts", "active", {"$set": {"items": 3}})),
    ("damaged-cart", True, change("commerce.carts", "active", {"$set": {"items.0.price": None}})),
    ("damaged-cart", True, change("commerce.carts", "active", {"$push": {"items": "film"}})),
    ("damaged-cart", False, change("commerce.carts", "active", {"$unset": {"currency": 1}})),
    ("damaged-cart", False, change("commerce.carts", "pending", {"$set": {"items": 3}})),
    ("damaged-stock", True, change("commerce.stock", "film", {"$set": {"qty": "many"}})),
    ("damaged-stock", True, change("commerce.stock", "film", {"$unset": {"sold": 1, "carted": 1}})),
    ("wrong-ancestors", True, category("Bebop", {"$set": {"ancestors": []}})),
    ("wrong-ancestors", True, category("Bebop", {"$set": {"ancestors.0.name": "Jass"}})),
    ("orphan-category", True, category("Rock", {"$set": {"parent": "nobody"}})),
    ("category-cycle", True, make_cycle),
    ("wrong-position", True, category("Rock", {"$set": {"position": 7}})),
    ("unknown-category-id", True, change("commerce.products", "film", {"$set": {"category_ids": ["nowhere"]}})),
    (
        "outdated-products",
        True,
        change("commerce.products", "gone", {"$set": {"schema_version": 1, "title_lower": "é"}}),
    ),
]


@pytest.mark.parametrize(("code", "mended", "spoil"), SPOILED, ids=[f"{c}-{n}" for n, (c, _, _) in enumerate(SPOILED)])
def test_a_problem_is_found_and_repaired(busy: Shop, code: str, mended: bool, spoil: Callable[[Shop], Any]) -> None:
    Catalog(busy.db).add(
        {"_id": "gone", "type": "Film", "title": "g", "pricing": {"list": 1, "retail": 1, "currency": "EUR"}}
    )
    assert list(find_problems(busy.db)) == []
    spoil(busy)
    found = [problem for problem in find_problems(busy.db) if problem.code == code]
    assert found, [str(problem) for problem in find_problems(busy.db)]
    assert {problem.repairable for problem in found} == {mended}
    repair(busy.db)
    left = [str(problem) for problem in find_problems(busy.db)]
    assert (left == []) == mended, left
    assert not mended or repair(busy.db) == {}


def test_a_damaged_document_does_not_hide_other_problems(busy: Shop) -> None:
    for name in ("commerce.carts", "commerce.orders", "commerce.stock"):
        odd = {"_id": f"odd-{name}", "items": 3, "qty": "many", "status": "active"}
        busy.db[name].insert_one(odd, bypass_document_validation=True)
    for spoil in (
        change("commerce.stock", "film", {"$inc": {"qty": 1}}),
        change("commerce.orders", "plain", {"$set": {"total": 11}}),
        change("commerce.carts", "active", {"$set": {"items.0.qty": 1}}),
    ):
        spoil(busy)
    codes = sorted(problem.code for problem in find_problems(busy.db))
    damaged = ["damaged-cart", "damaged-order", "damaged-stock"]
    assert codes == [*damaged, "unlike-reservations", "wrong-stock", "wrong-total"]
    repair(busy.db)
    assert sorted(problem.code for problem in find_problems(busy.db)) == ["damaged-cart", "damaged-order"]


def test_repair_compares_documents_of_one_moment(counted: tuple[Db, Commands]) -> None:
    """While a shop is in use, documents that are read at different moments differ although nothing is wrong."""
    db, commands = counted
    repair(db)
    compared = {
        "commerce.stock",
        "commerce.reservations",
        "commerce.carts",
        "commerce.payments",
        "commerce.orders",
        "commerce.products",
    }
    checks = [command for name, command in commands.sent if name == "aggregate" and command["aggregate"] in compared]
    assert {check["aggregate"] for check in checks} == compared
    assert {check["readConcern"]["level"] for check in checks} == {"snapshot"}


def test_nothing_but_a_payment_has_the_count_of_checks(busy: Shop) -> None:
    """The other documents are returned as they are stored."""
    for collection in COLLECTIONS:
        if collection.name != "commerce.payments":
            assert busy.db[collection.name].count_documents({CHECKS_FIELD: {"$exists": True}}) == 0, collection.name
