"""Tests of concurrent operations on the same goods."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from tests.racing import at_once, outcomes
from tests.systems.commerce.conftest import Shop

from squinney.commerce import InadequateInventory, PaymentUnsettled, find_problems, repair
from squinney.errors import Conflict, NotFound
from squinney.mongo.schema import Db


def test_as_many_are_sold_as_there_are(shop: Shop) -> None:
    shop.stock("film", 7)
    carts = [shop.cart() for _ in range(16)]

    def buy(cart_id: str) -> Any:
        shop.carts.add_item(cart_id, "film")
        return shop.carts.checkout(cart_id, key="k")

    results = outcomes([lambda c=cart_id: buy(c) for cart_id in carts], threads=8)
    assert sum(isinstance(result, InadequateInventory) for result in results) == 9
    assert sum(isinstance(result, dict) for result in results) == 7
    assert shop.level("film") == (0, 0, 7)
    assert shop.db["commerce.orders"].count_documents({}) == 7


def test_one_cart_changed_from_many_sides_adds_up(shop: Shop) -> None:
    shop.stock("film", 100)
    cart_id = shop.cart()
    results = outcomes([lambda: shop.carts.add_item(cart_id, "film")] * 20, threads=8)
    added = sum(isinstance(result, dict) for result in results)
    assert added == 20
    assert (shop.lines(cart_id), shop.level("film")) == ({"film": 20}, (80, 20, 0))


def test_a_checkout_from_many_sides_charges_once(shop: Shop) -> None:
    shop.stock("film", 10)
    cart_id = shop.cart(film=2)
    results = outcomes([lambda n=n: shop.carts.checkout(cart_id, key=f"k{n % 3}") for n in range(9)], threads=9)
    paid = [result for result in results if isinstance(result, dict)]
    assert paid
    assert all(isinstance(result, Conflict) for result in results if not isinstance(result, dict))
    assert shop.db["commerce.test_charges"].count_documents({"state": "captured"}) == 1
    assert (shop.db["commerce.orders"].count_documents({}), shop.level("film")) == (1, (8, 0, 2))


def test_a_checkout_sent_several_times_gives_all_the_same_answer(shop: Shop) -> None:
    shop.stock("film", 10)
    cart_id = shop.cart(film=2)
    orders = at_once(6, lambda _: shop.carts.checkout(cart_id, key="k"))
    assert all(order == orders[0] for order in orders)


def test_an_attempt_settled_from_many_sides_is_settled_for_all(shop: Shop) -> None:
    shop.stock("film", 10)
    cart_id = shop.cart(film=2)
    shop.gateway.behaviour = "capture-then-timeout"
    with pytest.raises(PaymentUnsettled):
        shop.carts.checkout(cart_id, key="k")
    assert at_once(6, lambda _: shop.carts.settle(f"{cart_id}:1")["state"]) == ["captured"] * 6
    assert (shop.db["commerce.orders"].count_documents({}), shop.level("film")) == (1, (8, 0, 2))


def test_an_order_cancelled_from_many_sides_is_cancelled_for_all(shop: Shop) -> None:
    shop.stock("film", 10)
    for _ in range(3):
        cart_id = shop.cart(film=2)
        shop.carts.checkout(cart_id, key="k")
        cancelled = at_once(6, partial(lambda order_id, _: shop.orders.cancel(order_id)["status"], cart_id))
        assert (cancelled, shop.level("film")) == (["cancelled"] * 6, (10, 0, 0))


def test_two_repairs_at_once_write_one_history(shop: Shop) -> None:
    shop.stock("film", 10)
    cart_id = shop.cart(film=3)
    shop.carts.checkout(cart_id, key="k")
    shop.db["commerce.reservations"].insert_one({"_id": {"sku": "film", "cart": cart_id}, "qty": 3, "at": shop.clock()})
    shop.db["commerce.movements"].delete_many({"kind": "sold"})
    assert sum(done["reservations dropped"] for done in at_once(4, lambda _: repair(shop.db))) == 1
    assert list(find_problems(shop.db)) == []


def test_expiry_and_additions_and_two_workers(shop: Shop) -> None:
    shop.stock("film", 50)
    carts = [shop.cart(film=1) for _ in range(10)]
    shop.clock.pass_seconds(100)
    expire: list[Callable[[], Any]] = [lambda: shop.carts.expire_carts(60)] * 3
    add: list[Callable[[], Any]] = [lambda c=cart_id: shop.carts.add_item(c, "film") for cart_id in carts]
    results = outcomes([*add[:5], *expire, *add[5:], lambda: shop.carts.return_orphans(60)], threads=8)
    assert not any(isinstance(result, NotFound) for result in results)
    shop.carts.expire_carts(60)
    live = [cart for cart in shop.db["commerce.carts"].find() if cart["status"] == "active"]
    assert {cart["status"] for cart in shop.db["commerce.carts"].find()} <= {"active", "expired"}
    assert shop.level("film")[1] == sum(line["qty"] for cart in live for line in cart["items"])


def test_two_shops_work_on_the_same_stock(shop_db: Db) -> None:
    shops = [Shop(shop_db), Shop(shop_db)]
    for sku in ("a", "b"):
        shops[0].stock(sku, 12)
    carts = [shops[0].cart() for _ in range(6)]
    chance = random.Random(5)

    def attempt(number: int) -> Callable[[], Any]:
        shop, cart_id, sku = shops[number % 2], chance.choice(carts), chance.choice("ab")
        qty, kind = chance.randint(1, 3), chance.randrange(10)
        if kind < 6:
            return lambda: shop.carts.add_item(cart_id, sku, qty)
        if kind < 8:
            return lambda: shop.carts.set_quantity(cart_id, sku, qty)
        return lambda: shop.carts.remove_item(cart_id, sku)

    kinds = Counter(type(result).__name__ for result in outcomes([attempt(n) for n in range(120)], threads=8))
    assert set(kinds) <= {"dict", "InadequateInventory", "UnknownLine"}
    for sku in ("a", "b"):
        _, carted, _ = shops[0].level(sku)
        assert carted == sum(shops[0].lines(cart_id).get(sku, 0) for cart_id in carts)
