"""Decisions about orders, without a database."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from squinney.commerce.carts.documents import Cart, Payment
from squinney.commerce.carts.rules import movement_step, order_movement, stock_step
from squinney.commerce.orders.documents import Order, OrderLine
from squinney.commerce.orders.payments import Attempt
from squinney.transactions import Stale, Step


def restock_steps(order: Order, at: datetime) -> list[Step]:
    """What the order sold becomes available again."""
    steps = []
    for line in order["items"]:
        sku, qty = line["sku"], line["qty"]
        steps.append(stock_step(sku, qty, "sold", "qty", lambda _: Stale("the stock says that less was sold")))
        steps.append(movement_step(order_movement(order["_id"], sku, "restocked", qty, at)))
    return steps


def order_for(cart: Cart, payment: Payment, at: datetime) -> Order:
    """The order that a captured payment makes."""
    order: Order = {
        "_id": cart["_id"],
        "items": [order_line(line) for line in payment["items"]],
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
    """The attempt as a provider knows it."""
    return Attempt(payment["_id"], payment["amount"], payment["currency"], payment.get("intent"))


def order_line(line: Mapping[str, Any]) -> OrderLine:
    """The part of a cart's line that an order keeps."""
    return {"sku": line["sku"], "title": line["title"], "price": line["price"], "qty": line["qty"]}
