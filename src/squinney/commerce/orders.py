"""`Orders`: their lines and total change together, by one update computed on the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from squinney.clock import Clock, utcnow
from squinney.commerce import queries, rules
from squinney.commerce.documents import (
    CURRENCY,
    MOST_LINES,
    MOST_PRICE,
    MOST_QTY,
    MOST_TOTAL,
    Cart,
    Order,
    OrderLine,
    Payment,
)
from squinney.commerce.errors import (
    OrderFixed,
    OrderLimit,
    PaymentUnsettled,
    UnknownLine,
    UnknownOrder,
    UnknownPayment,
    WrongCurrency,
)
from squinney.commerce.payments import Attempt, PaymentGateway
from squinney.errors import Conflict, Invalid, SquinneyError
from squinney.mongo.connect import operation
from squinney.mongo.schema import Db, Document
from squinney.patterns import checks
from squinney.patterns.ids import new_id
from squinney.patterns.paging import Page, page
from squinney.patterns.transactions import Plan, Stale, Step, Transactions

# The lines of an order that came from a cart stand for goods and money that have moved: they do not change alone.
EDITABLE = {"status": "placed", "payment_id": None, "txn_stub": None, "txn_lock": None}


class Orders:
    """Orders whose total is the sum of their lines after every single update.

    `payments` is asked for refunds; without it, orders that were paid for cannot be cancelled.
    """

    def __init__(
        self,
        db: Db,
        *,
        payments: PaymentGateway | None = None,
        transactions: Transactions | None = None,
        clock: Clock = utcnow,
    ) -> None:
        self._db = db
        self._gateway = payments
        self._transactions = transactions or Transactions(db)
        self._clock = clock

    # ---- making and reading ----

    @operation()
    def place(
        self,
        items: Sequence[Mapping[str, Any]],
        *,
        currency: str = "EUR",
        customer: str | None = None,
        key: str | None = None,
        scope: str = "",
    ) -> Order:
        """Make an order of lines `{sku, price, qty, title?}`, once per `key`.

        Atomic: one insert, together with the key's record.
        After a crash: nothing, or in two-phase mode an invisible stub that `recover-transactions` removes.
        Raises: `Invalid`, `OrderLimit`; with a key also `KeyReused` and `StillRunning`.
        """
        lines = _checked_lines(items)
        order: Order = {
            "_id": new_id(),
            "items": lines,
            "total": rules.total(lines),
            "currency": checks.text(currency, "currency", most=3, pattern=CURRENCY),
            "status": "placed",
            "placed_at": self._clock(),
            "version": 1,
        }
        if customer is not None:
            order["customer"] = checks.identifier(customer, "customer")
        plan = Plan([Step("orders", order["_id"], insert=order)], result=order)
        arguments = {"items": lines, "currency": currency, "customer": customer}
        outcome = self._transactions.run("place order", plan, key=key, scope=scope, arguments=arguments)
        return cast(Order, outcome.result)

    def step_for(self, cart: Cart, payment: Payment, at: datetime) -> Step:
        """The step that makes a paid cart's order, for the run that completes the cart."""
        return Step("orders", cart["_id"], insert=rules.order_for(cart, payment, at))

    @operation()
    def from_cart(self, cart_id: str) -> Order:
        """The order of a complete cart, made now if it is missing; any number of times.

        Atomic: one upsert.
        After a crash: it happened or it did not.
        Raises: `UnknownOrder` where there is no complete cart of that id.
        """
        checks.identifier(cart_id, "cart")
        cart = cast(Cart | None, self._db["carts"].find_one(queries.CART(cart_id=cart_id)))
        if cart is None or cart["status"] != "complete":
            raise UnknownOrder(f"there is no complete cart {cart_id}", cart_id=cart_id)
        if self._db["orders"].find_one(queries.ORDER(order_id=cart_id)) is None:
            payment_id = f"{cart_id}:{cart['attempt']}"
            payment = self._db["payments"].find_one(queries.PAYMENT(payment_id=payment_id))
            if payment is None or payment["state"] != "captured":
                raise UnknownOrder(f"cart {cart_id} was not paid for", cart_id=cart_id)
            order = rules.order_for(cart, cast(Payment, payment), self._clock())
            self._db["orders"].update_one({"_id": cart_id}, {"$setOnInsert": order}, upsert=True)
        return self.get(cart_id)

    @operation(reads_only=True)
    def get(self, order_id: str) -> Order:
        """The order.

        Raises: `UnknownOrder`.
        """
        checks.identifier(order_id, "order")
        order = self._db["orders"].find_one(queries.ORDER(order_id=order_id))
        if order is None:
            raise UnknownOrder(f"there is no order {order_id}", order_id=order_id)
        return cast(Order, order)

    @operation(reads_only=True)
    def by_customer(self, customer: str, *, cursor: str | None = None, limit: int = 50) -> Page[Order]:
        """A customer's orders, newest first.

        Raises: `Invalid` for a cursor that is none of ours.
        """
        checks.identifier(customer, "customer")
        found = page(self._db, queries.ORDERS_BY_CUSTOMER, cursor=cursor, limit=limit, customer=customer)
        return cast(Page[Order], found)

    @operation(reads_only=True)
    def all(self, *, cursor: str | None = None, limit: int = 50) -> Page[Order]:
        """Every order, newest first."""
        return cast(Page[Order], page(self._db, queries.ORDERS, cursor=cursor, limit=limit))

    # ---- lines ----

    @operation()
    def add_or_increase(
        self, order_id: str, sku: str, price: int, qty: int, *, title: str = "", currency: str | None = None
    ) -> Order:
        """Add a line, or `qty` to the line that is there, whose price stays.

        Atomic: one update that computes lines and total on the server.
        After a crash: it happened or it did not.
        Raises: `Invalid`, `UnknownOrder`, `OrderFixed`, `OrderLimit`, `WrongCurrency`.
        """
        line = _checked_line({"sku": sku, "price": price, "qty": qty, "title": title or sku})
        more = {"$cond": [_is(sku), {"$mergeObjects": ["$$line", {"qty": _plus("$$line.qty", qty)}]}, "$$line"]}
        lines = {
            "$cond": [
                {"$in": [sku_literal(sku), "$items.sku"]},
                {"$map": {"input": "$items", "as": "line", "in": more}},
                {"$concatArrays": ["$items", [{"$literal": line}]]},
            ]
        }
        return self._edit(order_id, lines, currency=currency)

    @operation()
    def set_quantity(self, order_id: str, sku: str, qty: int) -> Order:
        """Make a line say `qty`, which is at least 1.

        Atomic: as `add_or_increase`.
        After a crash: it happened or it did not.
        Raises: `Invalid`, `UnknownOrder`, `UnknownLine`, `OrderFixed`, `OrderLimit`.
        """
        checks.integer(qty, "qty", least=1, most=MOST_QTY)
        changed = {"$cond": [_is(sku), {"$mergeObjects": ["$$line", {"qty": qty}]}, "$$line"]}
        return self._edit(order_id, {"$map": {"input": "$items", "as": "line", "in": changed}}, needs=sku)

    @operation()
    def remove_item(self, order_id: str, sku: str) -> Order:
        """Take a line out.

        Atomic: as `add_or_increase`.
        After a crash: it happened or it did not.
        Raises: `Invalid`, `UnknownOrder`, `UnknownLine`, `OrderFixed`.
        """
        kept = {"$filter": {"input": "$items", "as": "line", "cond": {"$not": [_is(sku)]}}}
        return self._edit(order_id, kept, needs=sku)

    def _edit(self, order_id: str, lines: Document, *, needs: str | None = None, currency: str | None = None) -> Order:
        checks.identifier(order_id, "order")
        where: Document = {"_id": order_id, **EDITABLE, "$expr": _within_limits(lines)}
        if needs is not None:
            where["items.sku"] = checks.identifier(needs, "sku")
        if currency is not None:
            where["currency"] = checks.text(currency, "currency", most=3, pattern=CURRENCY)
        change = {"items": lines, "total": _sum_of(lines), "version": {"$add": ["$version", 1]}}
        changed = self._db["orders"].find_one_and_update(where, [{"$set": change}], return_document=True)
        if changed is None:
            raise self._why_not(order_id, needs, currency)
        return cast(Order, changed)

    def _why_not(self, order_id: str, sku: str | None, currency: str | None) -> SquinneyError:
        order = self.get(order_id)
        if order["status"] != "placed" or order.get("payment_id"):
            return _fixed(order)
        if currency is not None and order["currency"] != currency:
            return WrongCurrency(f"the order is in {order['currency']}, not {currency}", order_id=order_id)
        if sku is not None and all(line["sku"] != sku for line in order["items"]):
            return UnknownLine(f"the order has no line with {sku}", sku=sku)
        return OrderLimit(f"an order has at most {MOST_LINES} lines of {MOST_QTY} units, worth {MOST_TOTAL}")

    # ---- ending ----

    def cancel(self, order_id: str) -> Order:
        """Cancel an order. One that was paid for is refunded and its goods are restocked.

        Atomic: the update, or the run with the payment, that decides to cancel; for a paid order, after the provider's
        answer, the run that restocks and closes payment and order.
        After a crash: the order is `cancelling` and its payment `refunding`, and `settle-payments` goes on.
        Raises: `UnknownOrder`, `OrderFixed`, `PaymentUnsettled` while the provider does not answer, `UnknownPayment`,
        `Busy`, `Unavailable`.
        """
        order = self.get(order_id)
        payment = self._begin_cancel(order)
        if payment is not None and payment["state"] == "refunding":
            self.refund(payment)
        return self.get(order_id)

    @operation()
    def _begin_cancel(self, order: Order) -> Payment | None:
        if not order.get("payment_id"):
            where = {"_id": order["_id"], **EDITABLE}
            done = self._db["orders"].update_one(where, {"$set": {"status": "cancelled"}, "$inc": {"version": 1}})
            if not done.matched_count and (now := self.get(order["_id"]))["status"] != "cancelled":
                raise _fixed(now)
            return None
        if self._gateway is None:
            raise OrderFixed("an order that was paid for needs a payment gateway to be cancelled")
        payment_id = order["payment_id"]
        self._transactions.run("cancel order", lambda: self._cancel_plan(order["_id"], payment_id))
        return self._payment(payment_id)

    def _cancel_plan(self, order_id: str, payment_id: str) -> Plan:
        """The payment is read first: once it is no longer captured, the order says what became of both."""
        payment, order = self._payment(payment_id), self.get(order_id)
        if order["status"] != "placed":
            return Plan([])
        if payment["state"] != "captured":
            raise _fixed(order)
        return Plan([order_step(order, {"status": "cancelling"}), rules.payment_step(payment, {"state": "refunding"})])

    def _payment(self, payment_id: str) -> Payment:
        payment = self._db["payments"].find_one(queries.PAYMENT(payment_id=payment_id))
        if payment is None:
            raise UnknownPayment(f"there is no payment attempt {payment_id}", payment_id=payment_id)
        return cast(Payment, payment)

    def refund(self, payment: Payment) -> None:
        """Give back what a payment in state `refunding` took, and restock the order it made, if any.

        Atomic: after the provider's answer, one run over payment, order and stock.
        After a crash: the payment is still `refunding`, and `settle-payments` goes on.
        Raises: `PaymentUnsettled`, `Busy`, `Unavailable`.
        """
        if payment["amount"]:
            self._give_back(payment)
        self._refunded(payment)

    def _give_back(self, payment: Payment) -> None:
        attempt = Attempt(payment["_id"], payment["amount"], payment["currency"], payment.get("intent"))
        try:
            charge = self._gateway.refund(attempt) if self._gateway else None
        except Exception as error:
            raise _unrefunded(payment) from error
        if charge is None or charge.state != "refunded":
            raise _unrefunded(payment)

    @operation()
    def _refunded(self, payment: Payment) -> None:
        def plan() -> Plan:
            found = self._payment(payment["_id"])
            order = self._db["orders"].find_one(queries.ORDER(order_id=payment["cart_id"]))
            if found["state"] != "refunding":
                return Plan([])
            steps = [rules.payment_step(found, {"state": "refunded"})]
            if order and order["status"] == "cancelling" and order["payment_id"] == payment["_id"]:
                cancelled = cast(Order, order)
                steps.append(order_step(cancelled, {"status": "cancelled"}))
                steps += rules.restock_steps(cancelled, self._clock())
            return Plan(steps)

        self._transactions.run("refund", plan)

    @operation()
    def delete(self, order_id: str) -> None:
        """Forget an order: one that is cancelled, or that nobody paid for.

        Atomic: one delete.
        After a crash: it happened or it did not.
        Raises: `UnknownOrder`, `OrderFixed`.
        """
        checks.identifier(order_id, "order")
        free = {"$or": [{"status": "cancelled"}, {"status": "placed", "payment_id": None}]}
        where = {"_id": order_id, **free, "txn_stub": None, "txn_lock": None}
        if not self._db["orders"].delete_one(where).deleted_count:
            raise _fixed(self.get(order_id))


def order_step(order: Order, change: Mapping[str, Any]) -> Step:
    """Change the order, if it is still as it was read."""
    return Step(
        "orders",
        order["_id"],
        guard={"status": order["status"], "version": order["version"]},
        give={"$set": dict(change), "$inc": {"version": 1}},
        refused=lambda _: Stale("the order has changed"),
    )


def _fixed(order: Order) -> Conflict:
    if order["status"] == "placed":
        return OrderFixed("this order was paid for; its lines change only with the goods: cancel it instead")
    return OrderFixed(f"the order is {order['status']}", order_id=order["_id"], status=order["status"])


def _unrefunded(payment: Payment) -> PaymentUnsettled:
    message = "the payment provider has not confirmed the refund; it will be asked again"
    return PaymentUnsettled(message, outcome_unknown=True, payment_id=payment["_id"])


# ---- lines as they come in ----


def _checked_lines(items: Any) -> list[OrderLine]:
    if not isinstance(items, Sequence) or isinstance(items, str | bytes) or not 1 <= len(items) <= MOST_LINES:
        raise Invalid(f"items must be a list of 1 to {MOST_LINES} lines", field="items", limit=MOST_LINES)
    lines = [_checked_line(item) for item in items]
    if len({line["sku"] for line in lines}) < len(lines):
        raise Invalid("items must have one line per SKU", field="items")
    if rules.total(lines) > MOST_TOTAL:
        raise OrderLimit(f"an order is worth at most {MOST_TOTAL}")
    return lines


def _checked_line(item: Any) -> OrderLine:
    if not isinstance(item, Mapping) or not {"sku", "price", "qty"} <= item.keys() <= {"sku", "price", "qty", "title"}:
        raise Invalid("a line has sku, price, qty and perhaps title, and nothing else", field="items")
    sku = checks.identifier(item["sku"], "sku")
    return {
        "sku": sku,
        "title": checks.text(item.get("title", sku), "title", most=1_000),
        "price": checks.integer(item["price"], "price", least=0, most=MOST_PRICE),
        "qty": checks.integer(item["qty"], "qty", least=1, most=MOST_QTY),
    }


# ---- the server's arithmetic ----


def sku_literal(sku: str) -> Document:
    """A SKU that the server does not take for a field path."""
    return {"$literal": sku}


def _is(sku: str) -> Document:
    return {"$eq": ["$$line.sku", sku_literal(sku)]}


def _plus(value: str, more: int) -> Document:
    return {"$add": [value, more]}


def _sum_of(lines: Document) -> Document:
    worth = {"$multiply": [{"$toLong": "$$line.price"}, {"$toLong": "$$line.qty"}]}
    return {"$sum": {"$map": {"input": lines, "as": "line", "in": worth}}}


def _within_limits(lines: Document) -> Document:
    """Whether the lines that an update would leave are ones an order may have."""
    most = {"$max": {"$map": {"input": lines, "as": "line", "in": "$$line.qty"}}}
    return {
        "$and": [
            {"$lte": [{"$size": lines}, MOST_LINES]},
            {"$lte": [{"$ifNull": [most, 0]}, MOST_QTY]},
            {"$lte": [_sum_of(lines), MOST_TOTAL]},
        ]
    }
