"""The shop under the sweep."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from squinney.clock import utcnow
from squinney.commerce import (
    CartClosed,
    Carts,
    Catalog,
    Categories,
    InadequateInventory,
    Inventory,
    Orders,
    PaymentDeclined,
    PaymentUnsettled,
    TestGateway,
    UnknownCategory,
    UnknownProduct,
)
from squinney.commerce.demo import demo
from squinney.commerce.payments import Behaviour
from squinney.mongo.schema import Db
from squinney.patterns.transactions import Mode
from tests.crash.case import Case, transactions

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
PRICING = {"list": 500, "retail": 500, "currency": "EUR"}


def _carts(db: Db, mode: Mode = "auto", behaviour: Behaviour = "capture") -> Carts:
    return Carts(db, payments=TestGateway(db, behaviour), transactions=transactions(db, mode))


def _orders(db: Db, mode: Mode = "auto") -> Orders:
    return Orders(db, payments=TestGateway(db), transactions=transactions(db, mode))


def _inventory(db: Db, mode: Mode = "auto") -> Inventory:
    return Inventory(db, transactions=transactions(db, mode))


def _shop(db: Db) -> str:
    """Two products, and a cart with some of both."""
    for sku in ("film", "album"):
        Catalog(db).add({"_id": sku, "type": "Film", "title": sku, "pricing": PRICING})
        _inventory(db).receive(sku, 10)
    cart_id = _carts(db).new()["_id"]
    _carts(db).add_item(cart_id, "film", 2)
    _carts(db).add_item(cart_id, "album", 1)
    return cart_id


def _levels(db: Db, sku: str = "film") -> tuple[int, int, int]:
    stock = _inventory(db).level(sku)
    assert stock["received"] + stock["adjusted"] == stock["qty"] + stock["carted"] + stock["sold"]
    return stock["qty"], stock["carted"], stock["sold"]


def _lines(db: Db, cart_id: str) -> dict[str, int]:
    return {line["sku"]: line["qty"] for line in _carts(db).get(cart_id)["items"]}


def _age(db: Db) -> None:
    """Let every stalled payment be old enough to be settled."""
    db["payments"].update_many({}, {"$set": {"at": LONG_AGO}})


def _paired(db: Db) -> None:
    """Each charge at the provider has exactly one order, and the other way round."""
    charged = Counter(charge["_id"] for charge in db["test_charges"].find({"state": "captured"}))
    ordered = Counter(order["payment_id"] for order in db["orders"].find({"status": "placed"}))
    assert charged == ordered


# ---- lines ----


def _changed(change: Callable[[Carts, str], object], *allowed: int) -> dict[str, Any]:
    """A change of the cart's film line, which afterwards says one of `allowed`."""

    def act(db: Db, mode: Mode, cart_id: str) -> None:
        change(_carts(db, mode), cart_id)

    def check(db: Db, cart_id: str) -> None:
        held = _lines(db, cart_id).get("film", 0)
        assert held in allowed
        assert _levels(db) == (10 - held, held, 0)

    return {"prepare": _shop, "act": act, "check": check}


def _repeat_adds_once(db: Db, cart_id: str) -> None:
    for mode in ("native", "two-phase"):
        _carts(db, mode).add_item(cart_id, "film", 3, key="k")
    assert (_lines(db, cart_id)["film"], _levels(db)) == (5, (5, 5, 0))


def _short(db: Db, mode: Mode, cart_id: str) -> None:
    with suppress(InadequateInventory):
        _carts(db, mode).add_item(cart_id, "film", 9)
        raise AssertionError("it was not refused")


def _untouched(db: Db, cart_id: str) -> None:
    assert (_lines(db, cart_id), _levels(db)) == ({"film": 2, "album": 1}, (8, 2, 0))


# ---- checkout ----


def _check_out(behaviour: Behaviour) -> Callable[[Db, Mode, str], None]:
    def act(db: Db, mode: Mode, cart_id: str) -> None:
        with suppress(PaymentDeclined, PaymentUnsettled):
            _carts(db, mode, behaviour).checkout(cart_id, key="k")

    return act


def _settled(db: Db, cart_id: str) -> None:
    """Paid with an order, or open again with its goods; never in between."""
    _paired(db)
    status = _carts(db).get(cart_id)["status"]
    assert (status, _levels(db)) in [("complete", (8, 0, 2)), ("active", (8, 2, 0))]
    _carts(db).checkout(cart_id, key="k")
    _paired(db)
    assert db["test_charges"].count_documents({"state": "captured"}) == 1
    assert _levels(db) == (8, 0, 2)


def _stalled(behaviour: Behaviour) -> Callable[[Db], str]:
    def prepare(db: Db) -> str:
        cart_id = _shop(db)
        with suppress(PaymentUnsettled):
            _carts(db, behaviour=behaviour).checkout(cart_id, key="k")
        return cart_id

    return prepare


def _settle_all(db: Db, mode: Mode, cart_id: str) -> None:
    _carts(db, mode).settle_payments(0)


def _settle_one(db: Db, mode: Mode, cart_id: str) -> None:
    _carts(db, mode).settle(f"{cart_id}:1")


def _captured_late(db: Db) -> str:
    """The provider captured what we took for cancelled, the cart is gone, and somebody else has the goods."""
    cart_id = _stalled("timeout")(db)
    _carts(db).settle_payments(0)
    _carts(db).abandon(cart_id)
    other = _carts(db).new()["_id"]
    _carts(db).add_item(other, "film", 9)
    db["test_charges"].update_one({"_id": f"{cart_id}:1"}, {"$set": {"state": "captured"}})
    return cart_id


def _refunded(db: Db, cart_id: str) -> None:
    _settle_one(db, "native", cart_id)
    assert [charge["state"] for charge in db["test_charges"].find()] == ["refunded"]
    assert db["orders"].count_documents({}) == 0
    assert _levels(db) == (1, 9, 0)


# ---- carts that end ----


def _idle(db: Db) -> str:
    cart_id = _shop(db)
    db["carts"].update_many({}, {"$set": {"last_modified": utcnow() - timedelta(hours=1)}})
    return cart_id


def _expire(db: Db, mode: Mode, cart_id: str) -> None:
    _carts(db, mode).expire_carts(60)


def _abandon(db: Db, mode: Mode, cart_id: str) -> None:
    _carts(db, mode).abandon(cart_id)


def _given_back_or_not(db: Db, cart_id: str) -> None:
    with suppress(CartClosed):
        _carts(db).abandon(cart_id)
    assert (_carts(db).get(cart_id)["status"], _levels(db)) == ("expired", (10, 0, 0))


def _orphaned(db: Db) -> str:
    cart_id = _shop(db)
    db["carts"].delete_many({})
    db["reservations"].update_many({}, {"$set": {"at": LONG_AGO}})
    return cart_id


def _return_orphans(db: Db, mode: Mode, cart_id: str) -> None:
    _carts(db, mode).return_orphans(60)


def _all_back(db: Db, cart_id: str) -> None:
    assert (_levels(db), _levels(db, "album")) == ((10, 0, 0), (10, 0, 0))


# ---- stock, orders, products ----


def _receive(db: Db, mode: Mode, state: Any) -> None:
    _inventory(db, mode).receive("film", 5, key="k")


def _received_once(db: Db, state: Any) -> None:
    for mode in ("native", "two-phase"):
        _receive(db, mode, state)
    assert _levels(db)[0] == (5 if state is None else 13)


def _adjust(db: Db, mode: Mode, state: Any) -> None:
    _inventory(db, mode).adjust("film", -3, "lost", key="k")


def _adjusted_once(db: Db, state: Any) -> None:
    _adjust(db, "native", state)
    assert _levels(db) == (5, 2, 0)


def _place(db: Db, mode: Mode, state: Any) -> None:
    _orders(db, mode).place([{"sku": "x", "price": 3, "qty": 2}], key="k")


def _placed_once(db: Db, state: Any) -> None:
    for mode in ("native", "two-phase"):
        _place(db, mode, state)
    assert [order["total"] for order in _orders(db).all().items] == [6]


def _paid(db: Db) -> str:
    cart_id = _shop(db)
    _carts(db).checkout(cart_id, key="k")
    return cart_id


def _cancel(db: Db, mode: Mode, cart_id: str) -> None:
    _orders(db, mode).cancel(cart_id)


def _cancelled_or_not(db: Db, cart_id: str) -> None:
    status = _orders(db).get(cart_id)["status"]
    charge = db["test_charges"].find_one()
    assert charge
    assert (status, charge["state"], _levels(db)) in [
        ("placed", "captured", (8, 0, 2)),
        ("cancelled", "refunded", (10, 0, 0)),
    ]


def _add_product(db: Db, mode: Mode, state: Any) -> None:
    Catalog(db).add({"_id": "new", "type": "Film", "title": "new", "pricing": PRICING})


def _added_or_not(db: Db, state: Any) -> None:
    assert len(Catalog(db).get_many(["new"])) in (0, 1)


def _remove_product(db: Db, mode: Mode, cart_id: str) -> None:
    Catalog(db, transactions=transactions(db, mode)).remove("film")


def _abandoned(db: Db) -> str:
    cart_id = _shop(db)
    _carts(db).abandon(cart_id)
    return cart_id


def _removed_or_not(db: Db, cart_id: str) -> None:
    removed = bool(_inventory(db).level("film").get("removed_at"))
    try:
        Catalog(db).get("film")
        assert not removed
    except UnknownProduct:
        assert removed


def _import(db: Db, mode: Mode, state: Any) -> None:
    lines = [json.dumps({"_id": f"p{n}", "type": "Film", "title": "p", "pricing": PRICING}) for n in range(1_500)]
    Catalog(db).import_products(lines, existing="skip")


def _import_goes_on(db: Db, state: Any) -> None:
    _import(db, "native", state)
    assert db["products"].count_documents({}) == 1_500


def _demo(db: Db, mode: Mode, state: Any) -> None:
    demo(db)


def _demo_goes_on(db: Db, state: Any) -> None:
    demo(db)
    assert db["products"].count_documents({}) == 7
    assert db["categories"].count_documents({}) == 8
    assert _inventory(db).level("album-0")["qty"] == 12


# ---- categories ----


def _tree(db: Db) -> None:
    Categories(db).add_paths([["a", "b", "c"], ["a", "b", "d"], ["e"]])


def _on_tree(name: str, change: Callable[[Categories], object], covers: tuple[str, ...] = ()) -> Case:
    def act(db: Db, mode: Mode, state: Any) -> None:
        with suppress(UnknownCategory):
            change(Categories(db))

    def check(db: Db, state: Any) -> None:
        """`find_problems` looks at the rest: here, that the tree takes the change afterwards."""
        with suppress(UnknownCategory):
            change(Categories(db))

    return Case(f"Categories.{name}", "commerce", _tree, act, check, modes=["native"], covers=covers)


TREE_CASES = [
    _on_tree("add", lambda c: c.add("new", parent="b")),
    _on_tree("move", lambda c: c.move("b", "e", 0)),
    _on_tree("rename", lambda c: c.rename("b", "B")),
    _on_tree("change_slug", lambda c: c.change_slug("b", "bb")),
    _on_tree("remove lift", lambda c: c.remove("b", children="lift"), covers=("Categories.remove",)),
    _on_tree("remove cascade", lambda c: c.remove("b", children="cascade")),
    _on_tree("add_paths", lambda c: c.add_paths([["x", "y"], ["a", "z"]])),
]

CASES = [
    Case(
        "Carts.add_item",
        "commerce",
        _shop,
        lambda db, mode, cart_id: _carts(db, mode).add_item(cart_id, "film", 3, key="k"),
        _repeat_adds_once,
    ),
    Case(
        "Carts.add_item new line",
        "commerce",
        lambda db: (_shop(db), _carts(db).new()["_id"])[1],
        lambda db, mode, cart_id: _carts(db, mode).add_item(cart_id, "film", 1),
        lambda db, cart_id: _levels(db),
    ),
    Case("Carts.add_item refused", "commerce", _shop, _short, _untouched),
    Case("Carts.set_quantity", "commerce", **_changed(lambda c, cart: c.set_quantity(cart, "film", 6), 2, 6)),
    Case("Carts.set_quantity less", "commerce", **_changed(lambda c, cart: c.set_quantity(cart, "film", 1), 2, 1)),
    Case("Carts.remove_item", "commerce", **_changed(lambda c, cart: c.remove_item(cart, "film"), 2, 0)),
    Case(
        "Carts.checkout", "commerce", _shop, _check_out("capture"), _settled, age=_age, covers=["TestGateway.capture"]
    ),
    Case("Carts.checkout declined", "commerce", _shop, _check_out("decline"), _settled, age=_age),
    Case("Carts.checkout timeout", "commerce", _shop, _check_out("timeout"), _settled, age=_age),
    Case("Carts.checkout unanswered", "commerce", _shop, _check_out("capture-then-timeout"), _settled, age=_age),
    Case(
        "Carts.settle_payments",
        "commerce",
        _stalled("timeout"),
        _settle_all,
        _settled,
        age=_age,
        covers=["job:settle-payments"],
    ),
    Case(
        "Carts.settle_payments captured", "commerce", _stalled("capture-then-timeout"), _settle_all, _settled, age=_age
    ),
    Case("Carts.settle", "commerce", _captured_late, _settle_one, _refunded, age=_age, covers=["Orders.refund"]),
    Case("Carts.expire_carts", "commerce", _idle, _expire, _given_back_or_not, covers=["job:expire-carts"]),
    Case("Carts.abandon", "commerce", _shop, _abandon, _given_back_or_not),
    Case("Carts.return_orphans", "commerce", _orphaned, _return_orphans, _all_back, covers=["job:return-orphans"]),
    Case("Inventory.receive", "commerce", _shop, _receive, _received_once),
    Case("Inventory.receive first", "commerce", lambda db: None, _receive, _received_once),
    Case("Inventory.adjust", "commerce", _shop, _adjust, _adjusted_once),
    Case("Orders.place", "commerce", lambda db: None, _place, _placed_once),
    Case("Orders.cancel", "commerce", _paid, _cancel, _cancelled_or_not, age=_age),
    Case("Catalog.add", "commerce", lambda db: None, _add_product, _added_or_not, modes=["native"]),
    Case("Catalog.remove", "commerce", _abandoned, _remove_product, _removed_or_not),
    Case("Catalog.import_products", "commerce", lambda db: None, _import, _import_goes_on, modes=["native"]),
    Case("commerce demo", "commerce", lambda db: None, _demo, _demo_goes_on, modes=["native"]),
    *TREE_CASES,
]
