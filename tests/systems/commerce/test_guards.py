"""Tests of guards against concurrent changes: each makes the other change at the worst moment."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import pytest
from tests.crash.shop import PRICING
from tests.patterns.interrupt import meanwhile
from tests.systems.commerce.conftest import Shop

from squinney.commerce import (
    Catalog,
    Categories,
    PaymentDeclined,
    PaymentUnsettled,
    UnknownOrder,
    UnknownProduct,
    find_problems,
    repair,
)
from squinney.commerce.carts import expiry
from squinney.commerce.catalog.imports import Existing
from squinney.commerce.documents import MAX_STOCK
from squinney.commerce.payments.gateway import Charge
from squinney.errors import Invalid, SquinneyError
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db
from squinney.patterns.ancestors import Cycle
from squinney.transactions import CHECKS_FIELD, Transactions

FILM = {"_id": "film", "type": "Film", "title": "film", "pricing": PRICING}


def test_a_cart_changed_meanwhile_is_planned_anew(shop: Shop, mongod: Embedded) -> None:
    for sku in ("film", "album"):
        shop.stock(sku, 10)
    cart_id = shop.cart(film=1)
    with meanwhile(mongod, shop.db, lambda: shop.carts.add_item(cart_id, "film", 2)) as db:
        Shop(db, shop.clock).carts.add_item(cart_id, "album", 4)
    assert (shop.lines(cart_id), shop.level("film")) == ({"film": 3, "album": 4}, (7, 3, 0))


def test_only_an_expiring_cart_becomes_expired(shop: Shop) -> None:
    shop.stock("film", 10)
    cart_id = shop.cart(film=1)
    shop.carts.checkout(cart_id, key="k")
    assert not expiry.finish(shop.db, shop.transactions, cart_id, shop.clock())
    assert shop.carts.get(cart_id)["status"] == "complete"


def test_no_money_moves_for_an_attempt_that_was_settled_meanwhile(shop: Shop) -> None:
    """Even if the provider has forgotten that the attempt was cancelled."""
    shop.stock("film", 10)
    cart_id = shop.cart(film=2)
    moved: list[str] = []

    def capture(key: str, amount: int, currency: str, *, note: Any) -> Charge:
        shop.clock.pass_seconds(100)
        shop.carts.settle_payments(60)
        note("intent")
        moved.append(key)
        return Charge("captured")

    shop.gateway.capture = capture  # type: ignore[method-assign]
    with pytest.raises(PaymentDeclined):
        shop.carts.checkout(cart_id, key="k")
    assert moved == []


def test_a_late_success_does_not_complete_a_cart_that_waits_for_another_attempt(shop: Shop) -> None:
    shop.stock("film", 10)
    cart_id = shop.cart(film=2)
    shop.gateway.behaviour = "timeout"
    for attempt in (1, 2):
        with pytest.raises(PaymentUnsettled):
            shop.carts.checkout(cart_id, key=f"k{attempt}")
        shop.clock.pass_seconds(100)
        if attempt == 1:
            shop.carts.settle_payments(60)
    shop.db["commerce.test_charges"].update_one({"_id": f"{cart_id}:1"}, {"$set": {"state": "captured"}})
    shop.gateway.behaviour = "capture"
    assert shop.carts.settle(f"{cart_id}:1")["state"] == "refunded"
    assert (shop.carts.get(cart_id)["status"], shop.level("film")) == ("pending", (8, 2, 0))


def test_a_product_removed_in_the_meantime_is_not_reserved(shop: Shop, mongod: Embedded) -> None:
    shop.stock("film", 10)
    cart_id = shop.cart()
    with meanwhile(mongod, shop.db, lambda: Catalog(shop.db).remove("film")) as db, pytest.raises(UnknownProduct):
        Shop(db, shop.clock).carts.add_item(cart_id, "film", 1)


def _remove_and_add(db: Db) -> None:
    Catalog(db).remove("film")
    Catalog(db).add(FILM)


def test_a_product_removed_and_added_in_the_meantime_is_reserved(shop: Shop, mongod: Embedded) -> None:
    shop.stock("film", 10)
    cart_id = shop.cart()
    with meanwhile(mongod, shop.db, lambda: _remove_and_add(shop.db)) as db:
        cart = Shop(db, shop.clock).carts.add_item(cart_id, "film", 1)
    assert cart["items"][0]["title"] == "film"  # that of the new product


def test_a_product_removed_twice_in_the_meantime_is_not_reserved(shop: Shop, mongod: Embedded) -> None:
    """The stock notes all removed products, not only the last one."""
    shop.stock("film", 10)
    cart_id = shop.cart()

    def remove_twice() -> None:
        _remove_and_add(shop.db)
        Catalog(shop.db).remove("film")

    with meanwhile(mongod, shop.db, remove_twice) as db, pytest.raises(UnknownProduct):
        Shop(db, shop.clock).carts.add_item(cart_id, "film", 1)


def test_units_of_a_product_removed_in_the_meantime_are_not_received(shop: Shop, mongod: Embedded) -> None:
    shop.stock("film", 10)
    with meanwhile(mongod, shop.db, lambda: Catalog(shop.db).remove("film")) as db, pytest.raises(UnknownProduct):
        Shop(db, shop.clock).inventory.receive("film", 1)


def test_a_removal_notes_the_product_that_it_removes(shop: Shop, mongod: Embedded) -> None:
    shop.stock("film", 10)
    with meanwhile(mongod, shop.db, lambda: _remove_and_add(shop.db)) as db:
        Catalog(db, transactions=Transactions(db)).remove("film")
    removed = (shop.db["commerce.stock"].find_one() or {})["removed_ids"]
    assert len(removed) == len(set(removed)) == 2
    assert shop.db["commerce.products"].count_documents({}) == 0


@pytest.mark.parametrize("existing", ["skip", "replace"])
def test_an_imported_product_is_sold_at_once(shop: Shop, existing: Existing) -> None:
    """Also if the product was removed before, and if it is imported a second time."""
    shop.stock("film", 10)
    Catalog(shop.db).remove("film")
    cart_id = shop.cart()
    for units in (1, 2):
        Catalog(shop.db).import_products([json.dumps(FILM)], existing=existing)
        shop.carts.add_item(cart_id, "film", 1)
        assert shop.level("film") == (10 - units, units, 0)
    shop.carts.remove_item(cart_id, "film")
    Catalog(shop.db).remove("film")
    with pytest.raises(UnknownProduct):
        shop.carts.add_item(cart_id, "film", 1)


def test_an_edited_product_is_noted_when_it_is_removed(shop: Shop, mongod: Embedded) -> None:
    """A change of the product keeps the id that the removal notes."""
    Catalog(shop.db).add(FILM)
    shop.inventory.receive("film", 10)
    cart_id = shop.cart()

    def edit_and_remove() -> None:
        edited = Catalog(shop.db).patch("film", {"title": "new"})
        Catalog(shop.db).replace("film", edited, expected_version=2)
        Catalog(shop.db).import_products([json.dumps(FILM)], existing="replace")
        Catalog(shop.db).remove("film")

    with meanwhile(mongod, shop.db, edit_and_remove) as db, pytest.raises(UnknownProduct):
        Shop(db, shop.clock).carts.add_item(cart_id, "film", 1)


def test_a_change_of_a_product_added_again_in_the_meantime_keeps_it_sellable(shop_db: Db, mongod: Embedded) -> None:
    """Both products have version 1, but only the second one exists."""
    Catalog(shop_db).add(FILM)
    with meanwhile(mongod, shop_db, lambda: _remove_and_add(shop_db), "update", "commerce.products") as db:
        changed = Catalog(db).patch("film", {"title": "new"})
    assert changed["added_id"] not in (shop_db["commerce.stock"].find_one() or {})["removed_ids"]


def test_a_cart_touched_meanwhile_does_not_expire(shop: Shop, mongod: Embedded) -> None:
    shop.stock("film", 10)
    cart_id = shop.cart(film=1)
    shop.clock.pass_seconds(1000)
    with meanwhile(mongod, shop.db, lambda: shop.carts.add_item(cart_id, "film", 1), "update", "commerce.carts") as db:
        assert Shop(db, shop.clock).carts.expire_carts(500) == {}
    assert (shop.carts.get(cart_id)["status"], shop.level("film")) == ("active", (8, 2, 0))


def test_a_late_success_for_a_cart_that_holds_something_else_is_refunded(shop: Shop) -> None:
    shop.stock("film", 10)
    cart_id = shop.cart(film=2)
    shop.gateway.behaviour = "timeout"
    with pytest.raises(PaymentUnsettled):
        shop.carts.checkout(cart_id, key="k")
    shop.clock.pass_seconds(100)
    shop.carts.settle_payments(60)
    shop.db["commerce.test_charges"].update_one({}, {"$set": {"state": "captured"}})
    shop.gateway.behaviour = "capture"
    shop.carts.add_item(cart_id, "film", 1)
    assert shop.carts.settle(f"{cart_id}:1")["state"] == "refunded"
    assert (shop.carts.get(cart_id)["status"], shop.level("film")) == ("active", (7, 3, 0))


def test_two_moves_that_overlap_make_no_cycle(shop_db: Db, mongod: Embedded) -> None:
    """Neither transaction sees the other's move, so one of them must fail."""
    categories = Categories(shop_db)
    for name in ("A", "B"):
        categories.add(name)
    others: list[Any] = []
    with ThreadPoolExecutor(1) as pool:

        def move_the_other_way() -> None:
            others.append(pool.submit(categories.move, "b", "a"))
            wait(others, timeout=0.3)  # it cannot come back before the first has ended

        with meanwhile(mongod, shop_db, move_the_other_way, "update", "commerce.categories") as db:
            Categories(db).move("a", "b")
        with pytest.raises(Cycle):
            others[0].result()
    assert list(find_problems(shop_db)) == []


def test_repair_sets_no_stock_that_has_changed_since(shop: Shop, mongod: Embedded) -> None:
    shop.stock("film", 10)
    shop.db["commerce.stock"].update_one({}, {"$set": {"qty": 3}}, bypass_document_validation=True)
    with meanwhile(mongod, shop.db, lambda: shop.inventory.receive("film", 5), "update", "commerce.stock") as db:
        assert repair(db)["stocks set"] == 0
    assert (shop.db["commerce.stock"].find_one() or {})["received"] == 15
    assert repair(shop.db)["stocks set"] == 1
    assert shop.level("film") == (15, 0, 0)


def test_no_order_is_made_of_a_payment_that_was_given_back(shop: Shop) -> None:
    shop.stock("film", 10)
    cart_id = shop.cart(film=2)
    shop.carts.checkout(cart_id, key="k")
    shop.db["commerce.orders"].delete_one({})
    shop.db["commerce.payments"].update_one({}, {"$set": {"state": "refunded"}})
    with pytest.raises(UnknownOrder):
        shop.orders.from_cart(cart_id)


def test_an_order_belongs_to_the_customer_who_claims_the_cart_meanwhile(shop: Shop, mongod: Embedded) -> None:
    """The payment succeeded late, when its cart was active again."""
    shop.stock("film", 10)
    cart_id = shop.cart(film=2)
    shop.gateway.behaviour = "timeout"
    with pytest.raises(PaymentUnsettled):
        shop.carts.checkout(cart_id, key="k")
    shop.clock.pass_seconds(100)
    shop.carts.settle_payments(60)
    shop.db["commerce.test_charges"].update_one({}, {"$set": {"state": "captured"}})
    with meanwhile(mongod, shop.db, lambda: shop.carts.claim(cart_id, "ada")) as db:
        assert Shop(db, shop.clock).carts.settle(f"{cart_id}:1")["state"] == "captured"
    assert shop.orders.get(cart_id)["customer"] == shop.carts.get(cart_id)["customer"] == "ada"


def test_two_receipts_at_once_keep_the_limit_of_a_stock(shop: Shop, mongod: Embedded) -> None:
    shop.stock("film", 10)
    with (
        meanwhile(mongod, shop.db, lambda: shop.inventory.receive("film", MAX_STOCK - 20)) as db,
        pytest.raises(Invalid, match="at most"),
    ):
        Shop(db).inventory.receive("film", 11)
    assert shop.inventory.level("film")["qty"] == MAX_STOCK - 10
    assert shop.inventory.receive("film", 10)["qty"] == MAX_STOCK


@pytest.mark.parametrize("damage", [{"qty": "many"}, {"qty": [9]}, {"qty": 7.5}, {"carted": "some"}, {"carted": [1]}])
def test_a_stock_whose_counts_are_no_numbers_is_not_changed(shop: Shop, damage: dict[str, Any]) -> None:
    """Only a person with access to the database can store such counts; `repair` sets them."""
    shop.stock("film", 10)
    cart_id = shop.cart()
    shop.db["commerce.stock"].update_one({}, {"$set": damage}, bypass_document_validation=True)
    before = shop.db["commerce.stock"].find_one()
    with pytest.raises(SquinneyError):
        shop.carts.add_item(cart_id, "film", 2)
    assert (shop.db["commerce.stock"].find_one(), shop.lines(cart_id)) == (before, {})
    repair(shop.db)
    assert shop.carts.add_item(cart_id, "film", 2)["items"][0]["qty"] == 2


def test_a_payment_does_not_show_that_it_was_checked(shop: Shop) -> None:
    shop.stock("film", 10)
    cart_id = shop.cart(film=2)
    shop.carts.checkout(cart_id, key="k")
    shop.db["commerce.orders"].delete_one({})
    shop.orders.from_cart(cart_id)
    assert (shop.db["commerce.payments"].find_one() or {})[CHECKS_FIELD] == 1
    for payment in (*shop.carts.payments_of(cart_id), shop.carts.settle(f"{cart_id}:1")):
        assert CHECKS_FIELD not in payment
