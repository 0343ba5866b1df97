"""Concurrent operations of the shop: carts and orders of the same goods, products, and changes of one tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from squinney.commerce import Carts, Catalog, Categories, Inventory, Orders, TestGateway
from squinney.mongo.schema import Db
from tests.crash.shop import PRICING, age, levels, paired
from tests.explore.scene import Act, Scene


def _carts(db: Db) -> Carts:
    return Carts(db, payments=TestGateway(db))


def _orders(db: Db) -> Orders:
    return Orders(db, payments=TestGateway(db))


# ---- carts ----


def _shop(db: Db) -> dict[str, str]:
    """Add five units of a film: two in one cart, one in another cart."""
    Catalog(db).add({"_id": "film", "type": "Film", "title": "film", "pricing": PRICING})
    Inventory(db).receive("film", 5)
    mine, theirs = (_carts(db).new()["_id"] for _ in range(2))
    _carts(db).add_item(mine, "film", 2)
    _carts(db).add_item(theirs, "film", 1)
    return {"mine": mine, "theirs": theirs}


def _on_cart(change: Callable[[Carts, str], object], which: str = "mine") -> Act:
    return lambda db, state: change(_carts(db), state[which])


def _sold_is_paid(db: Db, state: Any) -> None:
    levels(db)
    paired(db)


CART_OPERATIONS: dict[str, Act] = {
    "add": _on_cart(lambda carts, cart: carts.add_item(cart, "film", 2)),
    "add by key": _on_cart(lambda carts, cart: carts.add_item(cart, "film", 1, key="k")),
    "add to theirs": _on_cart(lambda carts, cart: carts.add_item(cart, "film", 2), "theirs"),
    "set less": _on_cart(lambda carts, cart: carts.set_quantity(cart, "film", 1)),
    "set more": _on_cart(lambda carts, cart: carts.set_quantity(cart, "film", 4)),
    "remove": _on_cart(lambda carts, cart: carts.remove_item(cart, "film")),
    "abandon": _on_cart(lambda carts, cart: carts.abandon(cart)),
    "check out": _on_cart(lambda carts, cart: carts.checkout(cart, key="k")),
    "receive": lambda db, state: Inventory(db).receive("film", 2),
    "adjust": lambda db, state: Inventory(db).adjust("film", -2, "lost"),
}

# ---- products ----

FILM: dict[str, Any] = {"_id": "film", "type": "Film", "title": "film", "pricing": PRICING}
GONE = {**FILM, "_id": "gone"}


def stocked(db: Db) -> dict[str, str]:
    """Add two products with stock, and remove one of them; open a cart."""
    for product in (FILM, GONE):
        Catalog(db).add(product)
        Inventory(db).receive(product["_id"], 5)
    Catalog(db).remove("gone")
    return {"cart": _carts(db).new()["_id"]}


def on_catalog(change: Callable[[Catalog], object]) -> Act:
    return lambda db, state: change(Catalog(db))


PRODUCT_OPERATIONS: dict[str, Act] = {
    "add film": on_catalog(lambda catalog: catalog.add(FILM)),
    "add gone": on_catalog(lambda catalog: catalog.add(GONE)),
    "add gone by key": on_catalog(lambda catalog: catalog.add(GONE, key="k")),
    "remove film": on_catalog(lambda catalog: catalog.remove("film")),
    "patch": on_catalog(lambda catalog: catalog.patch("film", {"title": "new"})),
    "receive film": lambda db, state: Inventory(db).receive("film", 2),
    "reserve film": lambda db, state: _carts(db).add_item(state["cart"], "film", 2),
}


def _products_are_sellable(db: Db, state: Any) -> None:
    """Assert that each product that exists can be reserved, and that no other product is."""
    for sku in ("film", "gone"):
        if Catalog(db).get_many([sku]):
            _carts(db).add_item(state["cart"], sku)
        else:
            assert levels(db, sku)[1] == 0


# ---- orders ----


def _paid(db: Db) -> dict[str, str]:
    state = _shop(db)
    _carts(db).checkout(state["mine"], key="k")
    lines = [{"sku": "x", "price": 3, "qty": 2}, {"sku": "y", "price": 10, "qty": 1}]
    return {**state, "unpaid": _orders(db).place(lines)["_id"]}


def _on_order(change: Callable[[Orders, str], object], which: str = "unpaid") -> Act:
    return lambda db, state: change(_orders(db), state[which])


def _totals_are_sums(db: Db, state: Any) -> None:
    levels(db)
    charged = {charge["_id"] for charge in db["commerce.test_charges"].find({"state": "captured"})}
    placed = db["commerce.orders"].find({"status": "placed", "payment_id": {"$exists": True}})
    assert charged == {order["payment_id"] for order in placed}
    for order in db["commerce.orders"].find():
        assert order["total"] == sum(line["price"] * line["qty"] for line in order["items"])


ORDER_OPERATIONS: dict[str, Act] = {
    "cancel paid": _on_order(lambda orders, order: orders.cancel(order), "mine"),
    "theirs add": CART_OPERATIONS["add to theirs"],
    "increase": _on_order(lambda orders, order: orders.add_or_increase(order, "x", 3, 3)),
    "increase by key": _on_order(lambda orders, order: orders.add_or_increase(order, "x", 3, 1, key="k")),
    "set quantity": _on_order(lambda orders, order: orders.set_quantity(order, "x", 5)),
    "remove line": _on_order(lambda orders, order: orders.remove_item(order, "y")),
    "cancel unpaid": _on_order(lambda orders, order: orders.cancel(order)),
    "delete": _on_order(lambda orders, order: orders.delete(order)),
}

# ---- categories ----


def _tree(db: Db) -> None:
    Categories(db).add_paths([["a", "b", "c"], ["a", "b", "d"], ["e"]])


def _on_tree(change: Callable[[Categories], object]) -> Act:
    return lambda db, state: change(Categories(db))


TREE_OPERATIONS: dict[str, Act] = {
    "add": _on_tree(lambda tree: tree.add("new", parent="b")),
    "add paths": _on_tree(lambda tree: tree.add_paths([["a", "b", "new"], ["a", "z"]])),
    "move": _on_tree(lambda tree: tree.move("b", "e", 0)),
    "move under": _on_tree(lambda tree: tree.move("e", "b", 0)),
    "rename": _on_tree(lambda tree: tree.rename("b", "B")),
    "change slug": _on_tree(lambda tree: tree.change_slug("b", "bb")),
    "lift": _on_tree(lambda tree: tree.remove("b", children="lift")),
    "cascade": _on_tree(lambda tree: tree.remove("b", children="cascade")),
}

SCENES = [
    Scene("carts", "commerce", _shop, CART_OPERATIONS, composed=["check out"], check=_sold_is_paid, age=age),
    Scene("products", "commerce", stocked, PRODUCT_OPERATIONS, check=_products_are_sellable),
    Scene("orders", "commerce", _paid, ORDER_OPERATIONS, composed=["cancel paid"], check=_totals_are_sums, age=age),
    Scene("categories", "commerce", _tree, TREE_OPERATIONS),
]
