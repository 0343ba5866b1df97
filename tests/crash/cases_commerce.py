"""Crash cases of carts, stock, products and categories."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

from PIL import Image

from squinney.clock import utcnow
from squinney.commerce import (
    CartClosed,
    Carts,
    Catalog,
    Categories,
    InadequateInventory,
    PaymentDeclined,
    PaymentUnsettled,
    Pictures,
    UnknownCategory,
    UnknownProduct,
)
from squinney.commerce.demo import demo
from squinney.commerce.payments.test_gateway import Behaviour
from squinney.mongo.schema import Db
from squinney.testing import Case
from tests.crash.shop import LONG_AGO, PRICING, age, carts, inventory, levels, lines, paired, shop

# ---- lines ----


def _changed(change: Callable[[Carts, str], object], *allowed: int) -> dict[str, Any]:
    """Return a case that changes the cart's line of films; its quantity must then be one of `allowed`."""

    def act(db: Db, cart_id: str) -> None:
        change(carts(db), cart_id)

    def check(db: Db, cart_id: str) -> None:
        held = lines(db, cart_id).get("film", 0)
        assert held in allowed
        assert levels(db) == (10 - held, held, 0)

    return {"prepare": shop, "act": act, "check": check}


def _repeat_adds_once(db: Db, cart_id: str) -> None:
    for _ in range(2):
        carts(db).add_item(cart_id, "film", 3, key="k")
    assert (lines(db, cart_id)["film"], levels(db)) == (5, (5, 5, 0))


def _repeat_gives_the_cart(db: Db, _: object) -> None:
    made = [carts(db).new(customer="ada", key="k")["_id"] for _ in range(2)]
    assert [cart["_id"] for cart in db["commerce.carts"].find({"customer": "ada"})] == [made[0]] == [made[1]]


def _short(db: Db, cart_id: str) -> None:
    with suppress(InadequateInventory):
        carts(db).add_item(cart_id, "film", 9)
        raise AssertionError("it was not refused")


def _untouched(db: Db, cart_id: str) -> None:
    assert (lines(db, cart_id), levels(db)) == ({"film": 2, "album": 1}, (8, 2, 0))


# ---- checkout ----


def _check_out(behaviour: Behaviour) -> Callable[[Db, str], None]:
    def act(db: Db, cart_id: str) -> None:
        with suppress(PaymentDeclined, PaymentUnsettled):
            carts(db, behaviour).checkout(cart_id, key="k")

    return act


def _settled(db: Db, cart_id: str) -> None:
    """Assert that the cart is paid and has an order, or is active and has its goods."""
    paired(db)
    status = carts(db).get(cart_id)["status"]
    assert (status, levels(db)) in [("complete", (8, 0, 2)), ("active", (8, 2, 0))]
    carts(db).checkout(cart_id, key="k")
    paired(db)
    assert db["commerce.test_charges"].count_documents({"state": "captured"}) == 1
    assert levels(db) == (8, 0, 2)


def _stalled(behaviour: Behaviour) -> Callable[[Db], str]:
    def prepare(db: Db) -> str:
        cart_id = shop(db)
        with suppress(PaymentUnsettled):
            carts(db, behaviour=behaviour).checkout(cart_id, key="k")
        return cart_id

    return prepare


def _settle_all(db: Db, cart_id: str) -> None:
    carts(db).settle_payments(0)


def _settle_one(db: Db, cart_id: str) -> None:
    carts(db).settle(f"{cart_id}:1")


def _captured_late(db: Db) -> str:
    """Prepare a late capture: we cancelled the attempt, the cart is expired, and another cart has the goods."""
    cart_id = _stalled("timeout")(db)
    carts(db).settle_payments(0)
    carts(db).abandon(cart_id)
    other = carts(db).new()["_id"]
    carts(db).add_item(other, "film", 9)
    db["commerce.test_charges"].update_one({"_id": f"{cart_id}:1"}, {"$set": {"state": "captured"}})
    return cart_id


def _refunded(db: Db, cart_id: str) -> None:
    _settle_one(db, cart_id)
    assert [charge["state"] for charge in db["commerce.test_charges"].find()] == ["refunded"]
    assert db["commerce.orders"].count_documents({}) == 0
    assert levels(db) == (1, 9, 0)


# ---- carts that end ----


def _idle(db: Db) -> str:
    cart_id = shop(db)
    db["commerce.carts"].update_many({}, {"$set": {"last_modified": utcnow() - timedelta(hours=1)}})
    return cart_id


def _given_back_or_not(db: Db, cart_id: str) -> None:
    with suppress(CartClosed):
        carts(db).abandon(cart_id)
    assert (carts(db).get(cart_id)["status"], levels(db)) == ("expired", (10, 0, 0))


def _orphaned(db: Db) -> str:
    cart_id = shop(db)
    db["commerce.carts"].delete_many({})
    db["commerce.reservations"].update_many({}, {"$set": {"at": LONG_AGO}})
    return cart_id


def _all_back(db: Db, cart_id: str) -> None:
    assert (levels(db), levels(db, "album")) == ((10, 0, 0), (10, 0, 0))


def _expired_long_ago(db: Db) -> str:
    cart_id = shop(db)
    _check_out("decline")(db, cart_id)
    carts(db).abandon(cart_id)
    db["commerce.carts"].update_many({}, {"$set": {"last_modified": LONG_AGO}})
    return cart_id


def _forgotten(db: Db, cart_id: str) -> None:
    """Assert that the job has deleted everything."""
    assert (db["commerce.carts"].count_documents({}), db["commerce.payments"].count_documents({})) == (0, 0)


# ---- stock and products ----


def _unstocked(db: Db) -> None:
    Catalog(db).add({"_id": "film", "type": "Film", "title": "film", "pricing": PRICING})


def _receive(db: Db, state: Any) -> None:
    inventory(db).receive("film", 5, key="k")


def _received_once(db: Db, state: Any) -> None:
    for _ in range(2):
        _receive(db, state)
    assert levels(db)[0] == (5 if state is None else 13)


def _adjust(db: Db, state: Any) -> None:
    inventory(db).adjust("film", -3, "lost", key="k")


def _adjusted_once(db: Db, state: Any) -> None:
    _adjust(db, state)
    assert levels(db) == (5, 2, 0)


def _add_product(db: Db, state: Any) -> None:
    Catalog(db).add({"_id": "new", "type": "Film", "title": "new", "pricing": PRICING})


def _added_or_not(db: Db, state: Any) -> None:
    assert len(Catalog(db).get_many(["new"])) in (0, 1)


def _add_again(db: Db, state: Any) -> None:
    Catalog(db).add({"_id": "film", "type": "Film", "title": "new", "pricing": PRICING})


def _sellable_if_added(db: Db, state: Any) -> None:
    if Catalog(db).get_many(["film"]):
        carts(db).add_item(carts(db).new()["_id"], "film")


def _add_with_key(db: Db, state: Any) -> None:
    Catalog(db).add({"_id": "film", "type": "Film", "title": "new", "pricing": PRICING}, key="k")


def _removed(db: Db) -> None:
    _remove_product(db, _abandoned(db))


def _added_and_sellable(db: Db, state: Any) -> None:
    _add_with_key(db, state)
    assert Catalog(db).get("film")["title"] == "new"
    _sellable_if_added(db, state)


def _remove_product(db: Db, cart_id: str) -> None:
    Catalog(db).remove("film")


def _abandoned(db: Db) -> str:
    cart_id = shop(db)
    carts(db).abandon(cart_id)
    return cart_id


def _removed_or_not(db: Db, cart_id: str) -> None:
    removed = "removed_ids" in inventory(db).level("film")
    try:
        Catalog(db).get("film")
        assert not removed
    except UnknownProduct:
        assert removed


def _import(db: Db, state: Any) -> None:
    films = [json.dumps({"_id": f"p{n}", "type": "Film", "title": "p", "pricing": PRICING}) for n in range(1_500)]
    Catalog(db).import_products(films, existing="skip")


def _import_goes_on(db: Db, state: Any) -> None:
    _import(db, state)
    assert db["commerce.products"].count_documents({}) == 1_500


def _import_again(db: Db, state: Any) -> None:
    film = {"_id": "film", "type": "Film", "title": "new", "pricing": PRICING}
    Catalog(db).import_products([json.dumps(film)])


def _lost_pictures(db: Db) -> None:
    Catalog(db).add({"_id": "lost", "type": "Book", "title": "Lost", "pricing": PRICING})
    for _ in range(2):
        file = io.BytesIO()
        Image.new("RGB", (4, 4)).save(file, "PNG")
        file.seek(0)
        Pictures(db).add("lost", file)
    Catalog(db).remove("lost")


def _forget_pictures(db: Db, state: Any) -> None:
    Pictures(db).forget_lost()


def _all_forgotten(db: Db, state: Any) -> None:
    _forget_pictures(db, state)
    assert db["commerce.pictures"].count_documents({}) == 0


def _demo_goes_on(db: Db, state: Any) -> None:
    demo(db)
    assert db["commerce.products"].count_documents({}) == 7
    assert db["commerce.categories"].count_documents({}) == 8
    assert inventory(db).level("album-0")["qty"] == 12


# ---- categories ----


def _tree(db: Db) -> None:
    Categories(db).add_paths([["a", "b", "c"], ["a", "b", "d"], ["e"]])


def _on_tree(name: str, change: Callable[[Categories], object], covers: tuple[str, ...] = ()) -> Case:
    def act(db: Db, state: Any) -> None:
        with suppress(UnknownCategory):
            change(Categories(db))

    def check(db: Db, state: Any) -> None:
        """Assert that the change still works; `find_problems` checks the rest."""
        with suppress(UnknownCategory):
            change(Categories(db))

    return Case(f"Categories.{name}", "commerce", _tree, act, check, covers=covers)


TREE_CASES = [
    _on_tree("add", lambda c: c.add("new", parent="b"), covers=("transactions.in_transaction",)),
    _on_tree("move", lambda c: c.move("b", "e", 0)),
    _on_tree("rename", lambda c: c.rename("b", "B")),
    _on_tree("change_slug", lambda c: c.change_slug("b", "bb")),
    _on_tree("remove lift", lambda c: c.remove("b", children="lift"), covers=("Categories.remove",)),
    _on_tree("remove cascade", lambda c: c.remove("b", children="cascade")),
    _on_tree("add_paths", lambda c: c.add_paths([["x", "y"], ["a", "z"]])),
]

CASES = [
    Case(
        "Carts.new with a key",
        "commerce",
        lambda db: None,
        lambda db, _: carts(db).new(customer="ada", key="k"),
        _repeat_gives_the_cart,
    ),
    Case(
        "Carts.add_item",
        "commerce",
        shop,
        lambda db, cart_id: carts(db).add_item(cart_id, "film", 3, key="k"),
        _repeat_adds_once,
    ),
    Case(
        "Carts.add_item new line",
        "commerce",
        lambda db: (shop(db), carts(db).new()["_id"])[1],
        lambda db, cart_id: carts(db).add_item(cart_id, "film", 1),
        lambda db, cart_id: levels(db),
    ),
    Case("Carts.add_item refused", "commerce", shop, _short, _untouched),
    Case("Carts.set_quantity", "commerce", **_changed(lambda c, cart: c.set_quantity(cart, "film", 6), 2, 6)),
    Case("Carts.set_quantity less", "commerce", **_changed(lambda c, cart: c.set_quantity(cart, "film", 1), 2, 1)),
    Case("Carts.remove_item", "commerce", **_changed(lambda c, cart: c.remove_item(cart, "film"), 2, 0)),
    Case("Carts.checkout", "commerce", shop, _check_out("capture"), _settled, age=age, covers=["TestGateway.capture"]),
    Case("Carts.checkout declined", "commerce", shop, _check_out("decline"), _settled, age=age),
    Case("Carts.checkout timeout", "commerce", shop, _check_out("timeout"), _settled, age=age),
    Case("Carts.checkout unanswered", "commerce", shop, _check_out("capture-then-timeout"), _settled, age=age),
    Case(
        "Carts.settle_payments",
        "commerce",
        _stalled("timeout"),
        _settle_all,
        _settled,
        age=age,
        covers=["job:settle-payments"],
    ),
    Case(
        "Carts.settle_payments captured", "commerce", _stalled("capture-then-timeout"), _settle_all, _settled, age=age
    ),
    Case("Carts.settle", "commerce", _captured_late, _settle_one, _refunded, age=age, covers=["Orders.refund"]),
    Case(
        "Carts.expire_carts",
        "commerce",
        _idle,
        lambda db, cart_id: carts(db).expire_carts(60),
        _given_back_or_not,
        covers=["job:expire-carts"],
    ),
    Case("Carts.abandon", "commerce", shop, lambda db, cart_id: carts(db).abandon(cart_id), _given_back_or_not),
    Case(
        "Carts.return_orphans",
        "commerce",
        _orphaned,
        lambda db, cart_id: carts(db).return_orphans(60),
        _all_back,
        covers=["job:return-orphans"],
    ),
    Case(
        "Carts.forget_carts",
        "commerce",
        _expired_long_ago,
        lambda db, cart_id: carts(db).forget_carts(30 * 86_400),
        _forgotten,
        covers=["job:forget-carts"],
    ),
    Case("Inventory.receive", "commerce", shop, _receive, _received_once),
    Case("Inventory.receive first", "commerce", _unstocked, _receive, _received_once),
    Case("Inventory.adjust", "commerce", shop, _adjust, _adjusted_once),
    Case("Catalog.add", "commerce", lambda db: None, _add_product, _added_or_not),
    Case("Catalog.add again", "commerce", _removed, _add_again, _sellable_if_added),
    Case("Catalog.add with a key", "commerce", _removed, _add_with_key, _added_and_sellable),
    Case("Catalog.remove", "commerce", _abandoned, _remove_product, _removed_or_not),
    Case("Catalog.import_products", "commerce", lambda db: None, _import, _import_goes_on),
    Case("Catalog.import_products again", "commerce", _removed, _import_again, _sellable_if_added),
    Case(
        "Pictures.forget_lost",
        "commerce",
        _lost_pictures,
        _forget_pictures,
        _all_forgotten,
        covers=["job:forget-pictures"],
    ),
    Case("commerce.demo", "commerce", lambda db: None, lambda db, state: demo(db), _demo_goes_on),
    *TREE_CASES,
]
