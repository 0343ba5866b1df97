"""Pure decisions about orders, and the transaction steps that restock."""

from __future__ import annotations

from datetime import datetime

from squinney.commerce.carts.documents import Cart, Payment
from squinney.commerce.carts.rules import movement_step, order_movement, stale, stock_step
from squinney.commerce.orders.documents import Order
from squinney.commerce.orders.payments import Attempt
from squinney.transactions import Step


def restock_steps(order: Order, at: datetime) -> list[Step]:
    """Return the steps that make the sold units of an order available again."""
    steps = []
    for line in order["items"]:
        sku, qty = line["sku"], line["qty"]
        steps.append(stock_step(sku, qty, "sold", "qty", stale("the stock has fewer sold units")))
        steps.append(movement_step(order_movement(order["_id"], sku, "restocked", qty, at)))
    return steps


def order_for(cart: Cart, payment: Payment, at: datetime) -> Order:
    """Return the order of a captured payment."""
    order: Order = {
        "_id": cart["_id"],
        "items": [
            {"sku": line["sku"], "title": line["title"], "price": line["price"], "qty": line["qty"]}
            for line in payment["items"]
        ],
        "total": payment["amount"],
        "currency": payment["currency"],
        "status": "placed",
        "placed_at": at,
        "version": 1,
        "payment_id": payment["_id"],
    }
    if customer := cart.get("customer"):
        order["customer"] = customer
    return order


def attempt_of(payment: Payment) -> Attempt:
    """Return the payment attempt in the form that providers take."""
    return Attempt(payment["_id"], payment["amount"], payment["currency"], payment.get("intent"))
