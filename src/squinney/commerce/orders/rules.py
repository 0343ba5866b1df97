"""Pure decisions about orders. Nothing here uses the database."""

from __future__ import annotations

from datetime import datetime

from squinney.commerce.orders.documents import Order
from squinney.commerce.payments.documents import Payment


def order_for(payment: Payment, at: datetime) -> Order:
    """Return the order of a captured payment."""
    order: Order = {
        "_id": payment["cart_id"],
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
    if customer := payment.get("customer"):
        order["customer"] = customer
    return order
