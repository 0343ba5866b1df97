"""Crash cases of orders, and of operations of the shop with one write."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from squinney.commerce import Catalog, OrderFixed, Orders, UnknownOrder
from squinney.mongo.schema import Db
from squinney.testing import Case
from squinney.transactions import Stale
from tests.crash.shop import PRICING, age, carts, levels, orders, paid

LINES = [{"sku": "x", "price": 3, "qty": 2}, {"sku": "y", "price": 10, "qty": 1}]


def _place(db: Db, state: Any) -> None:
    orders(db).place([{"sku": "x", "price": 3, "qty": 2}], key="k")


def _placed_once(db: Db, state: Any) -> None:
    for _ in range(2):
        _place(db, state)
    assert [order["total"] for order in orders(db).all().items] == [6]


def _cancel(db: Db, cart_id: str) -> None:
    orders(db).cancel(cart_id)


def _cancelled_or_not(db: Db, cart_id: str) -> None:
    status = orders(db).get(cart_id)["status"]
    charge = db["commerce.test_charges"].find_one()
    assert charge
    assert (status, charge["state"], levels(db)) in [
        ("placed", "captured", (8, 0, 2)),
        ("cancelled", "refunded", (10, 0, 0)),
    ]


def _paid(db: Db) -> Any:
    return db["commerce.payments"].find_one({"cart_id": paid(db)})


def _refunded_at_provider(db: Db) -> Any:
    payment = _paid(db)
    db["commerce.test_charges"].update_one({}, {"$set": {"state": "refunded"}})
    return payment


def _record_refund(db: Db, payment: Any) -> None:
    orders(db).record_refund(payment)


def _given_back_or_not(db: Db, payment: Any) -> None:
    order = orders(db).get(payment["cart_id"])
    assert (order["status"], levels(db)) in [("placed", (8, 0, 2)), ("cancelled", (10, 0, 0))]


def _placed(db: Db) -> str:
    return orders(db).place(LINES)["_id"]


def _edited(name: str, edit: Callable[[Orders, str], object], *allowed: int) -> Case:
    """Return a case that edits an unpaid order: its total must be the sum of its lines, and one of `allowed`."""

    def act(db: Db, order_id: str) -> None:
        edit(orders(db), order_id)

    def check(db: Db, order_id: str) -> None:
        order = orders(db).get(order_id)
        assert order["total"] == sum(line["price"] * line["qty"] for line in order["items"])
        assert order["total"] in allowed

    return Case(f"Orders.{name}", "commerce", _placed, act, check)


def _add_with_key(db: Db, order_id: str) -> None:
    orders(db).add_or_increase(order_id, "x", 99, 3, key="k")


def _added_once(db: Db, order_id: str) -> None:
    _add_with_key(db, order_id)
    assert orders(db).get(order_id)["total"] == 25


def _deleted_or_not(db: Db, order_id: str) -> None:
    with suppress(UnknownOrder):
        orders(db).delete(order_id)
    assert orders(db).all().items == []


def _cancel_unpaid(db: Db, order_id: str) -> None:
    with suppress(OrderFixed):
        orders(db).set_quantity(order_id, "x", 5)
        assert orders(db).get(order_id)["status"] == "placed"
        return
    assert orders(db).get(order_id)["status"] == "cancelled"


def _lost(db: Db) -> str:
    """Prepare a complete cart whose order was deleted directly in the database."""
    cart_id = paid(db)
    db["commerce.orders"].delete_one({"_id": cart_id})
    return cart_id


def _ask_again(db: Db) -> None:
    """Create missing orders: no job does that, so callers repeat `from_cart`."""
    for cart in db["commerce.carts"].find({"status": "complete"}):
        orders(db).from_cart(cart["_id"])


def _made_once(db: Db, cart_id: str) -> None:
    assert orders(db).from_cart(cart_id)["total"] == 1_500
    assert levels(db) == (8, 0, 2)


def _new_cart(db: Db, state: Any) -> None:
    carts(db).new()


def _new_carts(db: Db, state: Any) -> None:
    for cart in db["commerce.carts"].find():
        assert (cart["status"], cart["items"]) == ("active", [])
    assert db["commerce.carts"].count_documents({}) <= 1


def _product(db: Db) -> None:
    Catalog(db).add({"_id": "p", "type": "Film", "title": "old", "pricing": PRICING})


def _changed(db: Db, state: Any) -> None:
    with suppress(Stale):
        Catalog(db).patch("p", {"title": "new"}, expected_version=1)
    found = Catalog(db).get("p")
    assert (found["title"], found["title_lower"], found["version"]) == ("new", "new", 2)


def _replace(db: Db, state: Any) -> None:
    product = {"type": "Film", "title": "new", "pricing": PRICING}
    Catalog(db).replace("p", product, expected_version=1)


CASES = [
    Case("Orders.place", "commerce", lambda db: None, _place, _placed_once),
    Case("Orders.cancel", "commerce", paid, _cancel, _cancelled_or_not, age=age),
    Case("Orders.cancel unpaid", "commerce", _placed, _cancel, _cancel_unpaid),
    _edited("add_or_increase", lambda o, order_id: o.add_or_increase(order_id, "x", 99, 3), 16, 25),
    _edited("add_or_increase new line", lambda o, order_id: o.add_or_increase(order_id, "z", 100, 1), 16, 116),
    Case(
        "Orders.add_or_increase with a key",
        "commerce",
        _placed,
        _add_with_key,
        _added_once,
        covers=["transactions.once"],
    ),
    Case("Orders.record_refund", "commerce", _refunded_at_provider, _record_refund, _given_back_or_not, age=age),
    _edited("set_quantity", lambda o, order_id: o.set_quantity(order_id, "x", 5), 16, 25),
    _edited("remove_item", lambda o, order_id: o.remove_item(order_id, "y"), 16, 6),
    Case("Orders.delete", "commerce", _placed, lambda db, order_id: orders(db).delete(order_id), _deleted_or_not),
    Case(
        "Orders.from_cart",
        "commerce",
        _lost,
        lambda db, cart_id: orders(db).from_cart(cart_id),
        _made_once,
        age=_ask_again,
    ),
    Case(
        "Carts.new",
        "commerce",
        lambda db: None,
        lambda db, _: carts(db).new(),
        _new_carts,
    ),
    Case(
        "Catalog.patch",
        "commerce",
        _product,
        lambda db, _: Catalog(db).patch("p", {"title": "new"}),
        _changed,
    ),
    Case("Catalog.replace", "commerce", _product, _replace, _changed),
]
