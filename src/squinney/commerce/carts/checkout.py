"""Pays for carts, and settles every payment attempt.

```
active --begin--> pending --captured--> complete (order created, reservations sold)
   ^                 |
   +--- declined, ---+
        cancelled
```

An attempt is stored before the provider is called, and stays open until the provider reports its outcome. One run
applies the outcome, guarded by the state of the attempt and of the cart. If two callers apply it at once, the second
finds it done.
"""

from __future__ import annotations

import logging
from collections import Counter
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, cast

from squinney.clock import Clock
from squinney.commerce.carts import queries, rules
from squinney.commerce.carts.documents import Cart, Payment
from squinney.commerce.errors import (
    CartEmpty,
    InadequateInventory,
    PaymentDeclined,
    PaymentRefunded,
    PaymentUnsettled,
    UnknownCart,
    UnknownOrder,
)
from squinney.commerce.orders.documents import Order
from squinney.commerce.orders.orders import Orders
from squinney.commerce.orders.payments import Charge, PaymentGateway, find_payment
from squinney.commerce.orders.rules import attempt_of, order_for
from squinney.errors import SquinneyError
from squinney.mongo.connect import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db
from squinney.transactions import Plan, Step, StillRunning, Transactions

log = logging.getLogger(__name__)

FREE = Charge("captured")  # a cart that costs nothing is paid at once: providers refuse amounts of 0


class _AlreadySettled(Exception):
    """Another caller has settled the attempt."""


class Checkout:
    """Charges for carts and settles attempts. The time limits of database operations exclude calls to the provider."""

    def __init__(
        self, db: Db, gateway: PaymentGateway, orders: Orders, transactions: Transactions, clock: Clock
    ) -> None:
        self._db = pinned(db)
        self._gateway = gateway
        self._orders = orders
        self._transactions = transactions
        self._clock = clock

    def run(self, cart_id: str, key: str) -> Order:
        """Record an attempt, charge for it, and return the order."""
        payment = self._begin(cart_id, key)
        if payment["state"] == "started":
            payment = self._charge(payment)
        return self._order_or_error(payment)

    # ---- begin ----

    @operation()
    def _begin(self, cart_id: str, key: str) -> Payment:
        """Return a new attempt, or the attempt that this key made before."""

        def plan() -> Plan:
            cart = self._find_cart(cart_id)
            if cart is None:
                raise UnknownCart(f"there is no cart {cart_id}", cart_id=cart_id)
            if cart["status"] != "active":
                return Plan([], result=self._attempt_by_key(cart, key))
            payment = self._new_attempt(cart)
            pending = {"status": "pending", "attempt": payment["attempt"], "key": key, "last_modified": payment["at"]}
            steps = [rules.status_step("carts", cart, pending), Step("payments", payment["_id"], insert=payment)]
            return Plan(steps, result=payment)

        return cast(Payment, self._transactions.run("checkout", plan).result)

    def _find_cart(self, cart_id: str) -> Cart | None:
        return cast(Cart | None, self._db["carts"].find_one(queries.CART(cart_id=cart_id)))

    def _new_attempt(self, cart: Cart) -> Payment:
        if not cart["items"]:
            raise CartEmpty("there is nothing in the cart to pay for", cart_id=cart["_id"])
        number = cart["attempt"] + 1
        return {
            "_id": f"{cart['_id']}:{number}",
            "cart_id": cart["_id"],
            "attempt": number,
            "amount": rules.total(cart["items"]),
            "currency": cart["currency"],
            "items": cart["items"],
            "state": "started",
            "at": self._clock(),
        }

    def _attempt_by_key(self, cart: Cart, key: str) -> Payment:
        """Return the latest attempt of a pending or complete cart, if this key made it."""
        if cart["status"] not in ("pending", "complete"):
            raise rules.cart_closed(cart)
        if cart.get("key") != key:
            if cart["status"] == "pending":
                raise StillRunning("another checkout of this cart is running", cart_id=cart["_id"])
            raise rules.cart_closed(cart)
        return find_payment(self._db, f"{cart['_id']}:{cart['attempt']}")

    # ---- the provider ----

    def _charge(self, payment: Payment) -> Payment:
        if not payment["amount"]:
            return self._apply(payment, FREE)

        def note(intent: str) -> None:
            self._note_intent(payment["_id"], intent)

        try:
            charge = self._gateway.capture(payment["_id"], payment["amount"], payment["currency"], note=note)
        except _AlreadySettled:
            return find_payment(self._db, payment["_id"])
        except Exception as error:
            log.warning("the payment provider failed for attempt %s: %r", payment["_id"], error)
            raise self._unsettled(payment) from error
        return self._apply(payment, charge)

    @operation()
    def _note_intent(self, payment_id: str, intent: str) -> None:
        """Store the provider's id before money can move; raise if the attempt was settled in the meantime."""
        noted = self._db["payments"].update_one({"_id": payment_id, "state": "started"}, {"$set": {"intent": intent}})
        if not noted.matched_count:
            raise _AlreadySettled

    def _unsettled(self, payment: Payment) -> PaymentUnsettled:
        message = "the payment provider did not respond; the payment stays open until it does"
        return PaymentUnsettled(message, outcome_unknown=True, payment_id=payment["_id"])

    # ---- the outcome of an attempt ----

    def settle_stalled(self, stalled_seconds: float) -> Counter[str]:
        """Settle every attempt and refund that has been open for longer than `stalled_seconds`."""
        counts: Counter[str] = Counter()
        before = self._clock() - timedelta(seconds=stalled_seconds)
        for state in ("started", "refunding"):
            for payment_id in self._open_payments(state, before):
                counts[self._try_to_settle(payment_id)] += 1
        return counts

    @operation(60, reads_only=True)
    def _open_payments(self, state: str, before: datetime) -> list[str]:
        found = queries.OPEN_PAYMENTS.find(self._db, state=state, before=before, projection={"_id": 1}, limit=10_000)
        return [payment["_id"] for payment in found]

    def _try_to_settle(self, payment_id: str) -> str:
        try:
            return self.settle(payment_id, cancel=True)["state"]
        except SquinneyError as error:  # one attempt without a response must not stop the others
            log.warning("payment attempt %s stays open: %s", payment_id, error)
            return "left for later"

    def settle(self, payment_id: str, *, cancel: bool) -> Payment:
        """Ask the provider for the state of an attempt and apply it; `cancel` first cancels an open charge there."""
        payment = find_payment(self._db, payment_id)
        if payment["state"] == "refunding":
            return self._refund(payment)
        if not payment["amount"]:
            return self._apply(payment, FREE)
        attempt = attempt_of(payment)
        try:
            charge = self._gateway.status(attempt)
            if charge.state == "open" and cancel:
                charge = self._gateway.cancel(attempt)
        except Exception as error:
            log.warning("the payment provider failed for attempt %s: %r", payment["_id"], error)
            raise self._unsettled(payment) from error
        return payment if charge.state == "open" else self._apply(payment, charge)

    def _apply(self, payment: Payment, charge: Charge) -> Payment:
        if charge.state == "captured":
            return self._complete_or_refund(payment, charge)
        if charge.state in ("declined", "cancelled", "refunded") and payment["state"] == "started":
            self._reopen(payment, charge)
        if charge.state == "refunded" and payment["state"] == "captured":
            self._orders.record_refund(payment)
        return find_payment(self._db, payment["_id"])

    @operation()
    def _reopen(self, payment: Payment, charge: Charge) -> None:
        """Make the cart active again, after the attempt failed or was refunded at the provider."""

        def plan() -> Plan:
            found, cart = find_payment(self._db, payment["_id"]), self._find_cart(payment["cart_id"])
            if found["state"] != "started":
                return Plan([])
            steps = [rules.payment_step(found, _outcome(charge))]
            if cart and _is_pending_for(cart, found):
                active = {"status": "active", "last_modified": self._clock()}
                steps.append(rules.status_step("carts", cart, active))
            return Plan(steps)

        self._transactions.run("reopen", plan)

    def _complete_or_refund(self, payment: Payment, charge: Charge) -> Payment:
        self._complete(payment, charge)
        payment = find_payment(self._db, payment["_id"])
        return self._refund(payment) if payment["state"] == "refunding" else payment

    @operation()
    def _complete(self, payment: Payment, charge: Charge) -> None:
        """Create the order of a captured payment, or record that the payment must be refunded."""

        def plan(available: bool) -> Plan:
            found, cart = find_payment(self._db, payment["_id"]), self._find_cart(payment["cart_id"])
            if found["state"] in ("captured", "refunding", "refunded"):
                return Plan([])
            if cart and (_is_pending_for(cart, found) or _holds_paid_items(cart, found)):
                return self._sale_plan(cart, found, charge, reserved=True)
            if cart and cart["status"] == "expired" and available:  # its reservations were returned
                return self._sale_plan(cart, found, charge, reserved=False)
            refund_due = {**_outcome(charge), "state": "refunding", "refunding_at": self._clock()}
            return Plan([rules.payment_step(found, refund_due)])

        try:
            self._transactions.run("complete", lambda: plan(available=True))
        except InadequateInventory:
            self._transactions.run("complete", lambda: plan(available=False))

    def _sale_plan(self, cart: Cart, payment: Payment, charge: Charge, *, reserved: bool) -> Plan:
        """Plan to complete cart and payment, sell the goods and insert the order in one run."""
        at = self._clock()
        complete = {"status": "complete", "last_modified": at, "attempt": payment["attempt"]}
        return Plan(
            [
                rules.status_step("carts", cart, complete),
                rules.payment_step(payment, _outcome(charge)),
                *rules.sale_steps(cart["_id"], payment["items"], at, reserved=reserved),
                Step("orders", cart["_id"], insert=order_for(cart, payment, at)),
            ]
        )

    def _refund(self, payment: Payment) -> Payment:
        # The gateway that took the money returns it: `orders` may have no gateway.
        self._orders.refund(payment, payments=self._gateway)
        return find_payment(self._db, payment["_id"])

    # ---- the result ----

    def _order_or_error(self, payment: Payment) -> Order:
        if payment["state"] == "captured":
            return self._orders.get(payment["cart_id"])
        if payment["state"] in ("refunding", "refunded"):
            return self._cancelled_order(payment)
        if payment["state"] == "started":
            raise self._unsettled(payment)
        raise PaymentDeclined(payment.get("reason") or "the payment was declined", payment_id=payment["_id"])

    def _cancelled_order(self, payment: Payment) -> Order:
        """Return the order that the payment created, cancelled since; raise if there never was an order."""
        with suppress(UnknownOrder):
            order = self._orders.get(payment["cart_id"])
            if order.get("payment_id") == payment["_id"]:
                return order
        message = "the goods were no longer available; the payment was refunded"
        raise PaymentRefunded(message, payment_id=payment["_id"])


def _outcome(charge: Charge) -> dict[str, Any]:
    outcome: dict[str, Any] = {"state": charge.state}
    if charge.intent:
        outcome["intent"] = charge.intent
    if charge.reason:
        outcome["reason"] = charge.reason[:500]
    return outcome


def _is_pending_for(cart: Cart, payment: Payment) -> bool:
    return cart["status"] == "pending" and cart["attempt"] == payment["attempt"]


def _holds_paid_items(cart: Cart, payment: Payment) -> bool:
    """Return whether the cart was reopened and its items are still those that were paid for."""
    return cart["status"] == "active" and cart["items"] == payment["items"]
