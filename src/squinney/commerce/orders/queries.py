"""Every query on orders, declared once."""

from __future__ import annotations

from squinney.mongo.queries import Query, declared
from squinney.transactions import visible

ORDER = Query("commerce.order", "orders", where=lambda order_id: visible({"_id": order_id}), example={"order_id": "c"})
ORDERS_BY_CUSTOMER = Query(
    "commerce.orders-by-customer",
    "orders",
    where=lambda customer: visible({"customer": customer}),
    example={"customer": "u"},
    sort=[("placed_at", -1), ("_id", -1)],
    routing="broadcast",
    reason="orders are sharded by id, so a customer's orders are on all shards",
)
ORDERS = Query(
    "commerce.orders",
    "orders",
    where=lambda: visible({}),
    sort=[("placed_at", -1), ("_id", -1)],
    routing="broadcast",
    reason="lists orders of all shards, a page at a time",
)

QUERIES = declared(globals())
