"""Tests of orders: the total is always the sum of the lines."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.racing import at_once
from tests.sizes import a_tenth_of, heavy
from tests.systems.commerce.conftest import Shop

from squinney.commerce import OrderFixed, OrderLimit, Orders, UnknownLine, UnknownOrder, WrongCurrency
from squinney.commerce.documents import MAX_LINES, MAX_PRICE, MAX_QTY, MAX_TOTAL
from squinney.errors import Conflict, Invalid, LimitReached, NotFound
from squinney.mongo.connect import client_for
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db
from squinney.testing.server_commands import Starts
from squinney.transactions import Key, KeyReused

LINE = {"sku": "film", "price": 500, "qty": 2}


def test_an_order_is_placed_once_per_key(shop: Shop) -> None:
    order = shop.orders.place([LINE], customer="ada", key="k")
    assert shop.orders.place([LINE], customer="ada", key="k") == order
    assert (order["total"], order["items"][0]["title"]) == (1000, "film")
    assert shop.orders.get(order["_id"]) == order
    assert shop.orders.all().items == [order]


def test_lines_and_total_change_together(shop: Shop) -> None:
    order_id = shop.orders.place([LINE])["_id"]
    assert shop.orders.add_or_increase(order_id, "film", 999, 1)["total"] == 1500, "the line's price stays"
    assert shop.orders.add_or_increase(order_id, "album", 100, 3)["total"] == 1800
    assert shop.orders.set_quantity(order_id, "film", 1)["total"] == 800
    order = shop.orders.remove_item(order_id, "album")
    assert (order["total"], order["version"], len(order["items"])) == (500, 5, 1)
    assert shop.orders.remove_item(order_id, "film")["total"] == 0


def test_lines_change_once_per_key(shop: Shop) -> None:
    order_id = shop.orders.place([LINE])["_id"]
    added = at_once(4, lambda _: shop.orders.add_or_increase(order_id, "film", 500, 1, key="k"))
    assert [order["total"] for order in added] == [1500] * 4
    assert shop.orders.get(order_id) == added[0]
    with pytest.raises(KeyReused):
        shop.orders.add_or_increase(order_id, "film", 500, 2, key="k")
    fewer = shop.orders.set_quantity(order_id, "film", 1, key="k")
    shop.orders.add_or_increase(order_id, "film", 500, 1, key=Key("k", "another"))
    assert shop.orders.set_quantity(order_id, "film", 1, key="k") == fewer
    assert shop.orders.get(order_id)["total"] == 1000, "the repeat undid nothing"
    gone = shop.orders.remove_item(order_id, "film", key="k")
    assert (shop.orders.remove_item(order_id, "film", key="k"), gone["items"]) == (gone, [])
    with pytest.raises(UnknownLine):
        shop.orders.remove_item(order_id, "film", key="k2")
    assert shop.orders.add_or_increase(order_id, "film", 500, 1, key="k") == added[0]
    assert shop.orders.get(order_id)["items"] == []


class Interruption(Starts):
    """A command listener that calls `then` once, after an update that found nothing to change."""

    def __init__(self) -> None:
        self.then: Callable[[], object] | None = None

    def succeeded(self, event: Any) -> None:
        then = self.then
        if event.command_name == "findAndModify" and event.reply["value"] is None and then is not None:
            self.then = None
            then()


@pytest.mark.parametrize("kind", ["set", "remove", "add"])
def test_an_order_that_changes_meanwhile_is_tried_again(shop: Shop, mongod: Embedded, kind: str) -> None:
    """The edit is refused, and then another caller changes the order before the reason is read."""
    interruption = Interruption()
    order_id = shop.orders.place([LINE])["_id"]
    with client_for(mongod.uri, event_listeners=[interruption]) as client:
        orders = Orders(client[shop.db.name])
        interruption.then = lambda: shop.orders.add_or_increase(order_id, "album", 100, 3)
        if kind == "set":
            assert orders.set_quantity(order_id, "album", 1)["total"] == 1100
        elif kind == "remove":
            assert orders.remove_item(order_id, "album")["total"] == 1000
        else:
            shop.db["commerce.orders"].update_one({"_id": order_id}, {"$set": {"items.0.qty": MAX_QTY}})
            interruption.then = lambda: shop.orders.set_quantity(order_id, "film", 1)
            assert orders.add_or_increase(order_id, "film", 500, 1)["total"] == 1000
    assert interruption.then is None


def test_a_sku_that_looks_like_an_expression_is_a_sku(shop: Shop) -> None:
    order_id = shop.orders.place([LINE])["_id"]
    assert shop.orders.add_or_increase(order_id, "$total", 7, 1)["total"] == 1007
    assert shop.orders.add_or_increase(order_id, "$total", 7, 1)["total"] == 1014
    assert shop.orders.set_quantity(order_id, "$total", 1)["total"] == 1007
    assert shop.orders.remove_item(order_id, "$total")["total"] == 1000


def test_what_an_order_refuses(shop: Shop) -> None:
    order_id = shop.orders.place([LINE])["_id"]
    before = shop.orders.get(order_id)
    orders = shop.orders
    refused: list[tuple[Any, Any]] = [
        (UnknownOrder, lambda: orders.add_or_increase("nobody", "film", 1, 1)),
        (UnknownOrder, lambda: orders.get("nobody")),
        (UnknownOrder, lambda: orders.cancel("nobody")),
        (UnknownOrder, lambda: orders.delete("nobody")),
        (UnknownOrder, lambda: orders.from_cart("nobody")),
        (UnknownLine, lambda: orders.set_quantity(order_id, "album", 1)),
        (UnknownLine, lambda: orders.remove_item(order_id, "album")),
        (WrongCurrency, lambda: orders.add_or_increase(order_id, "film", 1, 1, currency="USD")),
        (OrderLimit, lambda: orders.add_or_increase(order_id, "film", 1, MAX_QTY)),
        (OrderLimit, lambda: orders.add_or_increase(order_id, "dear", MAX_PRICE, 1_000)),
        (OrderLimit, lambda: orders.place([{"sku": "dear", "price": MAX_PRICE, "qty": MAX_QTY}])),
        (Invalid, lambda: orders.add_or_increase(order_id, "film", 1, 0)),
        (Invalid, lambda: orders.add_or_increase(order_id, "film", 1, -1)),
        (Invalid, lambda: orders.add_or_increase(order_id, "film", -1, 1)),
        (Invalid, lambda: orders.add_or_increase(order_id, "film", 2**63, 1)),
        (Invalid, lambda: orders.set_quantity(order_id, "film", 0)),
        (Invalid, lambda: orders.set_quantity(order_id, {"$gt": ""}, 1)),  # type: ignore[arg-type]
        (Invalid, lambda: orders.place([])),
        (Invalid, lambda: orders.place([LINE, LINE])),
        (Invalid, lambda: orders.place([{**LINE, "extra": 1}])),
        (Invalid, lambda: orders.place([{**LINE, "sku": f"s{n}"} for n in range(MAX_LINES + 1)])),
        (Invalid, lambda: orders.place("film")),  # type: ignore[arg-type]
        (Invalid, lambda: orders.place([LINE], currency="euros")),
        (Invalid, lambda: orders.by_customer("ada", cursor="nonsense")),
    ]
    for error, attempt in refused:
        with pytest.raises(error):
            attempt()
    assert orders.get(order_id) == before
    assert MAX_PRICE * 1_000 == MAX_TOTAL


def test_the_lines_of_a_paid_order_do_not_change(shop: Shop) -> None:
    shop.stock("film", 10)
    cart_id = shop.cart(film=2)
    order = shop.carts.checkout(cart_id, key="k")
    for attempt in (
        lambda: shop.orders.add_or_increase(cart_id, "film", 1, 1),
        lambda: shop.orders.set_quantity(cart_id, "film", 1),
        lambda: shop.orders.remove_item(cart_id, "film"),
        lambda: shop.orders.delete(cart_id),
        lambda: Orders(shop.db).cancel(cart_id),
    ):
        with pytest.raises(OrderFixed):
            attempt()
    assert shop.orders.get(cart_id) == order


def test_an_order_whose_payment_is_lost_is_not_cancelled(shop: Shop) -> None:
    shop.stock("film", 10)
    cart_id = shop.cart(film=2)
    order = shop.carts.checkout(cart_id, key="k")
    shop.db["commerce.payments"].delete_one({})
    with pytest.raises(NotFound, match="no payment attempt"):
        shop.orders.cancel(cart_id)
    assert shop.orders.get(cart_id) == order


def test_from_cart_makes_a_missing_order_once(shop: Shop) -> None:
    shop.stock("film", 10)
    cart_id = shop.cart(film=2)
    order = shop.carts.checkout(cart_id, key="k")
    assert shop.orders.from_cart(cart_id) == order
    shop.db["commerce.orders"].delete_one({"_id": cart_id})
    assert shop.orders.from_cart(cart_id)["total"] == order["total"]
    with pytest.raises(UnknownOrder):
        shop.orders.from_cart(shop.cart(film=1))


def test_cancelled_orders_can_be_deleted(shop: Shop) -> None:
    order_id = shop.orders.place([LINE])["_id"]
    assert shop.orders.cancel(order_id)["status"] == "cancelled"
    assert shop.orders.cancel(order_id)["status"] == "cancelled"
    with pytest.raises(OrderFixed):
        shop.orders.add_or_increase(order_id, "film", 1, 1)
    shop.orders.delete(order_id)
    with pytest.raises(UnknownOrder):
        shop.orders.get(order_id)


def test_a_customers_orders_come_newest_first(shop: Shop) -> None:
    placed = []
    for _ in range(5):
        shop.clock.pass_seconds(1)
        placed.append(shop.orders.place([LINE], customer="ada")["_id"])
    shop.orders.place([LINE], customer="ben")
    first = shop.orders.by_customer("ada", limit=3)
    rest = shop.orders.by_customer("ada", limit=3, cursor=first.next)
    assert [order["_id"] for order in [*first.items, *rest.items]] == placed[::-1]
    assert rest.next is None


@heavy
def test_mixed_edits_leave_the_total_the_sum(shop_db: Db) -> None:
    """10,000 edits by 8 threads."""
    orders = Orders(shop_db)
    ids = [orders.place([LINE])["_id"] for _ in range(4)]
    stop = threading.Event()
    wrong: list[Any] = []

    def watch() -> None:
        while not stop.is_set():
            for order in shop_db["commerce.orders"].find():
                if order["total"] != sum(line["price"] * line["qty"] for line in order["items"]):
                    wrong.append(order)

    def edit(seed: int) -> int:
        chance = random.Random(seed)
        done = 0
        for _ in range(a_tenth_of(10_000) // 8):
            order_id, sku = chance.choice(ids), f"s{chance.randrange(6)}"
            try:
                match chance.randrange(4):
                    case 0 | 1:
                        orders.add_or_increase(order_id, sku, chance.randint(1, 999), chance.randint(1, 9))
                    case 2:
                        orders.set_quantity(order_id, sku, chance.randint(1, 9))
                    case _:
                        orders.remove_item(order_id, sku)
                done += 1
            except (NotFound, Conflict, LimitReached):
                pass
        return done

    watcher = threading.Thread(target=watch)
    watcher.start()
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(edit, range(8)))
    stop.set()
    watcher.join()
    assert wrong == []
    for order in shop_db["commerce.orders"].find():
        assert order["total"] == sum(line["price"] * line["qty"] for line in order["items"])
    versions = sum(order["version"] - 1 for order in shop_db["commerce.orders"].find())
    assert versions == sum(done), "every edit happened exactly once"
