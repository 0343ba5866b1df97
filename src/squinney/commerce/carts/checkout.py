"""How a cart is paid for, and how every payment attempt comes to its end.

```
active --begin--> pending --captured--> complete (order made, reservations sold)
   ^                 |
   +--- declined, ---+
        cancelled
```

An attempt is on record before the provider hears of it, and stays open until the provider has said how it ended. What
follows from that end is one run, guarded by the attempt's and the cart's state: whoever comes second finds it done.
"""

from __future__ import annotations

import logging
from collections import Counter
from contextlib import suppress
from datetime import timedelta
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
    UnknownPayment,
)
from squinney.commerce.orders.documents import Order
from squinney.commerce.orders.orders import Orders
from squinney.commerce.orders.payments import Charge, PaymentGateway
from squinney.commerce.orders.rules import attempt_of, order_for
from squinney.errors import SquinneyError
from squinney.mongo.connect import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db
from squinney.transactions import Plan, Step, StillRunning, Transactions

log = logging.getLogger(__name__)

NOTHING = Charge("captured")  # what costs nothing is paid for at once: providers do not charge, or refund, nothing


class _Settled(Exception):
    """Somebody else has settled the attempt meanwhile."""


class Checkout:
    """Takes carts through payment. The database's time limits do not cover the provider's answer."""

    def __init__(
        self, db: Db, gateway: PaymentGateway, orders: Orders, transactions: Transactions, clock: Clock
    ) -> None:
        self._db = pinned(db)
        self._gateway = gateway
        self._orders = orders
        self._transactions = transactions
        self._clock = clock

    def run(self, cart_id: str, key: str) -> Order:
        """Begin, charge, and act on the answer."""
        payment = self._begin(cart_id, key)
        if payment["state"] == "started":
            payment = self._charge(payment)
        return self._order_or_error(payment)

    # ---- begin ----

    @operation()
    def _begin(self, cart_id: str, key: str) -> Payment:
        """The attempt to go on with: a new one, or this key's own from before."""

        def plan() -> Plan:
            cart = self._find_cart(cart_id)
            if cart is None:
                raise UnknownCart(f"there is no cart {cart_id}", cart_id=cart_id)
            if cart["status"] != "active":
                return Plan([], result=self._earlier(cart, key))
            payment = self._new_attempt(cart)
            pending = {"status": "pending", "attempt": payment["attempt"], "key": key, "last_modified": payment["at"]}
            steps = [rules.cart_step(cart, pending), Step("payments", payment["_id"], insert=payment)]
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

    def _earlier(self, cart: Cart, key: str) -> Payment:
        """The attempt of a cart that is pending or complete, for the key that made it."""
        if cart["status"] not in ("pending", "complete"):
            raise rules.closed(cart)
        if cart.get("key") != key:
            if cart["status"] == "pending":
                raise StillRunning("a checkout of this cart is under way", cart_id=cart["_id"])
            raise rules.closed(cart)
        return self._payment(f"{cart['_id']}:{cart['attempt']}")

    @operation(reads_only=True)
    def _payment(self, payment_id: str) -> Payment:
        payment = self._db["payments"].find_one(queries.PAYMENT(payment_id=payment_id))
        if payment is None:
            raise UnknownPayment(f"there is no payment attempt {payment_id}", payment_id=payment_id)
        return cast(Payment, payment)

    # ---- the provider ----

    def _charge(self, payment: Payment) -> Payment:
        if not payment["amount"]:
            return self._act_on(payment, NOTHING)

        def note(intent: str) -> None:
            self._note_intent(payment["_id"], intent)

        try:
            charge = self._gateway.capture(payment["_id"], payment["amount"], payment["currency"], note=note)
        except _Settled:
            return self._payment(payment["_id"])
        except Exception as error:
            log.warning("the payment provider failed at attempt %s: %r", payment["_id"], error)
            raise self._unsettled(payment) from error
        return self._act_on(payment, charge)

    @operation()
    def _note_intent(self, payment_id: str, intent: str) -> None:
        """Keep the provider's id before money can move; an attempt that was settled meanwhile must not go on."""
        noted = self._db["payments"].update_one({"_id": payment_id, "state": "started"}, {"$set": {"intent": intent}})
        if not noted.matched_count:
            raise _Settled

    def _unsettled(self, payment: Payment) -> PaymentUnsettled:
        message = "the payment provider gave no answer; the attempt will be settled when it does"
        return PaymentUnsettled(message, outcome_unknown=True, payment_id=payment["_id"])

    # ---- the end of an attempt ----

    def settle_stalled(self, stalled_seconds: float) -> Counter[str]:
        """Settle every attempt and refund that is open for longer."""
        counts: Counter[str] = Counter()
        before = self._clock() - timedelta(seconds=stalled_seconds)
        for state in ("started", "refunding"):
            for payment_id in self._open(state, before):
                counts[self._try_to_settle(payment_id)] += 1
        return counts

    @operation(60, reads_only=True)
    def _open(self, state: str, before: Any) -> list[str]:
        found = queries.OPEN_PAYMENTS.find(self._db, state=state, before=before, projection={"_id": 1}, limit=10_000)
        return [payment["_id"] for payment in found]

    def _try_to_settle(self, payment_id: str) -> str:
        try:
            return self.settle(payment_id, cancel=True)["state"]
        except SquinneyError as error:  # one provider's silence must not keep the others waiting
            log.warning("payment attempt %s stays open: %s", payment_id, error)
            return "left for later"

    def settle(self, payment_id: str, *, cancel: bool) -> Payment:
        """Ask the provider, and act on the answer; `cancel` ends there what is still open."""
        payment = self._payment(payment_id)
        if payment["state"] == "refunding":
            return self._refund(payment)
        if not payment["amount"]:
            return self._act_on(payment, NOTHING)
        attempt = attempt_of(payment)
        try:
            charge = self._gateway.status(attempt)
            if charge.state == "open" and cancel:
                charge = self._gateway.cancel(attempt)
        except Exception as error:
            log.warning("the payment provider failed at attempt %s: %r", payment["_id"], error)
            raise self._unsettled(payment) from error
        return payment if charge.state == "open" else self._act_on(payment, charge)

    def _act_on(self, payment: Payment, charge: Charge) -> Payment:
        if charge.state == "captured":
            return self._captured(payment, charge)
        if charge.state in ("declined", "cancelled", "refunded") and payment["state"] == "started":
            self._reopen(payment, charge)
        if charge.state == "refunded" and payment["state"] == "captured":
            self._orders.record_refund(payment)
        return self._payment(payment["_id"])

    @operation()
    def _reopen(self, payment: Payment, charge: Charge) -> None:
        """The attempt failed, or somebody gave the money back at the provider: the cart is active again."""

        def plan() -> Plan:
            found, cart = self._payment(payment["_id"]), self._find_cart(payment["cart_id"])
            if found["state"] != "started":
                return Plan([])
            steps = [rules.payment_step(found, _ending(charge))]
            if cart and _is_waiting(cart, found):
                active = {"status": "active", "last_modified": self._clock()}
                steps.append(rules.cart_step(cart, active, unset=["key"]))
            return Plan(steps)

        self._transactions.run("reopen", plan)

    def _captured(self, payment: Payment, charge: Charge) -> Payment:
        """The attempt succeeded: an order, or the money back."""
        self._complete(payment, charge)
        payment = self._payment(payment["_id"])
        return self._refund(payment) if payment["state"] == "refunding" else payment

    @operation()
    def _complete(self, payment: Payment, charge: Charge) -> None:
        def plan() -> Plan:
            found, cart = self._payment(payment["_id"]), self._find_cart(payment["cart_id"])
            if found["state"] in ("captured", "refunding", "refunded"):
                return Plan([])
            if cart and (_is_waiting(cart, found) or _is_unchanged(cart, found)):
                return self._sale(cart, found, charge, rules.sale_steps(cart, self._clock()))
            if cart and cart["status"] == "expired":  # its goods went back: take them again from what is available
                goods = rules.retake_steps(cart["_id"], found["items"], self._clock())
                return self._sale(cart, found, charge, goods)
            return Plan([rules.payment_step(found, self._owed(charge))])

        try:
            self._transactions.run("complete", plan)
        except InadequateInventory:
            self._owe(payment["_id"], charge)

    def _sale(self, cart: Cart, payment: Payment, charge: Charge, goods: list[Step]) -> Plan:
        """Payment, order, sale and the cart's end, all at once."""
        at = self._clock()
        complete = {"status": "complete", "last_modified": at, "attempt": payment["attempt"]}
        return Plan(
            [
                rules.cart_step(cart, complete),
                rules.payment_step(payment, _ending(charge)),
                *goods,
                Step("orders", cart["_id"], insert=order_for(cart, payment, at)),
            ]
        )

    @operation()
    def _owe(self, payment_id: str, charge: Charge) -> None:
        """Put on record that the money goes back: the goods are gone."""
        where = {"_id": payment_id, "state": {"$in": ["started", "declined", "cancelled"]}, "txn_lock": None}
        self._db["payments"].update_one(where, {"$set": self._owed(charge)})

    def _owed(self, charge: Charge) -> dict[str, Any]:
        return {**_ending(charge), "state": "refunding", "refunding_at": self._clock()}

    def _refund(self, payment: Payment) -> Payment:
        """By our own gateway, which took the money: `orders` may have none."""
        self._orders.refund(payment, payments=self._gateway)
        return self._payment(payment["_id"])

    # ---- the answer ----

    def _order_or_error(self, payment: Payment) -> Order:
        if payment["state"] == "captured":
            return self._orders.get(payment["cart_id"])
        if payment["state"] in ("refunding", "refunded"):
            return self._cancelled_order(payment)
        if payment["state"] == "started":
            raise self._unsettled(payment)
        raise PaymentDeclined(payment.get("reason") or "the payment was declined", payment_id=payment["_id"])

    def _cancelled_order(self, payment: Payment) -> Order:
        """The order that was made of it and cancelled since; there may never have been one."""
        with suppress(UnknownOrder):
            order = self._orders.get(payment["cart_id"])
            if order.get("payment_id") == payment["_id"]:
                return order
        raise PaymentRefunded("the goods were gone; the payment was given back", payment_id=payment["_id"])


def _ending(charge: Charge) -> dict[str, Any]:
    ending: dict[str, Any] = {"state": charge.state}
    if charge.intent:
        ending["intent"] = charge.intent
    if charge.reason:
        ending["reason"] = charge.reason[:500]
    return ending


def _is_waiting(cart: Cart, payment: Payment) -> bool:
    return cart["status"] == "pending" and cart["attempt"] == payment["attempt"]


def _is_unchanged(cart: Cart, payment: Payment) -> bool:
    """Reopened, and still the same cart: what was paid for is what it holds."""
    return cart["status"] == "active" and cart["items"] == payment["items"]
