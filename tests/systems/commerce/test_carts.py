"""Tests of carts and stock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.patterns.interrupt import meanwhile
from tests.racing import at_once
from tests.systems.commerce.conftest import Shop, product

from squinney import assembly
from squinney.commerce import (
    CartClosed,
    CartLimit,
    Carts,
    Catalog,
    InadequateInventory,
    PaymentDeclined,
    UnknownCart,
    UnknownLine,
    UnknownProduct,
    WrongCurrency,
    find_problems,
)
from squinney.commerce.carts import expiry
from squinney.commerce.documents import MAX_QTY
from squinney.commerce.jobs import keep_seconds_for
from squinney.errors import Invalid, Unavailable
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db
from squinney.transactions import Busy, KeyReused, Outcome, Transactions


def test_adding_reserves_and_removing_gives_back(shop: Shop) -> None:
    shop.stock("film", 10)
    cart_id = shop.cart(film=3)
    assert shop.level("film") == (7, 3, 0)
    line = shop.carts.get(cart_id)["items"][0]
    assert (line["qty"], line["price"], line["title"]) == (3, 500, "The film")
    shop.carts.add_item(cart_id, "film", 2)
    assert shop.level("film") == (5, 5, 0)
    shop.carts.set_quantity(cart_id, "film", 1)
    assert shop.level("film") == (9, 1, 0)
    shop.carts.remove_item(cart_id, "film")
    assert (shop.level("film"), shop.lines(cart_id)) == ((10, 0, 0), {})
    assert shop.db["squinney.keys"].count_documents({}) == 0


def test_a_change_returns_the_cart_as_it_is_stored(shop: Shop) -> None:
    shop.stock("film", 10)
    cart_id = shop.cart()
    shop.clock.pass_seconds(5)
    for changed in (
        shop.carts.add_item(cart_id, "film", 3),
        shop.carts.add_item(cart_id, "film", 1),
        shop.carts.set_quantity(cart_id, "film", 2),
    ):
        assert changed["last_modified"] == shop.clock()
    assert shop.carts.get(cart_id) == changed


def test_an_addition_without_enough_stock_leaves_the_line_unchanged(shop: Shop) -> None:
    shop.stock("film", 5)
    cart_id = shop.cart(film=3)
    before = shop.carts.get(cart_id)
    with pytest.raises(InadequateInventory) as caught:
        shop.carts.add_item(cart_id, "film", 3)
    assert caught.value.details["available"] == 2
    assert shop.carts.get(cart_id) == before
    assert shop.level("film") == (2, 3, 0)


def test_the_price_is_that_of_the_time_of_adding(shop: Shop) -> None:
    shop.stock("film", 10, price=500)
    cart_id = shop.cart(film=1)
    shop.db["commerce.products"].update_one({"_id": "film"}, {"$set": {"pricing.retail": 900}})
    shop.carts.add_item(cart_id, "film")
    assert shop.carts.get(cart_id)["items"][0]["price"] == 500
    assert shop.carts.get(shop.cart(film=1))["items"][0]["price"] == 900


REFUSED: list[tuple[Any, Callable[[Shop, str, str], object]]] = [
    (UnknownCart, lambda s, cart, closed: s.carts.add_item("nobody", "film")),
    (UnknownCart, lambda s, cart, closed: s.carts.set_quantity("nobody", "film", 1)),
    (UnknownCart, lambda s, cart, closed: s.carts.abandon("nobody")),
    (UnknownProduct, lambda s, cart, closed: s.carts.add_item(cart, "nothing")),
    (InadequateInventory, lambda s, cart, closed: s.carts.add_item(cart, "unstocked")),
    (UnknownLine, lambda s, cart, closed: s.carts.set_quantity(cart, "dollars", 1)),
    (UnknownLine, lambda s, cart, closed: s.carts.remove_item(cart, "dollars")),
    (WrongCurrency, lambda s, cart, closed: s.carts.add_item(cart, "dollars")),
    (CartClosed, lambda s, cart, closed: s.carts.add_item(closed, "film")),
    (CartClosed, lambda s, cart, closed: s.carts.set_quantity(closed, "film", 9)),
    (CartClosed, lambda s, cart, closed: s.carts.abandon(closed)),
    (CartLimit, lambda s, cart, closed: s.carts.add_item(cart, "dear", MAX_QTY)),
    (InadequateInventory, lambda s, cart, closed: s.carts.set_quantity(cart, "film", 100)),
    (InadequateInventory, lambda s, cart, closed: s.inventory.adjust("film", -100, "lost")),
    (UnknownProduct, lambda s, cart, closed: s.inventory.adjust("nothing", 1, "found")),
    (UnknownProduct, lambda s, cart, closed: s.inventory.level("nothing")),
    (Invalid, lambda s, cart, closed: s.inventory.adjust("film", 0, "nothing")),
    (Invalid, lambda s, cart, closed: s.inventory.receive("film", 0)),
    (Invalid, lambda s, cart, closed: s.carts.add_item(cart, "film", 0)),
    (Invalid, lambda s, cart, closed: s.carts.add_item(cart, "film", -1)),
    (Invalid, lambda s, cart, closed: s.carts.add_item(cart, {"$gt": ""}, 1)),  # type: ignore[arg-type]
    (Invalid, lambda s, cart, closed: s.carts.get({"$gt": ""})),  # type: ignore[arg-type]
    (Invalid, lambda s, cart, closed: s.carts.set_quantity(cart, "film", 1.5)),  # type: ignore[arg-type]
    (Invalid, lambda s, cart, closed: s.carts.all("nonsense")),
    (Invalid, lambda s, cart, closed: s.carts.expire_carts(-1)),
    (Invalid, lambda s, cart, closed: s.carts.expire_carts(1e12)),
    (Invalid, lambda s, cart, closed: s.carts.forget_carts(6 * 86_400)),
    (Invalid, lambda s, cart, closed: s.carts.forget_carts(True)),
    (Invalid, lambda s, cart, closed: s.carts.return_orphans(float("nan"))),
    (Invalid, lambda s, cart, closed: s.carts.settle_payments(True)),
    (Invalid, lambda s, cart, closed: s.inventory.levels([{"$gt": ""}])),  # type: ignore[list-item]
    (Invalid, lambda s, cart, closed: s.inventory.levels(["x"] * 1_001)),
]


@pytest.mark.parametrize(("error", "attempt"), REFUSED, ids=[f"{e.__name__}-{n}" for n, (e, _) in enumerate(REFUSED)])
def test_a_refusal_changes_nothing(shop: Shop, error: Any, attempt: Any) -> None:
    shop.stock("film", 10)
    shop.stock("unstocked", 0)
    shop.stock("dollars", 5, currency="USD")
    shop.stock("dear", 2 * MAX_QTY, price=10**12)
    cart, closed = shop.cart(film=2), shop.cart(film=1)
    shop.carts.checkout(closed, key="k")

    def stored() -> list[Any]:
        return [
            list(shop.db[name].find().sort("_id"))
            for name in ("commerce.stock", "commerce.carts", "commerce.reservations", "commerce.movements")
        ]

    before = stored()
    with pytest.raises(error):
        attempt(shop, cart, closed)
    assert stored() == before
    assert shop.db["squinney.keys"].count_documents({}) == 0


def test_stock_keeps_its_history(shop: Shop) -> None:
    shop.stock("film", 10)
    shop.inventory.adjust("film", -2, "broken")
    shop.inventory.adjust("film", 1, "found")
    assert shop.level("film") == (9, 0, 0)
    history = shop.inventory.movements("film", limit=2)
    rest = shop.inventory.movements("film", limit=2, cursor=history.next)
    changes = [(move["kind"], move["qty"]) for move in [*history.items, *rest.items]]
    assert sorted(changes) == [("adjusted", -2), ("adjusted", 1), ("received", 10)]


def test_a_line_keeps_few_and_short_details(shop: Shop) -> None:
    """A cart is one document: 100 lines must fit into it."""
    shop.stock("book", 1)
    numbers = {f"n {number}": number for number in range(50)}
    details = {"binding": "paper", "blurb": "x" * 190_000, **numbers}
    shop.db["commerce.products"].update_one({"_id": "book"}, {"$set": {"details": details}})
    kept = shop.carts.add_item(shop.cart(), "book")["items"][0]["details"]
    assert kept == {"binding": "paper", **{name: number for name, number in numbers.items() if number < 19}}


def test_a_key_adds_once(shop: Shop) -> None:
    shop.stock("film", 10)
    cart_id = shop.cart()
    first = shop.carts.add_item(cart_id, "film", 2, key="a")
    assert shop.carts.add_item(cart_id, "film", 2, key="a") == first
    assert shop.lines(cart_id) == {"film": 2}
    with pytest.raises(KeyReused):
        shop.carts.add_item(cart_id, "film", 3, key="a")


def test_a_repeat_with_the_key_returns_the_first_result_after_later_changes(shop: Shop) -> None:
    shop.stock("film", 10)
    cart_id = shop.cart()
    added = shop.carts.add_item(cart_id, "film", 2, key="a")
    removed = shop.carts.remove_item(cart_id, "film", key="a")
    assert shop.carts.remove_item(cart_id, "film", key="a") == removed
    with pytest.raises(KeyReused):
        shop.carts.set_quantity(cart_id, "film", 1, key="a")
    shop.carts.abandon(cart_id)
    assert shop.carts.add_item(cart_id, "film", 2, key="a") == added
    with pytest.raises(CartClosed):
        shop.carts.add_item(cart_id, "film", 2, key="b")


def test_an_idle_cart_expires_and_gives_back(shop: Shop) -> None:
    shop.stock("film", 10)
    old = shop.cart(film=4)
    shop.clock.pass_seconds(100)
    young = shop.cart(film=1)
    assert shop.carts.expire_carts(60) == {"expired": 1}
    assert shop.carts.get(old)["status"] == "expired"
    assert shop.carts.get(young)["status"] == "active"
    assert shop.level("film") == (9, 1, 0)
    assert shop.carts.expire_carts(60) == {}
    with pytest.raises(CartClosed):
        shop.carts.add_item(old, "film")


def test_an_expiry_that_was_interrupted_goes_on(shop: Shop) -> None:
    shop.stock("film", 10)
    cart_id = shop.cart(film=4)
    shop.db["commerce.carts"].update_one({"_id": cart_id}, {"$set": {"status": "expiring"}})
    shop.clock.pass_seconds(1)
    assert shop.carts.expire_carts(60) == {"expired": 1}
    assert shop.level("film") == (10, 0, 0)


class Stuck(Transactions):
    """No run succeeds, as with a damaged stock that cannot take back what a cart holds."""

    def __init__(self, shop: Shop) -> None:
        super().__init__(shop.db)

    def run(self, *args: Any, **kwargs: Any) -> Outcome:
        raise Busy("the stock stayed in use")


def test_a_cart_that_cannot_expire_lets_all_others_go_first(shop: Shop) -> None:
    """Otherwise a few such carts, which are the oldest, would use up the job's time in every call."""
    shop.stock("film", 10)
    oldest = shop.cart(film=1)
    shop.clock.pass_seconds(10)
    interrupted = shop.cart()
    carts = Carts(shop.db, payments=shop.gateway, transactions=Stuck(shop), clock=shop.clock)
    shop.clock.pass_seconds(55)
    assert carts.expire_carts(60) == {"left for later": 1}
    shop.db["commerce.carts"].update_one({"_id": interrupted}, {"$set": {"status": "expiring"}})
    assert [cart["_id"] for cart in carts.all("expiring").items] == [interrupted, oldest]


class SlowOnce(Transactions):
    """The first run takes too long."""

    def __init__(self, shop: Shop) -> None:
        super().__init__(shop.db)
        self._is_slow = True

    def run(self, *args: Any, **kwargs: Any) -> Outcome:
        if self._is_slow:
            self._is_slow = False
            raise Unavailable("MongoDB took too long to answer")
        return super().run(*args, **kwargs)


def test_a_job_whose_time_is_over_leaves_the_rest_to_its_next_run(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.stock("film", 10)
    cart_id = shop.cart(film=2)
    shop.clock.pass_seconds(3_600)
    with monkeypatch.context() as patched:
        patched.setattr(expiry, "LAST_SECONDS", 10_000)
        assert shop.carts.expire_carts(60) == {}
        assert shop.carts.get(cart_id)["status"] == "active"
    assert shop.carts.expire_carts(60) == {"expired": 1}
    assert shop.carts.get(cart_id)["status"] == "expired"


def test_a_cart_that_takes_too_long_to_expire_does_not_stop_the_others(shop: Shop) -> None:
    shop.stock("film", 10)
    for _ in range(2):
        shop.cart(film=1)
        shop.clock.pass_seconds(10)
    carts = Carts(shop.db, payments=shop.gateway, transactions=SlowOnce(shop), clock=shop.clock)
    shop.clock.pass_seconds(55)
    assert carts.expire_carts(60) == {"expired": 1, "left for later": 1}
    shop.clock.pass_seconds(1)
    assert carts.expire_carts(60) == {"expired": 1}
    assert shop.level("film") == (10, 0, 0)


def test_a_guests_cart_is_claimed_once_and_not_while_it_is_paid_for(shop: Shop) -> None:
    shop.stock("film", 10)
    cart_id = shop.cart(film=1)
    assert shop.carts.claim(cart_id, "ada")["customer"] == "ada"
    assert shop.carts.claim(cart_id, "ben")["customer"] == "ada"
    assert shop.carts.checkout(cart_id, key="pay")["customer"] == "ada"
    pending = shop.cart(film=1)
    shop.db["commerce.carts"].update_one({"_id": pending}, {"$set": {"status": "pending"}})
    assert "customer" not in shop.carts.claim(pending, "ada")
    with pytest.raises(UnknownCart):
        shop.carts.claim("none", "ada")


def test_abandoning_gives_everything_back_at_once(shop: Shop) -> None:
    shop.stock("film", 10)
    shop.stock("album", 3)
    cart_id = shop.cart(film=4, album=3)
    assert shop.carts.abandon(cart_id)["status"] == "expired"
    assert (shop.level("film"), shop.level("album")) == ((10, 0, 0), (3, 0, 0))


def test_abandoning_again_changes_nothing(shop: Shop) -> None:
    shop.stock("film", 5)
    cart_id = shop.cart(film=2)
    assert [cart["status"] for cart in at_once(4, lambda _: shop.carts.abandon(cart_id))] == ["expired"] * 4
    assert shop.level("film") == (5, 0, 0)


def test_a_cart_that_is_reopened_meanwhile_is_busy_and_not_closed(shop: Shop, mongod: Embedded) -> None:
    cart_id = shop.cart()
    set_status(shop, cart_id, "pending")
    reopened = meanwhile(mongod, shop.db, lambda: set_status(shop, cart_id, "active"), "find", "commerce.carts")
    with reopened as db, pytest.raises(Busy):
        Shop(db).carts.abandon(cart_id)
    assert shop.carts.abandon(cart_id)["status"] == "expired"


def set_status(shop: Shop, cart_id: str, status: str) -> None:
    shop.db["commerce.carts"].update_one({"_id": cart_id}, {"$set": {"status": status}})


def test_expired_carts_are_forgotten_with_their_attempts(shop: Shop) -> None:
    """Carts with an order, and carts with an open payment attempt, are kept with all their attempts."""
    shop.stock("film", 20)
    shop.gateway.behaviour = "decline"
    declined, late, young, paid, idle = (shop.cart(film=1) for _ in range(5))
    for cart_id in (declined, late, late, young, paid):
        with pytest.raises(PaymentDeclined):
            shop.carts.checkout(cart_id, key="k")
    shop.gateway.behaviour = "capture"
    shop.carts.checkout(paid, key="k")
    for cart_id in (declined, late):
        shop.carts.abandon(cart_id)
    shop.db["commerce.payments"].update_one({"cart_id": late}, {"$set": {"state": "refunding"}})
    shop.clock.pass_seconds(30 * 86_400)
    shop.carts.abandon(young)
    shop.clock.pass_seconds(1)
    assert shop.carts.forget_carts(30 * 86_400) == {"carts": 1, "payments": 1}
    with pytest.raises(UnknownCart):
        shop.carts.get(declined)
    left = {cart_id: len(shop.carts.payments_of(cart_id)) for cart_id in (declined, late, young, paid, idle)}
    assert left == {declined: 0, late: 2, young: 1, paid: 2, idle: 0}
    assert shop.carts.checkout(paid, key="k") == shop.orders.get(paid)
    assert shop.orders.cancel(paid)["status"] == "cancelled"
    assert shop.carts.get(idle)["status"] == "active"
    assert shop.carts.forget_carts(30 * 86_400) == {}
    assert [problem.code for problem in find_problems(shop.db)] == ["stalled-refund"]


def test_how_long_carts_are_kept_can_be_set() -> None:
    assert keep_seconds_for({}) == 90 * 86_400
    assert keep_seconds_for({"SQUINNEY_KEEP_CARTS_DAYS": "7"}) == 7 * 86_400
    for days in ("6", "-7", "7.5", "³", "36501", "9" * 5_000):
        with pytest.raises(Invalid, match="SQUINNEY_KEEP_CARTS_DAYS"):
            keep_seconds_for({"SQUINNEY_KEEP_CARTS_DAYS": days})


def test_an_invalid_time_to_keep_carts_fails_at_startup(db: Db, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQUINNEY_KEEP_CARTS_DAYS", "ninety")
    with pytest.raises(Invalid, match="SQUINNEY_KEEP_CARTS_DAYS"):
        assembly.assemble(db)


def test_orphans_go_back_and_others_stay(shop: Shop) -> None:
    """Reservations of active and pending carts are kept; those of a complete cart never return to stock."""
    shop.stock("film", 20)
    gone, expired, active, pending = (shop.cart(film=1) for _ in range(4))
    shop.db["commerce.carts"].delete_one({"_id": gone})
    shop.db["commerce.carts"].update_one({"_id": expired}, {"$set": {"status": "expired"}})
    shop.gateway.behaviour = "timeout"
    with pytest.raises(Exception, match="has not reported the outcome"):
        shop.carts.checkout(pending, key="k")
    shop.gateway.behaviour = "capture"
    complete = shop.cart(film=1)
    shop.carts.checkout(complete, key="k")
    # What the book's checkout leaves behind: a reservation of sold goods.
    shop.db["commerce.reservations"].insert_one(
        {"_id": {"sku": "film", "cart": complete}, "qty": 1, "at": shop.clock()}
    )
    shop.clock.pass_seconds(10**6)
    assert shop.carts.return_orphans(60) == {"returned": 2}
    left = {held["_id"]["cart"] for held in shop.db["commerce.reservations"].find()}
    assert left == {active, pending, complete}
    assert shop.inventory.level("film")["qty"] == 17
    assert shop.carts.return_orphans(60) == {}


def test_units_of_an_unknown_product_cannot_be_received(shop: Shop) -> None:
    with pytest.raises(UnknownProduct, match="there is no product flim"):
        shop.inventory.receive("flim", 5)
    assert shop.db["commerce.stock"].count_documents({}) == shop.db["commerce.movements"].count_documents({}) == 0


def test_a_removed_product_is_received_again_only_after_it_was_added_again(shop: Shop) -> None:
    shop.stock("film", 5)
    Catalog(shop.db, transactions=shop.transactions).remove("film")
    with pytest.raises(UnknownProduct):
        shop.inventory.receive("film", 1)
    Catalog(shop.db).add(product("film"))
    assert shop.inventory.receive("film", 1)["qty"] == 6
