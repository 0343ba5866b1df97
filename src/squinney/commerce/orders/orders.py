"""`Orders`: one update on the server changes an order's lines and total together."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from pymongo.client_session import ClientSession

from squinney import checks
from squinney.clock import Clock, utcnow
from squinney.commerce.documents import CURRENCY, WITHOUT_CHECKS
from squinney.commerce.errors import OrderFixed, PaymentUnsettled, UnknownOrder
from squinney.commerce.inventory.steps import restock_steps
from squinney.commerce.orders import lines as order_lines
from squinney.commerce.orders import queries, rules
from squinney.commerce.orders.documents import Order
from squinney.commerce.orders.lines import Edit, checked_lines, order_fixed
from squinney.commerce.payments import queries as payment_queries
from squinney.commerce.payments.direct import Move
from squinney.commerce.payments.documents import Payment
from squinney.commerce.payments.gateway import PaymentGateway
from squinney.commerce.payments.settling import find_payment
from squinney.commerce.payments.steps import attempt_of, payment_step
from squinney.commerce.rules import status_step, total
from squinney.errors import SquinneyError
from squinney.mongo.deadlines import operation, seconds_left
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db
from squinney.patterns.ids import new_id
from squinney.patterns.paging import Page, page
from squinney.transactions import Key, Plan, Stale, Step, Transactions, Tries, once

log = logging.getLogger(__name__)

# The status of an order for each state of its payment that can become `refunded`.
ORDER_STATUS = {"captured": "placed", "refunding": "cancelling"}


class Orders:
    """Orders whose total is always the sum of their lines.

    `payments` makes refunds; without it, orders that a provider was paid for cannot be cancelled. `repay` returns the
    steps that give back the money of an order from `Carts.buy`; without it, those cannot be cancelled.
    """

    def __init__(
        self,
        db: Db,
        *,
        payments: PaymentGateway | None = None,
        repay: Move | None = None,
        transactions: Transactions | None = None,
        clock: Clock = utcnow,
    ) -> None:
        self._db = pinned(db)
        self.repay = repay
        self._gateway = payments
        self._transactions = transactions or Transactions(db)
        self._clock = clock

    # ---- creating and reading ----

    @operation()
    def place(
        self,
        items: Sequence[Mapping[str, Any]],
        *,
        currency: str = "EUR",
        customer: str | None = None,
        key: str | Key | None = None,
        also: Sequence[Step] = (),
    ) -> Order:
        """Create an order from lines `{sku, price, qty, title?}`, once per `key`.

        Atomic: one insert, together with the key's record.
        After a crash: nothing remains.
        Raises: `Invalid`, `OrderLimit`; with a key also `KeyReused`.
        """
        lines = checked_lines(items)
        order: Order = {
            "_id": new_id(),
            "items": lines,
            "total": total(lines),
            "currency": checks.text(currency, "currency", max_length=3, pattern=CURRENCY),
            "status": "placed",
            "placed_at": self._clock(),
            "version": 1,
        }
        if customer is not None:
            order["customer"] = checks.identifier(customer, "customer")
        plan = Plan([Step("commerce.orders", order["_id"], insert=order)], result=order).also(also)
        arguments = {"items": lines, "currency": currency, "customer": customer}
        outcome = self._transactions.run("place order", plan, key=key, arguments=arguments)
        return cast(Order, outcome.result)

    @operation()
    def from_cart(self, cart_id: str) -> Order:
        """Return the order of a complete cart; create the order if it is missing. Repeats are safe.

        Atomic: one run inserts the order, if the payment is still captured.
        After a crash: nothing remains.
        Raises: `UnknownOrder` if there is no complete cart with that id, or it was not paid for; `Busy`, `Unavailable`.
        """
        checks.identifier(cart_id, "cart")
        return cast(Order, self._transactions.run("order from cart", lambda: self._from_cart_plan(cart_id)).result)

    def _from_cart_plan(self, cart_id: str) -> Plan:
        # The payments are read first: if none is captured any more, the order that is read after them shows why.
        attempts = payment_queries.PAYMENTS_OF_CART.find(self._db, cart_id=cart_id, projection=WITHOUT_CHECKS)
        # guard: an order is created only for a captured payment
        payment = next((attempt for attempt in attempts if attempt["state"] == "captured"), None)
        existing = queries.ORDER.find_one(self._db, order_id=cart_id)
        if existing is not None:
            return Plan([], result=existing)
        if payment is None:
            raise UnknownOrder(f"there is no complete cart {cart_id} that was paid for", cart_id=cart_id)
        order = rules.order_for(cast(Payment, payment), self._clock())
        # The payment is guarded, because a refund in the meantime would find no order to cancel.
        # guard: an order is created only if its payment was not refunded in the meantime
        paid = Step("commerce.payments", payment["_id"], guard={"state": "captured"}, refused=Stale)
        return Plan([paid, Step("commerce.orders", cart_id, insert=order, refused=Stale)], result=order)

    def placing_step(self, payment: Payment) -> Step:
        """Return the step that inserts the order of a payment, for the run that captures the payment."""
        order = rules.order_for(payment, self._clock())
        return Step("commerce.orders", order["_id"], insert=order)

    @operation(reads_only=True)
    def get(self, order_id: str) -> Order:
        """Return the order.

        Raises: `UnknownOrder`.
        """
        checks.identifier(order_id, "order")
        order = queries.ORDER.find_one(self._db, order_id=order_id)
        if order is None:
            raise UnknownOrder(f"there is no order {order_id}", order_id=order_id)
        return cast(Order, order)

    @operation(reads_only=True)
    def payment_of(self, order: Order) -> Payment | None:
        """Return the payment of an order, or None if the order was not paid for in this shop.

        Raises: `UnknownPayment`.
        """
        payment_id = order.get("payment_id")
        return find_payment(self._db, payment_id) if payment_id else None

    @operation(reads_only=True)
    def by_customer(self, customer: str, *, cursor: str | None = None, limit: int = 50) -> Page[Order]:
        """Return a page of a customer's orders, newest first.

        Raises: `Invalid` for an unknown cursor.
        """
        checks.identifier(customer, "customer")
        orders = page(self._db, queries.ORDERS_BY_CUSTOMER, cursor=cursor, limit=limit, customer=customer)
        return cast(Page[Order], orders)

    @operation(reads_only=True)
    def all(self, *, cursor: str | None = None, limit: int = 50) -> Page[Order]:
        """Return a page of all orders, newest first."""
        return cast(Page[Order], page(self._db, queries.ORDERS, cursor=cursor, limit=limit))

    # ---- lines ----

    @operation()
    def add_or_increase(
        self,
        order_id: str,
        sku: str,
        price: int,
        qty: int,
        *,
        title: str = "",
        currency: str | None = None,
        key: str | Key | None = None,
        also: Sequence[Step] = (),
    ) -> Order:
        """Add a line, or add `qty` to the existing line with this SKU, which keeps its price; once per `key`.

        Atomic: one update computes lines and total on the server; with a key or further steps, one transaction.
        After a crash: the change is complete or did not happen.
        Raises: `Invalid`, `UnknownOrder`, `OrderFixed`, `OrderLimit`, `WrongCurrency`, `Busy`; with a key also
        `KeyReused`.
        """
        line = {"sku": sku, "price": price, "qty": qty, "title": title or sku}
        return self._edit(order_id, order_lines.edit_to_add(line, currency), key, also)

    @operation()
    def set_quantity(
        self, order_id: str, sku: str, qty: int, *, key: str | Key | None = None, also: Sequence[Step] = ()
    ) -> Order:
        """Set the quantity of a line to `qty`, which must be at least 1.

        Atomic: as `add_or_increase`.
        After a crash: the change is complete or did not happen.
        Raises: `Invalid`, `UnknownOrder`, `UnknownLine`, `OrderFixed`, `OrderLimit`, `Busy`; with a key also
        `KeyReused`.
        """
        return self._edit(order_id, order_lines.edit_to_set(sku, qty), key, also)

    @operation()
    def remove_item(self, order_id: str, sku: str, *, key: str | Key | None = None, also: Sequence[Step] = ()) -> Order:
        """Remove a line.

        Atomic: as `add_or_increase`.
        After a crash: the change is complete or did not happen.
        Raises: `Invalid`, `UnknownOrder`, `UnknownLine`, `OrderFixed`, `Busy`; with a key also `KeyReused`.
        """
        return self._edit(order_id, order_lines.edit_to_remove(sku), key, also)

    def _edit(self, order_id: str, edit: Edit, key: str | Key | None, also: Sequence[Step]) -> Order:
        checks.identifier(order_id, "order")
        if key is None and not also:
            return self._apply_when_settled(order_id, edit)
        return once(
            self._db,
            f"order {edit.kind}",
            lambda session: self._apply(order_id, edit, session),
            key=key,
            arguments={"order": order_id, **edit.arguments},
            also=also,
            own={"commerce.orders"},
        )

    def _apply_when_settled(self, order_id: str, edit: Edit) -> Order:
        """Try again if the order changes between the update and the read that explains why it was refused."""
        tries = Tries(seconds_left() / 2, what="the order")
        while True:
            try:
                return self._apply(order_id, edit)
            except Stale as stale:
                tries.pause(stale)

    def _apply(self, order_id: str, edit: Edit, session: ClientSession | None = None) -> Order:
        changed = self._db["commerce.orders"].find_one_and_update(
            edit.where(order_id), edit.update, return_document=True, session=session
        )
        if changed is None:
            raise self._refusal(order_id, edit, session)
        return cast(Order, changed)

    def _refusal(self, order_id: str, edit: Edit, session: ClientSession | None) -> SquinneyError:
        asked = {"order_id": order_id, "within_limits": edit.within_limits}
        order = next(queries.REFUSED_ORDER.run(self._db, session=session, **asked), None)
        if order is None:
            return UnknownOrder(f"there is no order {order_id}", order_id=order_id)
        return edit.refusal(cast(Order, order), within_limits=order["within_limits"])

    # ---- cancelling and deleting ----

    def cancel(self, order_id: str, *, also: Sequence[Step] = ()) -> Order:
        """Cancel an order. A paid order is refunded, and its goods are restocked.

        `also` are further steps, which happen with the decision to cancel; not if the order is cancelled already.

        Atomic: for an unpaid order, one run. For a paid order, one run marks order and payment; after the provider's
        response, a second run restocks the goods and closes both. For an order from `Carts.buy`, one run does it all.
        After a crash: the order is `cancelling` and its payment `refunding`; the job `settle-payments` finishes both.
        Raises: `UnknownOrder`, `OrderFixed`, `PaymentUnsettled` if the provider does not respond, `UnknownPayment`,
        `Busy`, `Unavailable`; the errors of the steps of `repay`.
        """
        order = self.get(order_id)
        if not order.get("payment_id"):
            return self._cancel_unpaid(order_id, also)
        if "transfers" in find_payment(self._db, order["payment_id"]):
            self._cancel_and_repay(order_id, order["payment_id"], also)
            return self._cancelled(order)
        payment = self._begin_cancel(order_id, order["payment_id"], also)
        if payment["state"] == "refunding":
            self.refund(payment)
        return self._cancelled(order)

    @operation()
    def _cancel_unpaid(self, order_id: str, also: Sequence[Step]) -> Order:
        def plan() -> Plan:
            current = self.get(order_id)
            if current["status"] == "cancelled":
                return Plan([], result=current)
            if current["status"] != "placed" or current.get("payment_id"):
                raise order_fixed(current)
            cancelled = {**current, "status": "cancelled", "version": current["version"] + 1}
            step = status_step("commerce.orders", current, {"status": "cancelled"})
            return Plan([step], result=cancelled).also(also)

        # The result is not read afterwards: that would fail if another caller deletes the order.
        return cast(Order, self._transactions.run("cancel order", plan).result)

    @operation()
    def _cancel_and_repay(self, order_id: str, payment_id: str, also: Sequence[Step]) -> None:
        self._transactions.run("cancel and repay", lambda: self._repayment_plan(order_id, payment_id, also))

    def _repayment_plan(self, order_id: str, payment_id: str, also: Sequence[Step]) -> Plan:
        payment, order = find_payment(self._db, payment_id), self.get(order_id)
        # guard, 2 lines: an order is repaid once
        if order["status"] != "placed" or payment["state"] != "captured":
            return Plan([])
        if self.repay is None:
            raise OrderFixed("cancelling this order needs the ledger that it was paid from", order_id=order_id)
        back, at = self.repay(payment), self._clock()
        refunded = {"state": "refunded", "refunded_at": at, "transfers": [*payment["transfers"], back.transfer]}
        steps = [
            status_step("commerce.orders", order, {"status": "cancelled"}),
            payment_step(payment, refunded),
            *restock_steps(order_id, order["items"], at),
            *back.steps,
        ]
        return Plan(steps).also(also)

    @operation()
    def _begin_cancel(self, order_id: str, payment_id: str, also: Sequence[Step]) -> Payment:
        if self._gateway is None:
            raise OrderFixed("cancelling a paid order needs a payment gateway: give `Orders` its `payments`")
        self._transactions.run("cancel order", lambda: self._cancel_plan(order_id, payment_id, also))
        return find_payment(self._db, payment_id)

    def _cancelled(self, order: Order) -> Order:
        """Return the current order; if it was deleted in the meantime, return the earlier one as cancelled."""
        try:
            return self.get(order["_id"])
        except UnknownOrder:
            return cast(Order, {**order, "status": "cancelled"})

    def _cancel_plan(self, order_id: str, payment_id: str, also: Sequence[Step]) -> Plan:
        # The payment is read first: if it is no longer captured, the order that is read after it shows why.
        payment, order = find_payment(self._db, payment_id), self.get(order_id)
        # guard, 2 lines: an order is cancelled once
        if order["status"] != "placed":
            return Plan([])
        if payment["state"] != "captured":
            raise OrderFixed(f"the payment of the order is {payment['state']}, not captured", order_id=order_id)
        refund_due = {"state": "refunding", "refunding_at": self._clock()}
        cancelling = status_step("commerce.orders", order, {"status": "cancelling"})
        return Plan([cancelling, payment_step(payment, refund_due)]).also(also)

    def refund(self, payment: Payment, *, payments: PaymentGateway | None = None) -> None:
        """Refund a payment in state `refunding`, and restock its order, if there is one.

        `payments` is the provider that charged the payment, if it is not the provider of these orders.

        Atomic: after the provider's response, one run over payment, order and stock.
        After a crash: the payment is still `refunding`; the job `settle-payments` finishes it.
        Raises: `OrderFixed` if no refund is due (cancel the order instead), `UnknownPayment`, `PaymentUnsettled`,
        `Busy`, `Unavailable`.
        """
        payment = self._refundable(payment["_id"])
        if payment["amount"] and payment["state"] == "refunding":
            self._refund_at_provider(payment, payments or self._gateway)
        self.record_refund(payment)

    @operation(reads_only=True)
    def _refundable(self, payment_id: str) -> Payment:
        payment = find_payment(self._db, payment_id)
        # guard: a payment is refunded only if a refund is due
        if payment["state"] not in ("refunding", "refunded"):
            raise OrderFixed(f"the payment is {payment['state']}, so no refund is due", payment_id=payment_id)
        return payment

    def _refund_at_provider(self, payment: Payment, gateway: PaymentGateway | None) -> None:
        try:
            charge = gateway.refund(attempt_of(payment)) if gateway else None
        except Exception as error:
            log.warning("the payment provider failed to refund %s: %r", payment["_id"], error)
            raise _refund_unconfirmed(payment) from error
        if charge is None or charge.state != "refunded":
            raise _refund_unconfirmed(payment, charge.reason if charge else "")

    @operation()
    def record_refund(self, payment: Payment) -> None:
        """Record that a payment was refunded, by us or at the provider; cancel its order and restock the goods.

        Atomic: one run over payment, order and stock.
        After a crash: the change is complete or did not happen.
        Raises: `UnknownPayment`, `Busy`, `Unavailable`.
        """

        def plan() -> Plan:
            current = find_payment(self._db, payment["_id"])
            order = self._order_of(current)
            if current["state"] not in ORDER_STATUS:
                return Plan([])
            steps = [payment_step(current, {"state": "refunded", "refunded_at": self._clock()})]
            status = ORDER_STATUS[current["state"]]
            if order and order["status"] == status and order["payment_id"] == payment["_id"]:
                steps.append(status_step("commerce.orders", order, {"status": "cancelled"}))
                steps += restock_steps(order["_id"], order["items"], self._clock())
            return Plan(steps)

        self._transactions.run("refund", plan)

    def _order_of(self, payment: Payment) -> Order | None:
        """Return the order of a payment. A lost order is created first, or `from_cart` could create it afterwards."""
        # guard: a lost order is created before its refund is recorded
        find = self.from_cart if payment["state"] == "captured" else self.get
        with suppress(UnknownOrder):
            return find(payment["cart_id"])
        return None

    @operation()
    def delete(self, order_id: str) -> None:
        """Delete an order that is cancelled or unpaid.

        Raises: `UnknownOrder`, `OrderFixed`.
        """
        checks.identifier(order_id, "order")
        deletable = {"$or": [{"status": "cancelled"}, {"status": "placed", "payment_id": None}]}
        where = {"_id": order_id, **deletable}
        if not self._db["commerce.orders"].delete_one(where).deleted_count:
            raise order_fixed(self.get(order_id))


def _refund_unconfirmed(payment: Payment, reason: str = "") -> PaymentUnsettled:
    what = reason or "the payment provider has not confirmed the refund"
    return PaymentUnsettled(f"{what}; a job will ask again", outcome_unknown=True, payment_id=payment["_id"])
