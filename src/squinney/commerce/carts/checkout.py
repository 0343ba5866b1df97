"""Pays for carts: what an attempt to pay does to its cart, from its beginning to its end.

```
active --begin--> pending --captured--> complete (order created, reservations sold)
   ^                 |
   +--- declined, ---+
        needs_action,
        cancelled
```
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, cast

from squinney.clock import Clock
from squinney.commerce.carts import queries, rules
from squinney.commerce.carts.documents import CART_COLLECTIONS, Cart
from squinney.commerce.errors import (
    CartEmpty,
    CheckoutRunning,
    PaymentDeclined,
    PaymentNeedsAction,
    PaymentRefunded,
    UnknownCart,
    UnknownOrder,
)
from squinney.commerce.inventory.documents import STOCK_COLLECTIONS
from squinney.commerce.inventory.steps import sale_steps
from squinney.commerce.orders.documents import ORDER_COLLECTIONS, Order
from squinney.commerce.orders.orders import Orders
from squinney.commerce.payments import further
from squinney.commerce.payments.direct import Move
from squinney.commerce.payments.documents import PAYMENTS, Buyer, Payment
from squinney.commerce.payments.gateway import PaymentGateway
from squinney.commerce.payments.settling import Settling, find_payment, unsettled
from squinney.commerce.payments.steps import payment_step
from squinney.commerce.rules import status_step, total
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db
from squinney.transactions import Plan, Step, Transactions, require_apart

OWN = {
    collection.name for collection in (*CART_COLLECTIONS, *STOCK_COLLECTIONS, *ORDER_COLLECTIONS, PAYMENTS)
}  # what a checkout changes


class Checkout:
    """Begins attempts to pay for a cart, and says what their end does to the cart, its goods and its order."""

    def __init__(
        self, db: Db, gateway: PaymentGateway, orders: Orders, transactions: Transactions, clock: Clock
    ) -> None:
        self._db = pinned(db)
        self._orders = orders
        self._transactions = transactions
        self._clock = clock
        self.settling = Settling(db, gateway, self, orders, transactions, clock)

    def run(self, cart_id: str, key: str, also: Sequence[Step]) -> Order:
        """Record an attempt, charge for it, and return the order."""
        # guard: a further step of a checkout on a document of the shop is an error
        require_apart(also, OWN)
        payment = self._begin(cart_id, key, also)
        if payment["state"] == "started":
            payment = self.settling.charge(payment)
        return self._order_or_error(payment)

    def buy(self, cart_id: str, customer: str, key: str, move: Move, also: Sequence[Step]) -> Order:
        """Sell an active cart in one run with the steps that pay for it, and return the order."""

        def plan() -> Plan:
            cart = self._find_cart(cart_id)
            # guard: a member buys only an own cart
            if cart is None or cart.get("customer") != customer:
                raise UnknownCart(f"there is no cart {cart_id}", cart_id=cart_id)
            if cart["status"] != "active":
                return Plan([], result=self._attempt_by_key(cart, key))
            payment, steps = _paid_by(move, self._new_attempt(cart))
            return Plan([*self._purchase(cart, payment, key), *steps], result=payment).also(also)

        return self._order_or_error(cast(Payment, self._transactions.run("buy", plan).result))

    def _purchase(self, cart: Cart, payment: Payment, key: str) -> list[Step]:
        done = {"status": "complete", "attempt": payment["attempt"], "key": key, "last_modified": payment["at"]}
        return [
            status_step("commerce.carts", cart, done),
            Step("commerce.payments", payment["_id"], insert=payment),
            *sale_steps(cart["_id"], payment["items"], payment["at"], reserved=True),
            self._orders.placing_step(payment),
        ]

    # ---- begin ----

    @operation()
    def _begin(self, cart_id: str, key: str, also: Sequence[Step]) -> Payment:
        """Return a new attempt, or the attempt that this key made before."""

        def plan() -> Plan:
            cart = self._find_cart(cart_id)
            if cart is None:
                raise UnknownCart(f"there is no cart {cart_id}", cart_id=cart_id)
            if cart["status"] != "active":
                return Plan([], result=self._attempt_by_key(cart, key))
            payment = cast(Payment, {**self._new_attempt(cart), **further.stored(also)})
            pending = {"status": "pending", "attempt": payment["attempt"], "key": key, "last_modified": payment["at"]}
            steps = [
                status_step("commerce.carts", cart, pending),
                Step("commerce.payments", payment["_id"], insert=payment),
                # guard: a checkout is refused by its further steps before it is charged
                *further.checking_steps(also),
            ]
            return Plan(steps, result=payment)

        return cast(Payment, self._transactions.run("checkout", plan).result)

    def _find_cart(self, cart_id: str) -> Cart | None:
        return cast(Cart | None, queries.CART.find_one(self._db, cart_id=cart_id))

    def _new_attempt(self, cart: Cart) -> Payment:
        # guard: an empty cart cannot be checked out
        if not cart["items"]:
            raise CartEmpty("there is nothing in the cart to pay for", cart_id=cart["_id"])
        number = cart["attempt"] + 1
        payment: Payment = {
            "_id": f"{cart['_id']}:{number}",
            "cart_id": cart["_id"],
            "attempt": number,
            "amount": total(cart["items"]),
            "currency": cart["currency"],
            "items": cart["items"],
            "state": "started",
            "at": self._clock(),
        }
        if "created_at" in cart:
            payment["reserved_at"] = cart["created_at"]
        return cast(Payment, {**payment, **_buyer_of(cart)})

    def _attempt_by_key(self, cart: Cart, key: str) -> Payment:
        """Return the latest attempt of a pending or complete cart, if this key made it."""
        if cart["status"] not in ("pending", "complete"):
            raise rules.cart_closed(cart)
        # guard: a checkout with another key does not pay for the same cart
        if cart.get("key") != key:
            if cart["status"] == "pending":
                raise CheckoutRunning("another checkout of this cart is running", cart_id=cart["_id"])
            raise rules.cart_closed(cart)
        return find_payment(self._db, f"{cart['_id']}:{cart['attempt']}")

    # ---- the end of an attempt ----

    def reopening_steps(self, payment: Payment, outcome: dict[str, Any]) -> list[Step]:
        """Return the steps that record the outcome, and make the cart active again if it waits for the attempt."""
        steps, cart = [payment_step(payment, outcome)], self._find_cart(payment["cart_id"])
        if cart and _is_pending_for(cart, payment):
            active = {"status": "active", "last_modified": self._clock()}
            steps.append(status_step("commerce.carts", cart, active))
        return steps

    def selling_steps(self, payment: Payment, outcome: dict[str, Any], *, available: bool) -> list[Step] | None:
        """Return the steps that complete cart and payment, sell the goods and insert the order.

        The goods of a cart that expired are taken from the `available` stock. Return None if they cannot be sold.
        """
        cart = self._find_cart(payment["cart_id"])
        if cart and (_is_pending_for(cart, payment) or _holds_paid_items(cart, payment)):
            return self._sale(cart, payment, outcome, reserved=True)
        if cart and cart["status"] == "expired" and available:  # its reservations were returned
            return self._sale(cart, payment, outcome, reserved=False)
        return None

    def _sale(self, cart: Cart, payment: Payment, outcome: dict[str, Any], *, reserved: bool) -> list[Step]:
        at = self._clock()
        complete = {"status": "complete", "last_modified": at, "attempt": payment["attempt"]}
        paid = {**outcome, **_buyer_of(cart)}  # since the checkout, a customer may have claimed a reopened cart
        return [
            status_step("commerce.carts", cart, complete),
            payment_step(payment, paid),
            *sale_steps(cart["_id"], payment["items"], at, reserved=reserved),
            self._orders.placing_step(cast(Payment, {**payment, **paid})),
            # guard: the further steps of a checkout happen with the sale
            *further.further_steps(payment),
        ]

    # ---- the result ----

    def _order_or_error(self, payment: Payment) -> Order:
        if payment["state"] == "captured":
            return self._orders.get(payment["cart_id"])
        if payment["state"] in ("refunding", "refunded"):
            return self._cancelled_order(payment)
        if payment["state"] == "started":
            raise unsettled(payment)
        if payment["state"] == "needs_action":
            message = payment.get("reason") or "the buyer would have to confirm the payment"
            raise PaymentNeedsAction(message, payment_id=payment["_id"])
        raise PaymentDeclined(payment.get("reason") or "the payment was declined", payment_id=payment["_id"])

    def _cancelled_order(self, payment: Payment) -> Order:
        """Return the order that the payment created, cancelled since; raise if there never was an order."""
        with suppress(UnknownOrder):
            order = self._orders.get(payment["cart_id"])
            if order.get("payment_id") == payment["_id"]:
                return order
        message = payment.get("reason") or "the goods were no longer available; the payment was refunded"
        raise PaymentRefunded(message, payment_id=payment["_id"])


def _paid_by(move: Move, attempt: Payment) -> tuple[Payment, Sequence[Step]]:
    """Return the payment as captured, and the steps that move its money."""
    captured = cast(Payment, {**attempt, "state": "captured"})
    if not attempt["amount"]:
        return captured, []
    moved = move(attempt)
    return cast(Payment, {**captured, "paid_from": moved.account, "transfers": [moved.transfer]}), moved.steps


def _buyer_of(cart: Cart) -> Buyer:
    """Return the field of a payment that says to whom its order will belong."""
    return {"customer": cart["customer"]} if "customer" in cart else {}


def _is_pending_for(cart: Cart, payment: Payment) -> bool:
    # guard: an attempt completes a pending cart only if the cart waits for this attempt
    return cart["status"] == "pending" and cart["attempt"] == payment["attempt"]


def _holds_paid_items(cart: Cart, payment: Payment) -> bool:
    """Return whether the cart was reopened and its items are still those that were paid for."""
    # guard: a reopened cart is sold only if its items are those that were paid for
    return cart["status"] == "active" and cart["items"] == payment["items"]
