"""Tests of the Stripe adapter against a local stand-in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.systems.commerce.conftest import Shop
from tests.systems.commerce.stripe_stand_in import StripeStandIn

from squinney.commerce import Attempt, Carts, Orders, PaymentDeclined, PaymentNeedsAction, PaymentUnsettled
from squinney.commerce.jobs import gateway_for
from squinney.commerce.payments.stripe_gateway import StripeGateway
from squinney.errors import Invalid
from squinney.mongo.schema import Db

KEY = "sk_test_stand_in"


@pytest.fixture
def stripe() -> Iterator[StripeStandIn]:
    """A running stand-in."""
    with StripeStandIn() as stand_in:
        yield stand_in


@pytest.fixture
def shop(shop_db: Db, stripe: StripeStandIn) -> Shop:
    """A shop that charges with the stand-in."""
    shop = Shop(shop_db)
    gateway = StripeGateway(KEY, base_url=stripe.url, timeout_seconds=5)
    shop.orders = Orders(shop_db, payments=gateway, clock=shop.clock)
    shop.carts = Carts(shop_db, payments=gateway, orders=shop.orders, clock=shop.clock)
    shop.stock("film", 10)
    return shop


def states(stripe: StripeStandIn) -> list[str]:
    """Return the statuses of the intents."""
    return [intent["status"] for intent in stripe.intents.values()]


def test_a_charge_is_made_once_and_its_intent_kept(shop: Shop, stripe: StripeStandIn) -> None:
    cart_id = shop.cart(film=2)
    shop.carts.checkout(cart_id, key="k")
    shop.carts.checkout(cart_id, key="k")
    assert stripe.intents["pi_1"]["amount"] == 1000
    assert stripe.intents["pi_1"]["metadata"] == {"attempt": f"{cart_id}:1"}
    assert (states(stripe), shop.carts.payments_of(cart_id)[0]["intent"]) == (["succeeded"], "pi_1")


def test_a_declined_card_reopens_the_cart_and_ends_the_intent(shop: Shop, stripe: StripeStandIn) -> None:
    cart_id = shop.cart(film=2)
    stripe.decline = True
    with pytest.raises(PaymentDeclined, match="Your card was declined"):
        shop.carts.checkout(cart_id, key="k")
    assert (shop.carts.get(cart_id)["status"], states(stripe)) == ("active", ["canceled"])
    stripe.decline = False
    shop.carts.checkout(cart_id, key="k")
    assert states(stripe) == ["canceled", "succeeded"]


def test_a_payment_that_the_buyer_must_confirm_is_ended_and_named(shop: Shop, stripe: StripeStandIn) -> None:
    cart_id = shop.cart(film=2)
    stripe.needs_action = True
    with pytest.raises(PaymentNeedsAction, match="use another card") as refused:
        shop.carts.checkout(cart_id, key="k")
    assert (refused.value.code, shop.carts.get(cart_id)["status"]) == ("payment-needs-action", "active")
    assert (states(stripe), shop.carts.payments_of(cart_id)[0]["state"]) == (["canceled"], "needs_action")
    stripe.needs_action = False
    shop.carts.checkout(cart_id, key="k")
    assert states(stripe) == ["canceled", "succeeded"]


def test_a_payment_left_for_the_buyer_to_confirm_is_cancelled(shop: Shop, stripe: StripeStandIn) -> None:
    """The process died after the confirmation: Stripe waits for the buyer, and a job cancels that."""
    cart_id = shop.cart(film=2)
    stripe.needs_action, stripe.drop_answer_of = True, "confirm"
    with pytest.raises(PaymentUnsettled):
        shop.carts.checkout(cart_id, key="k")
    stripe.drop_answer_of = ""
    shop.clock.pass_seconds(100)
    shop.carts.settle_payments(60)
    assert (shop.carts.get(cart_id)["status"], states(stripe)) == ("active", ["canceled"])


def test_an_amount_that_stripe_does_not_take_reopens_the_cart(shop: Shop, stripe: StripeStandIn) -> None:
    shop.stock("badge", 5, price=49)
    cart_id = shop.cart(badge=1)
    with pytest.raises(PaymentDeclined, match="at least"):
        shop.carts.checkout(cart_id, key="k")
    assert (shop.carts.get(cart_id)["status"], stripe.intents) == ("active", {})
    shop.carts.add_item(cart_id, "badge")
    shop.carts.checkout(cart_id, key="k")


@pytest.mark.parametrize(
    ("currency", "amount", "asked"),
    [
        ("EUR", 1_250, 1_250),
        ("JPY", 500, 500),
        ("KWD", 5_120, 5_120),
        ("ISK", 500, 50_000),
        ("UGX", 7, 700),
        ("MGA", 50_000, 500),
    ],
)
def test_amounts_are_converted_to_stripes_units(stripe: StripeStandIn, currency: str, amount: int, asked: int) -> None:
    """The minor units of some currencies differ between Stripe and ISO 4217."""
    StripeGateway(KEY, base_url=stripe.url).capture("c:1", amount, currency, note=lambda intent: None)
    assert [(intent["amount"], intent["currency"]) for intent in stripe.intents.values()] == [(asked, currency.lower())]


def test_an_amount_smaller_than_stripes_unit_is_declined(stripe: StripeStandIn) -> None:
    charge = StripeGateway(KEY, base_url=stripe.url).capture("c:1", 50_020, "MGA", note=lambda intent: None)
    assert (charge.state, charge.reason, stripe.intents) == ("declined", "Stripe charges only whole amounts of MGA", {})


def test_an_attempt_that_stripe_does_not_take_is_settled(shop: Shop, stripe: StripeStandIn) -> None:
    """The attempt was stored, and the process died before it called Stripe."""
    shop.stock("badge", 5, price=49)
    cart_id = shop.cart(badge=1)
    stripe.drop_answer_of = "payment_intents"
    with pytest.raises(PaymentUnsettled):
        shop.carts.checkout(cart_id, key="k")
    stripe.drop_answer_of = ""
    shop.clock.pass_seconds(100)
    shop.carts.settle_payments(60)
    assert (shop.carts.get(cart_id)["status"], stripe.intents) == ("active", {})


@pytest.mark.parametrize(
    ("lost", "status", "intents"),
    [("payment_intents", "active", ["canceled"]), ("confirm", "complete", ["succeeded"])],
)
def test_a_lost_answer_is_settled(
    shop: Shop, stripe: StripeStandIn, lost: str, status: str, intents: list[str]
) -> None:
    """Stripe's response to creating or to confirming the intent is lost."""
    cart_id = shop.cart(film=2)
    stripe.drop_answer_of = lost
    with pytest.raises(PaymentUnsettled):
        shop.carts.checkout(cart_id, key="k")
    assert shop.carts.get(cart_id)["status"] == "pending"
    stripe.drop_answer_of = ""
    shop.clock.pass_seconds(100)
    shop.carts.settle_payments(60)
    assert (shop.carts.get(cart_id)["status"], states(stripe)) == (status, intents)
    assert shop.db["commerce.orders"].count_documents({}) == (status == "complete")


def test_a_capture_after_a_cancellation_fails(stripe: StripeStandIn) -> None:
    """Even if the attempt was cancelled before the provider knew it."""
    gateway = StripeGateway(KEY, base_url=stripe.url)
    assert gateway.status(Attempt("c:1", 500, "EUR")).state == "open"
    assert gateway.cancel(Attempt("c:1", 500, "EUR")).state == "cancelled"
    assert gateway.cancel(Attempt("c:1", 500, "EUR", "pi_1")).state == "cancelled"
    assert gateway.capture("c:1", 500, "EUR", note=lambda intent: None).state == "cancelled"
    assert states(stripe) == ["canceled"]


def test_what_was_captured_is_not_cancelled(stripe: StripeStandIn) -> None:
    gateway = StripeGateway(KEY, base_url=stripe.url)
    assert gateway.capture("c:1", 500, "EUR", note=lambda intent: None).state == "captured"
    assert gateway.cancel(Attempt("c:1", 500, "EUR")).state == "captured"


def test_nothing_is_charged_where_the_intent_cannot_be_noted(stripe: StripeStandIn) -> None:
    def refuse(intent: str) -> None:
        raise RuntimeError("settled elsewhere")

    with pytest.raises(RuntimeError):
        StripeGateway(KEY, base_url=stripe.url).capture("c:1", 500, "EUR", note=refuse)
    assert states(stripe) == ["requires_payment_method"]


def test_a_cancelled_order_is_refunded_once(shop: Shop, stripe: StripeStandIn) -> None:
    cart_id = shop.cart(film=2)
    shop.carts.checkout(cart_id, key="k")
    stripe.drop_answer_of = "refunds"
    with pytest.raises(PaymentUnsettled):
        shop.orders.cancel(cart_id)
    stripe.drop_answer_of = ""
    stripe.answers.clear()  # Stripe forgets idempotency keys after a while
    assert shop.orders.cancel(cart_id)["status"] == "cancelled"
    assert (len(stripe.refunds), shop.level("film")) == (1, (10, 0, 0))


def test_a_pending_refund_is_asked_about_until_it_succeeds(shop: Shop, stripe: StripeStandIn) -> None:
    cart_id = shop.cart(film=2)
    shop.carts.checkout(cart_id, key="k")
    stripe.refund_status = "pending"
    with pytest.raises(PaymentUnsettled, match="the refund is pending at Stripe"):
        shop.orders.cancel(cart_id)
    shop.clock.pass_seconds(100)
    assert shop.carts.settle_payments(60) == {"left for later": 1}
    assert (shop.orders.get(cart_id)["status"], shop.level("film")) == ("cancelling", (8, 0, 2))
    stripe.refunds["pi_1"]["status"] = "succeeded"
    assert shop.carts.settle_payments(60) == {"refunded": 1}
    assert (shop.orders.get(cart_id)["status"], shop.level("film")) == ("cancelled", (10, 0, 0))


def test_a_refund_that_fails_after_a_while_is_not_reported_as_done(shop: Shop, stripe: StripeStandIn) -> None:
    cart_id = shop.cart(film=2)
    shop.carts.checkout(cart_id, key="k")
    stripe.refund_status = "pending"
    with pytest.raises(PaymentUnsettled):
        shop.orders.cancel(cart_id)
    stripe.refunds["pi_1"]["status"] = "failed"
    with pytest.raises(PaymentUnsettled, match="the refund failed at Stripe"):
        shop.carts.settle(f"{cart_id}:1")
    assert shop.orders.get(cart_id)["status"] == "cancelling"


def test_a_pending_refund_is_not_taken_as_done_when_stripe_forgot_its_key(shop: Shop, stripe: StripeStandIn) -> None:
    """Stripe then answers that the charge is already refunded."""
    cart_id = shop.cart(film=2)
    shop.carts.checkout(cart_id, key="k")
    stripe.refund_status = "pending"
    for _ in range(2):
        with pytest.raises(PaymentUnsettled, match="the refund is pending at Stripe"):
            shop.orders.cancel(cart_id)
        stripe.answers.clear()


def test_a_refund_made_at_stripe_cancels_the_order(shop: Shop, stripe: StripeStandIn) -> None:
    """A refunded intent still has the status succeeded; only its charge shows the refund."""
    cart_id = shop.cart(film=2)
    shop.carts.checkout(cart_id, key="k")
    assert shop.carts.settle(f"{cart_id}:1")["state"] == "captured"
    stripe.refunds["pi_1"] = {"id": "re_by_hand", "object": "refund", "status": "succeeded"}
    assert shop.carts.settle(f"{cart_id}:1")["state"] == "refunded"
    assert (shop.orders.get(cart_id)["status"], shop.level("film")) == ("cancelled", (10, 0, 0))


def test_the_environment_names_the_provider(shop_db: Db) -> None:
    assert isinstance(gateway_for(shop_db, {"SQUINNEY_STRIPE_KEY": KEY}), StripeGateway)
    assert not isinstance(gateway_for(shop_db, {}), StripeGateway)


@pytest.mark.parametrize("key", ["sk_live_secret", "rk_live_secret", "pk_test_secret", "secret", " sk_test_secret"])
def test_only_test_keys_are_taken(shop_db: Db, key: str) -> None:
    """The adapter charges a test card: with a live key, no buyer could pay."""
    for start in (lambda: StripeGateway(key), lambda: gateway_for(shop_db, {"SQUINNEY_STRIPE_KEY": key})):
        with pytest.raises(Invalid, match="must be a Stripe test key") as refused:
            start()
        assert "secret" not in f"{refused.value.message} {refused.value.details}"
    StripeGateway("rk_test_restricted")
