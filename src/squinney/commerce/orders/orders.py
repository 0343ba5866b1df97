"""`Orders`: one update on the server changes an order's lines and total together."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from pymongo.client_session import ClientSession

from squinney import checks
from squinney.clock import Clock, utcnow
from squinney.commerce.carts import queries as cart_queries
from squinney.commerce.carts import rules as cart_rules
from squinney.commerce.carts.documents import Cart, Payment
from squinney.commerce.documents import CURRENCY
from squinney.commerce.errors import OrderFixed, PaymentUnsettled, UnknownOrder
from squinney.commerce.orders import lines as order_lines
from squinney.commerce.orders import queries, rules
from squinney.commerce.orders.documents import Order
from squinney.commerce.orders.lines import EDITABLE, Edit, checked_lines, order_fixed
from squinney.commerce.orders.payments import PaymentGateway, find_payment
from squinney.mongo.connect import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db
from squinney.patterns.ids import new_id
from squinney.patterns.paging import Page, page
from squinney.transactions import Key, Plan, Stale, Step, Transactions, once

log = logging.getLogger(__name__)

# The status of an order for each state of its payment that can become `refunded`.
ORDER_STATUS = {"captured": "placed", "refunding": "cancelling"}


class Orders:
    """Orders whose total is always the sum of their lines.

    `payments` makes refunds; without it, paid orders cannot be cancelled.
    """

    def __init__(
        self,
        db: Db,
        *,
        payments: PaymentGateway | None = None,
        transactions: Transactions | None = None,
        clock: Clock = utcnow,
    ) -> None:
        self._db = pinned(db)
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
    ) -> Order:
        """Create an order from lines `{sku, price, qty, title?}`, once per `key`.

        Atomic: one insert, together with the key's record.
        After a crash: nothing is left, or in two-phase mode an invisible stub that `recover-transactions` removes.
        Raises: `Invalid`, `OrderLimit`; with a key also `KeyReused` and `StillRunning`.
        """
        lines = checked_lines(items)
        order: Order = {
            "_id": new_id(),
            "items": lines,
            "total": cart_rules.total(lines),
            "currency": checks.text(currency, "currency", most=3, pattern=CURRENCY),
            "status": "placed",
            "placed_at": self._clock(),
            "version": 1,
        }
        if customer is not None:
            order["customer"] = checks.identifier(customer, "customer")
        plan = Plan([Step("orders", order["_id"], insert=order)], result=order)
        arguments = {"items": lines, "currency": currency, "customer": customer}
        outcome = self._transactions.run("place order", plan, key=key, arguments=arguments)
        return cast(Order, outcome.result)

    @operation()
    def from_cart(self, cart_id: str) -> Order:
        """Return the order of a complete cart; create the order if it is missing. Repeats are safe.

        Atomic: one run inserts the order, if the payment is still captured.
        After a crash: in native mode nothing is left; in two-phase mode `recover-transactions` settles the run.
        Raises: `UnknownOrder` if there is no complete cart with that id, or it was not paid for; `Busy`, `Unavailable`.
        """
        checks.identifier(cart_id, "cart")
        return cast(Order, self._transactions.run("order from cart", lambda: self._from_cart_plan(cart_id)).result)

    def _from_cart_plan(self, cart_id: str) -> Plan:
        cart = cast(Cart | None, self._db["carts"].find_one(cart_queries.CART(cart_id=cart_id)))
        if cart is None or cart["status"] != "complete":
            raise UnknownOrder(f"there is no complete cart {cart_id}", cart_id=cart_id)
        payment_id = f"{cart_id}:{cart['attempt']}"
        # The payment is read first: if it is no longer captured, the order that is read after it shows why.
        payment = self._db["payments"].find_one(cart_queries.PAYMENT(payment_id=payment_id))
        existing = self._db["orders"].find_one(queries.ORDER(order_id=cart_id))
        if existing is not None:
            return Plan([], result=existing)
        if payment is None or payment["state"] != "captured":
            raise UnknownOrder(f"cart {cart_id} was not paid for", cart_id=cart_id)
        order = rules.order_for(cart, cast(Payment, payment), self._clock())
        # The payment is guarded, because a refund in the meantime would find no order to cancel.
        paid = Step("payments", payment_id, guard={"state": "captured"}, refused=Stale)
        return Plan([paid, Step("orders", cart_id, insert=order, refused=Stale)], result=order)

    @operation(reads_only=True)
    def get(self, order_id: str) -> Order:
        """Return the order.

        Raises: `UnknownOrder`.
        """
        return self._get(order_id)

    def _get(self, order_id: str, session: ClientSession | None = None) -> Order:
        checks.identifier(order_id, "order")
        order = self._db["orders"].find_one(queries.ORDER(order_id=order_id), session=session)
        if order is None:
            raise UnknownOrder(f"there is no order {order_id}", order_id=order_id)
        return cast(Order, order)

    @operation(reads_only=True)
    def by_customer(self, customer: str, *, cursor: str | None = None, limit: int = 50) -> Page[Order]:
        """Return a page of a customer's orders, newest first.

        Raises: `Invalid` for an unknown cursor.
        """
        checks.identifier(customer, "customer")
        found = page(self._db, queries.ORDERS_BY_CUSTOMER, cursor=cursor, limit=limit, customer=customer)
        return cast(Page[Order], found)

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
    ) -> Order:
        """Add a line, or add `qty` to the existing line with this SKU, which keeps its price; once per `key`.

        Atomic: one update computes lines and total on the server; with a key, in one transaction with its record.
        After a crash: the change is complete or did not happen.
        Raises: `Invalid`, `UnknownOrder`, `OrderFixed`, `OrderLimit`, `WrongCurrency`; with a key also `KeyReused`
        and `Busy`.
        """
        line = {"sku": sku, "price": price, "qty": qty, "title": title or sku}
        return self._edit(order_id, order_lines.edit_to_add(line, currency), key)

    @operation()
    def set_quantity(self, order_id: str, sku: str, qty: int, *, key: str | Key | None = None) -> Order:
        """Set the quantity of a line to `qty`, which must be at least 1.

        Atomic: as `add_or_increase`.
        After a crash: the change is complete or did not happen.
        Raises: `Invalid`, `UnknownOrder`, `UnknownLine`, `OrderFixed`, `OrderLimit`; with a key also `KeyReused` and
        `Busy`.
        """
        return self._edit(order_id, order_lines.edit_to_set(sku, qty), key)

    @operation()
    def remove_item(self, order_id: str, sku: str, *, key: str | Key | None = None) -> Order:
        """Remove a line.

        Atomic: as `add_or_increase`.
        After a crash: the change is complete or did not happen.
        Raises: `Invalid`, `UnknownOrder`, `UnknownLine`, `OrderFixed`; with a key also `KeyReused` and `Busy`.
        """
        return self._edit(order_id, order_lines.edit_to_remove(sku), key)

    def _edit(self, order_id: str, edit: Edit, key: str | Key | None) -> Order:
        checks.identifier(order_id, "order")
        if key is None:
            return self._apply(order_id, edit)
        return once(
            self._db,
            f"order {edit.kind}",
            lambda session: self._apply(order_id, edit, session),
            key=key,
            arguments={"order": order_id, **edit.arguments},
        )

    def _apply(self, order_id: str, edit: Edit, session: ClientSession | None = None) -> Order:
        changed = self._db["orders"].find_one_and_update(
            edit.where(order_id), edit.update, return_document=True, session=session
        )
        if changed is None:
            raise edit.refusal(self._get(order_id, session))
        return cast(Order, changed)

    # ---- cancelling and deleting ----

    def cancel(self, order_id: str) -> Order:
        """Cancel an order. A paid order is refunded, and its goods are restocked.

        Atomic: for an unpaid order, one update. For a paid order, one run marks order and payment; after the provider's
        response, a second run restocks the goods and closes both.
        After a crash: the order is `cancelling` and its payment `refunding`; the job `settle-payments` finishes both.
        Raises: `UnknownOrder`, `OrderFixed`, `PaymentUnsettled` if the provider does not respond, `UnknownPayment`,
        `Busy`, `Unavailable`.
        """
        order = self.get(order_id)
        if not order.get("payment_id"):
            return self._cancel_unpaid(order)
        payment = self._begin_cancel(order_id, order["payment_id"])
        if payment["state"] == "refunding":
            self.refund(payment)
        return self._cancelled(order)

    @operation()
    def _cancel_unpaid(self, order: Order) -> Order:
        where = {"_id": order["_id"], **EDITABLE}
        change = {"$set": {"status": "cancelled"}, "$inc": {"version": 1}}
        # The update itself returns the order: a read after it would fail if another caller deletes the order.
        changed = self._db["orders"].find_one_and_update(where, change, return_document=True)
        current = self.get(order["_id"]) if changed is None else cast(Order, changed)
        if current["status"] != "cancelled":
            raise order_fixed(current)
        return current

    @operation()
    def _begin_cancel(self, order_id: str, payment_id: str) -> Payment:
        if self._gateway is None:
            raise OrderFixed("cancelling a paid order needs a payment gateway: give `Orders` its `payments`")
        self._transactions.run("cancel order", lambda: self._cancel_plan(order_id, payment_id))
        return find_payment(self._db, payment_id)

    def _cancelled(self, order: Order) -> Order:
        """Return the current order; if it was deleted in the meantime, return the earlier one as cancelled."""
        try:
            return self.get(order["_id"])
        except UnknownOrder:
            return cast(Order, {**order, "status": "cancelled"})

    def _cancel_plan(self, order_id: str, payment_id: str) -> Plan:
        # The payment is read first: if it is no longer captured, the order that is read after it shows why.
        payment, order = find_payment(self._db, payment_id), self.get(order_id)
        if order["status"] != "placed":
            return Plan([])
        if payment["state"] != "captured":
            raise OrderFixed(f"the payment of the order is {payment['state']}, not captured", order_id=order_id)
        refund_due = {"state": "refunding", "refunding_at": self._clock()}
        cancelling = cart_rules.status_step("orders", order, {"status": "cancelling"})
        return Plan([cancelling, cart_rules.payment_step(payment, refund_due)])

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
        if payment["state"] not in ("refunding", "refunded"):
            raise OrderFixed(f"the payment is {payment['state']}, so no refund is due", payment_id=payment_id)
        return payment

    def _refund_at_provider(self, payment: Payment, gateway: PaymentGateway | None) -> None:
        try:
            charge = gateway.refund(rules.attempt_of(payment)) if gateway else None
        except Exception as error:
            log.warning("the payment provider failed to refund %s: %r", payment["_id"], error)
            raise _refund_unconfirmed(payment) from error
        if charge is None or charge.state != "refunded":
            raise _refund_unconfirmed(payment)

    @operation()
    def record_refund(self, payment: Payment) -> None:
        """Record that a payment was refunded, by us or at the provider; cancel its order and restock the goods.

        Atomic: one run over payment, order and stock.
        After a crash: the change is complete or did not happen; in two-phase mode `recover-transactions` settles it.
        Raises: `UnknownPayment`, `Busy`, `Unavailable`.
        """

        def plan() -> Plan:
            found = find_payment(self._db, payment["_id"])
            order = self._order_of(found)
            if found["state"] not in ORDER_STATUS:
                return Plan([])
            steps = [cart_rules.payment_step(found, {"state": "refunded"})]
            status = ORDER_STATUS[found["state"]]
            if order and order["status"] == status and order["payment_id"] == payment["_id"]:
                steps.append(cart_rules.status_step("orders", order, {"status": "cancelled"}))
                steps += rules.restock_steps(order, self._clock())
            return Plan(steps)

        self._transactions.run("refund", plan)

    def _order_of(self, payment: Payment) -> Order | None:
        """Return the order of a payment. A lost order is created first, or `from_cart` could create it afterwards."""
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
        where = {"_id": order_id, **deletable, "txn_stub": None, "txn_lock": None}
        if not self._db["orders"].delete_one(where).deleted_count:
            raise order_fixed(self.get(order_id))


def _refund_unconfirmed(payment: Payment) -> PaymentUnsettled:
    message = "the payment provider has not confirmed the refund; a job will ask again"
    return PaymentUnsettled(message, outcome_unknown=True, payment_id=payment["_id"])
