"""What happened to an order, in the order in which it happened."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from squinney.commerce import Payment
from squinney.commerce.orders.documents import Order

RECOVERED = "recovered after a crash: the checkout was interrupted, and a job completed it"


class Happened(NamedTuple):
    """One line of the timeline."""

    what: str
    at: datetime


def timeline(order: Order, payment: Payment | None) -> list[Happened]:
    """Return when an order was reserved, charged and placed, and when it was cancelled; unknown times are left out."""
    times: list[tuple[str, datetime | None]] = [("placed", order["placed_at"])]
    if payment:
        charged = "paid from an account" if "paid_from" in payment else "charge begun"
        times = [
            ("goods reserved", payment.get("reserved_at")),
            (charged, payment["at"]),
            (RECOVERED, payment.get("recovered_at")),
            ("placed", order["placed_at"]),
            ("cancelled", payment.get("refunding_at")),
            ("refunded", payment.get("refunded_at")),
        ]
    return [Happened(what, at) for what, at in times if at is not None]
