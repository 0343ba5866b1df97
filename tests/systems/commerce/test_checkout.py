"""Tests of every outcome of a checkout."""

from __future__ import annotations

from contextlib import suppress
from threading import Timer
from typing import Any

import pytest
from tests.systems.commerce.conftest import Shop

from squinney.commerce import (
    CartClosed,
    CartEmpty,
    Carts,
    Charge,
    CheckoutRunning,
    InadequateInventory,
    OrderFixed,
    Orders,
    PaymentDeclined,
    PaymentRefunded,
    PaymentUnsettled,
    UnknownCart,
    find_problems,
)
from squinney.errors import Invalid
from squinney.transactions import Outcome, Transactions


def charges(shop: Shop) -> dict[str, int]:
    """Return how many charges the provider has in each state."""
    found = [charge["state"] for charge in shop.db["commerce.test_charges"].find()]
    return {state: found.count(state) for state in found}


def states(shop: Shop, cart_id: str) -> list[str]:
    """Return the states of the cart's payment attempts."""
    return [payment["state"] for payment in shop.carts.payments_of(cart_id)]


def require_paired(shop: Shop) -> None:
    """Assert that each captured payment has exactly one order, and the reverse."""
    captured = sorted(payment["_id"] for payment in shop.db["commerce.payments"].find({"state": "captured"}))
    ordered = sorted(order["payment_id"] for order in shop.db["commerce.orders"].find({"status": "placed"}))
    assert captured == ordered
    assert charges(shop).get("captured", 0) == len(captured)


def test_a_paid_cart_becomes_an_order(shop: Shop) -> None:
    shop.stock("film", 10)
    shop.stock("album", 5, price=250)
    cart_id = shop.carts.new(customer="ada")["_id"]
    shop.carts.add_item(cart_id, "film", 2)
    shop.carts.add_item(cart_id, "album", 1)
    order = shop.carts.checkout(cart_id, key="k")
    assert (order["_id"], order["total"], order["currency"], order["status"]) == (cart_id, 1250, "EUR", "placed")
    assert [line["sku"] for line in order["items"]] == ["film", "album"]
    assert shop.carts.get(cart_id)["status"] == "complete"
    assert (shop.level("film"), shop.level("album")) == ((8, 0, 2), (4, 0, 1))
    assert shop.orders.by_customer("ada").items == [order]
    assert shop.inventory.movements("film").items[0]["kind"] in ("sold", "received")
    require_paired(shop)


def test_what_costs_nothing_is_not_charged_nor_refunded(shop: Shop) -> None:
    """Providers refuse an amount of 0."""
    shop.stock("leaflet", 5, price=0)
    cart_id = shop.cart(leaflet=2)
    shop.gateway.behaviour = "timeout"
    assert shop.carts.checkout(cart_id, key="k")["total"] == 0
    assert shop.level("leaflet") == (3, 0, 2)
    assert shop.orders.cancel(cart_id)["status"] == "cancelled"
    assert (shop.level("leaflet"), shop.db["commerce.test_charges"].count_documents({})) == ((5, 0, 0), 0)


def test_what_costs_nothing_is_settled_without_a_provider(shop: Shop) -> None:
    """The process died after the attempt was stored."""
    shop.stock("leaflet", 5, price=0)
    cart_id = shop.cart(leaflet=2)
    shop.carts._checkout._begin(cart_id, "k", ())
    shop.clock.pass_seconds(100)
    assert shop.carts.settle_payments(60) == {"captured": 1}
    assert shop.orders.get(cart_id)["status"] == "placed"


def test_the_same_key_gives_the_same_order_and_another_is_refused(shop: Shop) -> None:
    shop.stock("film", 10)
    cart_id = shop.cart(film=2)
    order = shop.carts.checkout(cart_id, key="k")
    assert shop.carts.checkout(cart_id, key="k") == order
    with pytest.raises(CartClosed):
        shop.carts.checkout(cart_id, key="other")
    assert charges(shop) == {"captured": 1}


def test_the_same_key_gives_the_same_order_also_when_it_was_cancelled(shop: Shop) -> None:
    shop.stock("film", 10)
    cart_id = shop.cart(film=2)
    shop.carts.checkout(cart_id, key="k")
    cancelled = shop.orders.cancel(cart_id)
    assert shop.carts.checkout(cart_id, key="k") == cancelled
    assert shop.carts.settle(f"{cart_id}:1")["state"] == "refunded"


def test_a_payment_is_refunded_only_if_a_refund_is_due(shop: Shop) -> None:
    """Otherwise a payment would be refunded although its order is still placed."""
    shop.stock("film", 10)
    cart_id = shop.cart(film=2)
    shop.carts.checkout(cart_id, key="k")
    with pytest.raises(OrderFixed, match="captured"):
        shop.orders.refund(shop.carts.payments_of(cart_id)[0])
    assert charges(shop) == {"captured": 1}
    require_paired(shop)
    shop.orders.cancel(cart_id)
    shop.orders.refund(shop.carts.payments_of(cart_id)[0])
    assert charges(shop) == {"refunded": 1}


def test_a_decline_reopens_the_cart(shop: Shop) -> None:
    shop.stock("film", 10)
    cart_id = shop.cart(film=2)
    shop.gateway.behaviour = "decline"
    with pytest.raises(PaymentDeclined):
        shop.carts.checkout(cart_id, key="k")
    assert (shop.carts.get(cart_id)["status"], shop.level("film")) == ("active", (8, 2, 0))
    shop.gateway.behaviour = "capture"
    shop.carts.add_item(cart_id, "film", 1)
    assert shop.carts.checkout(cart_id, key="k")["total"] == 1500
    assert states(shop, cart_id) == ["declined", "captured"]
    require_paired(shop)


def test_captured_but_not_answered_is_one_charge_and_one_order(shop: Shop) -> None:
    shop.stock("film", 10)
    cart_id = shop.cart(film=2)
    shop.gateway.behaviour = "capture-then-timeout"
    with pytest.raises(PaymentUnsettled) as caught:
        shop.carts.checkout(cart_id, key="k")
    assert caught.value.outcome_unknown
    assert shop.carts.get(cart_id)["status"] == "pending"
    shop.clock.pass_seconds(100)
    assert shop.carts.settle_payments(60) == {"captured": 1}
    assert shop.carts.settle_payments(60) == {}
    assert shop.carts.checkout(cart_id, key="k")["_id"] == cart_id
    assert (charges(shop), shop.level("film")) == ({"captured": 1}, (8, 0, 2))
    require_paired(shop)


def test_what_was_refunded_at_the_provider_reopens_the_cart(shop: Shop) -> None:
    """For example by a person, before we learned of the capture."""
    shop.stock("film", 10)
    cart_id = shop.cart(film=2)
    shop.gateway.behaviour = "capture-then-timeout"
    with pytest.raises(PaymentUnsettled):
        shop.carts.checkout(cart_id, key="k")
    shop.db["commerce.test_charges"].update_one({}, {"$set": {"state": "refunded"}})
    shop.clock.pass_seconds(100)
    assert shop.carts.settle_payments(60) == {"refunded": 1}
    assert (shop.carts.get(cart_id)["status"], shop.level("film")) == ("active", (8, 2, 0))
    shop.gateway.behaviour = "capture"
    shop.carts.checkout(cart_id, key="k")
    require_paired(shop)


def test_a_repeat_with_the_key_settles_it_too(shop: Shop) -> None:
    shop.stock("film", 10)
    cart_id = shop.cart(film=2)
    shop.gateway.behaviour = "capture-then-timeout"
    with pytest.raises(PaymentUnsettled):
        shop.carts.checkout(cart_id, key="k")
    with pytest.raises(CheckoutRunning):
        shop.carts.checkout(cart_id, key="other")
    shop.gateway.behaviour = "capture"
    assert shop.carts.checkout(cart_id, key="k")["total"] == 1000
    assert charges(shop) == {"captured": 1}
    require_paired(shop)


def test_a_timeout_is_cancelled_before_the_cart_reopens_and_a_late_capture_fails(shop: Shop) -> None:
    shop.stock("film", 10)
    cart_id = shop.cart(film=2)
    shop.gateway.behaviour = "timeout"
    with pytest.raises(PaymentUnsettled):
        shop.carts.checkout(cart_id, key="k")
    shop.clock.pass_seconds(30)
    assert shop.carts.settle_payments(60) == {}
    shop.clock.pass_seconds(60)
    assert shop.carts.settle_payments(60) == {"cancelled": 1}
    assert shop.carts.get(cart_id)["status"] == "active"
    shop.gateway.behaviour = "capture"
    late = shop.gateway.capture(f"{cart_id}:1", 1000, "EUR", note=lambda intent: None)
    assert late.state == "cancelled"
    shop.carts.checkout(cart_id, key="k2")
    assert charges(shop) == {"cancelled": 1, "captured": 1}
    require_paired(shop)


def test_an_error_in_the_providers_client_is_logged(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyError("amount_received")

    shop.stock("film", 10)
    paid = shop.cart(film=1)
    shop.carts.checkout(paid, key="k")
    for method in ("capture", "status", "refund"):
        monkeypatch.setattr(shop.gateway, method, fail)
    cart_id = shop.cart(film=2)
    calls = [
        lambda: shop.carts.checkout(cart_id, key="k"),
        lambda: shop.orders.cancel(paid),
        lambda: shop.carts.settle_payments(0),
    ]
    for number, call in enumerate(calls):
        caplog.clear()
        with suppress(PaymentUnsettled):
            call()
        shop.clock.pass_seconds(60)
        assert "KeyError('amount_received')" in caplog.text, number


def test_a_pending_cart_older_than_every_timeout_keeps_its_goods(shop: Shop) -> None:
    shop.stock("film", 10)
    cart_id = shop.cart(film=2)
    shop.gateway.behaviour = "timeout"
    with pytest.raises(PaymentUnsettled):
        shop.carts.checkout(cart_id, key="k")
    shop.clock.pass_seconds(10**7)
    assert shop.carts.expire_carts(1) == {}
    assert shop.carts.return_orphans(1) == {}
    assert (shop.carts.get(cart_id)["status"], shop.level("film")) == ("pending", (8, 2, 0))
    for attempt in (
        lambda: shop.carts.add_item(cart_id, "film"),
        lambda: shop.carts.remove_item(cart_id, "film"),
        lambda: shop.carts.abandon(cart_id),
    ):
        with pytest.raises(CartClosed):
            attempt()


def captured_late(shop: Shop, cart_id: str) -> str:
    """Let the provider capture an attempt that we cancelled; return the payment's id."""
    shop.gateway.behaviour = "timeout"
    with pytest.raises(PaymentUnsettled):
        shop.carts.checkout(cart_id, key="k")
    shop.clock.pass_seconds(100)
    shop.carts.settle_payments(60)
    payment_id = f"{cart_id}:1"
    shop.db["commerce.test_charges"].update_one({"_id": payment_id}, {"$set": {"state": "captured"}})
    shop.gateway.behaviour = "capture"
    return payment_id


def test_a_late_success_completes_a_cart_that_is_unchanged(shop: Shop) -> None:
    shop.stock("film", 10)
    cart_id = shop.cart(film=2)
    payment_id = captured_late(shop, cart_id)
    assert shop.carts.settle(payment_id)["state"] == "captured"
    assert (shop.carts.get(cart_id)["status"], shop.level("film")) == ("complete", (8, 0, 2))
    assert shop.carts.checkout(cart_id, key="k") == shop.orders.get(cart_id)
    require_paired(shop)


def test_a_late_success_for_an_expired_cart_takes_the_goods_again(shop: Shop) -> None:
    shop.stock("film", 2)
    cart_id = shop.cart(film=2)
    payment_id = captured_late(shop, cart_id)
    shop.carts.abandon(cart_id)
    assert shop.carts.settle(payment_id)["state"] == "captured"
    assert (shop.orders.get(cart_id)["total"], shop.level("film")) == (1000, (0, 0, 2))
    require_paired(shop)


def test_a_late_success_is_refunded_where_the_goods_are_gone(shop: Shop) -> None:
    shop.stock("film", 2)
    cart_id = shop.cart(film=2)
    payment_id = captured_late(shop, cart_id)
    shop.carts.abandon(cart_id)
    shop.carts.checkout(shop.cart(film=1), key="k")
    assert shop.carts.settle(payment_id)["state"] == "refunded"
    assert (charges(shop), shop.level("film")) == ({"refunded": 1, "captured": 1}, (1, 0, 1))
    require_paired(shop)


def test_a_refund_is_recorded_after_a_run_that_holds_the_payment(shop: Shop) -> None:
    shop.stock("film", 2)
    cart_id = shop.cart(film=2)
    payment_id = captured_late(shop, cart_id)
    shop.carts.abandon(cart_id)
    shop.carts.checkout(shop.cart(film=1), key="k")

    class HoldsPayment(Transactions):
        """After a run without enough stock, another transaction holds the payment for a moment."""

        def run(self, *args: Any, **kwargs: Any) -> Outcome:
            try:
                return super().run(*args, **kwargs)
            except InadequateInventory:
                other = shop.db.client.start_session()
                other.start_transaction()
                shop.db["commerce.payments"].update_one({"_id": payment_id}, {"$inc": {"amount": 1}}, session=other)
                Timer(0.3, other.end_session).start()  # aborts
                raise

    carts = Carts(shop.db, payments=shop.gateway, transactions=HoldsPayment(shop.db), clock=shop.clock)
    assert carts.settle(payment_id)["state"] == "refunded"


def test_a_late_success_during_a_second_attempt_is_refunded(shop: Shop) -> None:
    shop.stock("film", 10)
    cart_id = shop.cart(film=2)
    payment_id = captured_late(shop, cart_id)
    shop.carts.checkout(cart_id, key="again")
    assert shop.carts.settle(payment_id)["state"] == "refunded"
    assert states(shop, cart_id) == ["refunded", "captured"]
    require_paired(shop)


def test_a_late_success_for_a_cart_that_was_deleted_is_refunded(shop: Shop) -> None:
    shop.stock("film", 10)
    cart_id = shop.cart(film=2)
    payment_id = captured_late(shop, cart_id)
    shop.db["commerce.carts"].delete_one({"_id": cart_id})
    assert shop.carts.settle(payment_id)["state"] == "refunded"
    shop.clock.pass_seconds(100)
    shop.carts.return_orphans(60)
    assert shop.level("film") == (10, 0, 0)


def test_a_checkout_whose_goods_are_no_longer_available_reports_a_refund(shop: Shop) -> None:
    """The provider captures a cancelled attempt against the contract, and the stalled checkout continues."""
    shop.stock("film", 2)
    cart_id = shop.cart(film=2)
    capture = shop.gateway.capture

    def stalled(key: str, amount: int, currency: str, *, note: Any) -> Charge:
        note("late")
        shop.clock.pass_seconds(100)
        shop.carts.settle_payments(60)
        shop.carts.abandon(cart_id)
        shop.gateway.capture = capture  # type: ignore[method-assign]
        shop.carts.checkout(shop.cart(film=1), key="k")
        shop.db["commerce.test_charges"].update_one({"_id": key}, {"$set": {"state": "captured"}})
        return Charge("captured", "late")

    shop.gateway.capture = stalled  # type: ignore[method-assign]
    with pytest.raises(PaymentRefunded):
        shop.carts.checkout(cart_id, key="k")
    assert shop.level("film") == (1, 0, 1)
    require_paired(shop)


def test_an_attempt_settled_meanwhile_does_not_charge(shop: Shop) -> None:
    """A checkout that stalls before it calls the provider finds the cart reopened, and charges nothing."""
    shop.stock("film", 2)
    cart_id = shop.cart(film=2)
    capture = shop.gateway.capture

    def stalled(key: str, amount: int, currency: str, *, note: Any) -> Charge:
        shop.clock.pass_seconds(100)
        shop.carts.settle_payments(60)
        return capture(key, amount, currency, note=note)

    shop.gateway.capture = stalled  # type: ignore[method-assign]
    with pytest.raises(PaymentDeclined):
        shop.carts.checkout(cart_id, key="k")
    assert (charges(shop), shop.carts.get(cart_id)["status"]) == ({"cancelled": 1}, "active")


def test_a_silent_provider_leaves_the_attempt_open(shop: Shop) -> None:
    shop.stock("film", 10)
    cart_id = shop.cart(film=2)
    shop.gateway.behaviour = "timeout"
    with pytest.raises(PaymentUnsettled):
        shop.carts.checkout(cart_id, key="k")

    def silent(attempt: object) -> Charge:
        raise ConnectionError

    shop.gateway.status = silent  # type: ignore[method-assign]
    shop.clock.pass_seconds(100)
    assert shop.carts.settle_payments(60) == {"left for later": 1}
    assert (states(shop, cart_id), shop.carts.get(cart_id)["status"]) == (["started"], "pending")


def test_what_cannot_be_checked_out(shop: Shop) -> None:
    shop.stock("film", 10)
    with pytest.raises(CartEmpty):
        shop.carts.checkout(shop.cart(), key="k")
    with pytest.raises(UnknownCart):
        shop.carts.checkout("nobody", key="k")
    gone = shop.cart(film=1)
    shop.carts.abandon(gone)
    with pytest.raises(CartClosed):
        shop.carts.checkout(gone, key="k")
    for key in ("", None, {"$gt": ""}, "k" * 201):
        with pytest.raises(Invalid, match=r"^key"):
            shop.carts.checkout(shop.cart(film=1), key=key)  # type: ignore[arg-type]


def test_cancelling_a_paid_order_refunds_and_restocks(shop: Shop) -> None:
    shop.stock("film", 10)
    cart_id = shop.cart(film=2)
    shop.carts.checkout(cart_id, key="k")
    assert shop.orders.cancel(cart_id)["status"] == "cancelled"
    assert shop.orders.cancel(cart_id)["status"] == "cancelled"
    assert (charges(shop), shop.level("film"), states(shop, cart_id)) == ({"refunded": 1}, (10, 0, 0), ["refunded"])


def test_a_refund_without_answer_is_finished_by_the_job(shop: Shop) -> None:
    shop.stock("film", 10)
    cart_id = shop.cart(film=2)
    shop.carts.checkout(cart_id, key="k")
    refund = shop.gateway.refund

    def silent(attempt: Any) -> Charge:
        refund(attempt)
        raise ConnectionError

    shop.gateway.refund = silent  # type: ignore[method-assign]
    with pytest.raises(PaymentUnsettled):
        shop.orders.cancel(cart_id)
    assert (shop.orders.get(cart_id)["status"], shop.level("film")) == ("cancelling", (8, 0, 2))
    shop.gateway.refund = refund  # type: ignore[method-assign]
    shop.clock.pass_seconds(100)
    assert shop.carts.settle_payments(60) == {"refunded": 1}
    assert (shop.orders.get(cart_id)["status"], shop.level("film")) == ("cancelled", (10, 0, 0))
    assert charges(shop) == {"refunded": 1}


def test_a_double_charge_is_refunded_also_where_the_orders_have_no_gateway(shop: Shop) -> None:
    """The gateway of the carts, which charged the payment, refunds it."""
    shop.stock("film", 10)
    orders = Orders(shop.db, transactions=shop.transactions, clock=shop.clock)
    shop.carts = Carts(shop.db, payments=shop.gateway, orders=orders, transactions=shop.transactions, clock=shop.clock)
    cart_id = shop.cart(film=2)
    payment_id = captured_late(shop, cart_id)
    shop.carts.checkout(cart_id, key="again")
    assert shop.carts.settle(payment_id)["state"] == "refunded"
    assert charges(shop) == {"refunded": 1, "captured": 1}


def test_a_refund_at_the_provider_cancels_the_order_and_restocks(shop: Shop) -> None:
    shop.stock("film", 10)
    cart_id = shop.cart(film=2)
    shop.carts.checkout(cart_id, key="k")
    shop.db["commerce.test_charges"].update_one({}, {"$set": {"state": "refunded"}})
    for _ in range(2):  # a provider tells everything at least once
        assert shop.carts.settle(f"{cart_id}:1")["state"] == "refunded"
    assert (shop.orders.get(cart_id)["status"], shop.level("film")) == ("cancelled", (10, 0, 0))
    require_paired(shop)
    assert list(find_problems(shop.db)) == []
