"""Every query on orders, declared once."""

from __future__ import annotations

from squinney.mongo.queries import Pipeline, Query, declared
from squinney.mongo.schema import Document

ORDER = Query("commerce.order", "commerce.orders", where=lambda order_id: {"_id": order_id}, example={"order_id": "c"})


def _refused_order(order_id: str, within_limits: Document) -> list[Document]:
    return [{"$match": ORDER(order_id=order_id)}, {"$set": {"within_limits": within_limits}}]


# One read of the order and of the reason why an edit was refused: between two reads the order could change.
REFUSED_ORDER = Pipeline(
    "commerce.refused-order",
    "commerce.orders",
    stages=_refused_order,
    example={"order_id": "c", "within_limits": {"$lte": [{"$size": "$items"}, 100]}},
)
ORDERS_BY_CUSTOMER = Query(
    "commerce.orders-by-customer",
    "commerce.orders",
    where=lambda customer: {"customer": customer},
    example={"customer": "u"},
    sort=[("placed_at", -1), ("_id", -1)],
    routing="broadcast",
    reason="orders are sharded by id, so a customer's orders are on all shards",
)
ORDERS = Query(
    "commerce.orders",
    "commerce.orders",
    where=dict,
    sort=[("placed_at", -1), ("_id", -1)],
    routing="broadcast",
    reason="lists orders of all shards, a page at a time",
)

QUERIES = declared(globals())
