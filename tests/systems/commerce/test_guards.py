"""Guards of the shop that decide when two meet, each shown by letting the other pass at the worst moment."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import pytest
from tests.patterns.interrupt import meanwhile
from tests.systems.commerce.conftest import Shop

from squinney.commerce import (
    Catalog,
    Categories,
    InadequateInventory,
    PaymentUnsettled,
    UnknownOrder,
    find_problems,
    repair,
)
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db
from squinney.patterns.ancestors import Cycle


def test_a_cart_changed_meanwhile_is_planned_anew(shop: Shop, mongod: Embedded) -> None:
    shop.stock("film", 10)
    cart_id = shop.cart(film=1)
    with meanwhile(mongod, shop.db, lambda: shop.carts.add_item(cart_id, "film", 2)) as db:
        Shop(db, shop.mode, shop.clock).carts.add_item(cart_id, "film", 4)
    assert (shop.lines(cart_id), shop.level("film")) == ({"film": 7}, (3, 7, 0))


def test_what_is_removed_meanwhile_is_not_reserved(shop: Shop, mongod: Embedded) -> None:
    shop.stock("film", 10)
    cart_id = shop.cart()
    with meanwhile(mongod, shop.db, lambda: Catalog(shop.db).remove("film")) as db, pytest.raises(InadequateInventory):
        Shop(db, shop.mode, shop.clock).carts.add_item(cart_id, "film", 1)


def test_a_cart_touched_meanwhile_does_not_expire(shop: Shop, mongod: Embedded) -> None:
    shop.stock("film", 10)
    cart_id = shop.cart(film=1)
    shop.clock.pass_seconds(1000)
    with meanwhile(mongod, shop.db, lambda: shop.carts.add_item(cart_id, "film", 1), "update", "carts") as db:
        assert Shop(db, shop.mode, shop.clock).carts.expire_carts(500) == {}
    assert (shop.carts.get(cart_id)["status"], shop.level("film")) == ("active", (8, 2, 0))


def test_a_late_success_for_a_cart_that_holds_something_else_is_refunded(shop: Shop) -> None:
    shop.stock("film", 10)
    cart_id = shop.cart(film=2)
    shop.gateway.behaviour = "timeout"
    with pytest.raises(PaymentUnsettled):
        shop.carts.checkout(cart_id, key="k")
    shop.clock.pass_seconds(100)
    shop.carts.settle_payments(60)
    shop.db["test_charges"].update_one({}, {"$set": {"state": "captured"}})
    shop.gateway.behaviour = "capture"
    shop.carts.add_item(cart_id, "film", 1)
    assert shop.carts.settle(f"{cart_id}:1")["state"] == "refunded"
    assert (shop.carts.get(cart_id)["status"], shop.level("film")) == ("active", (7, 3, 0))


def test_two_moves_that_overlap_make_no_cycle(shop_db: Db, mongod: Embedded) -> None:
    """Each sees the tree without the other's move: one of them must be turned away."""
    categories = Categories(shop_db)
    for name in ("A", "B"):
        categories.add(name)
    others: list[Any] = []
    with ThreadPoolExecutor(1) as pool:

        def move_the_other_way() -> None:
            others.append(pool.submit(categories.move, "b", "a"))
            wait(others, timeout=0.3)  # it cannot come back before the first has ended

        with meanwhile(mongod, shop_db, move_the_other_way, "update", "categories") as db:
            Categories(db).move("a", "b")
        with pytest.raises(Cycle):
            others[0].result()
    assert list(find_problems(shop_db)) == []


def test_repair_sets_no_stock_that_has_changed_since(shop: Shop, mongod: Embedded) -> None:
    shop.stock("film", 10)
    shop.db["stock"].update_one({}, {"$set": {"qty": 3}}, bypass_document_validation=True)
    with meanwhile(mongod, shop.db, lambda: shop.inventory.receive("film", 5), "update", "stock") as db:
        assert repair(db)["stocks set"] == 0
    assert (shop.db["stock"].find_one() or {})["received"] == 15
    assert repair(shop.db)["stocks set"] == 1
    assert shop.level("film") == (15, 0, 0)


def test_no_order_is_made_of_a_payment_that_was_given_back(shop: Shop) -> None:
    shop.stock("film", 10)
    cart_id = shop.cart(film=2)
    shop.carts.checkout(cart_id, key="k")
    shop.db["orders"].delete_one({})
    shop.db["payments"].update_one({}, {"$set": {"state": "refunded"}})
    with pytest.raises(UnknownOrder):
        shop.orders.from_cart(cart_id)
