"""Every query on payment attempts, declared once."""

from __future__ import annotations

from datetime import datetime

from squinney.mongo.queries import Query, declared

_TIME = datetime(2026, 1, 1)  # noqa: DTZ001 - a sample value

PAYMENTS_OF_CARTS = Query(
    "commerce.payments-of-carts",
    "commerce.payments",
    where=lambda cart_ids, finished: {"cart_id": {"$in": cart_ids}, "state": {"$nin": finished}},
    example={"cart_ids": ["c", "d"], "finished": ["declined", "refunded"]},
    routing="broadcast",
    reason="forget_carts() reads the attempts of a batch of carts",
)
PAYMENT = Query(
    "commerce.payment", "commerce.payments", where=lambda payment_id: {"_id": payment_id}, example={"payment_id": "c:1"}
)
OPEN_PAYMENTS = Query(
    "commerce.open-payments",
    "commerce.payments",
    where=lambda state, before: {"state": state, "at": {"$lt": before}},
    example={"state": "started", "before": _TIME},
    sort=[("at", 1)],
    routing="broadcast",
    reason="settle_payments() looks for work on every shard",
)
PAYMENTS_OF_CART = Query(
    "commerce.payments-of-cart",
    "commerce.payments",
    where=lambda cart_id: {"cart_id": cart_id},
    example={"cart_id": "c"},
    sort=[("attempt", 1)],
    routing="broadcast",
    reason="used rarely, for one cart at a time",
)

QUERIES = declared(globals())
