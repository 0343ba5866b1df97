"""Every query on stock, its movements and its reservations, declared once."""

from __future__ import annotations

from datetime import datetime

from squinney.mongo.queries import Pipeline, Query, declared
from squinney.mongo.schema import Document

_TIME = datetime(2026, 1, 1)  # noqa: DTZ001 - a sample value

STOCK = Query("commerce.stock", "commerce.stock", where=lambda sku: {"_id": sku}, example={"sku": "s"})
STOCKS = Query(
    "commerce.stocks",
    "commerce.stock",
    where=lambda skus: {"_id": {"$in": skus}},
    example={"skus": ["s", "t"]},
    routing="few",
    reason="the products of one page are on several shards",
)
MOVEMENTS = Query(
    "commerce.movements",
    "commerce.movements",
    where=lambda sku: {"sku": sku},
    example={"sku": "s"},
    sort=[("at", -1), ("_id", -1)],
)
# By this id the stock tells a product from another product that had its SKU before.
PRODUCT_ID = Query("commerce.product-id", "commerce.products", where=lambda sku: {"_id": sku}, example={"sku": "s"})
RESERVED_BY = Query(
    "commerce.reserved-by",
    "commerce.reservations",
    where=lambda cart_id: {"_id.cart": cart_id},
    example={"cart_id": "c"},
    routing="broadcast",
    reason="a cart's reservations are on many shards; they are read only when the cart ends",
)
# The status of a cart whose reservations stay. A cart that is missing or expired never gets one of these again.
KEEPING_RESERVATIONS = ["active", "pending", "expiring", "complete"]


def _orphans(before: datetime) -> list[Document]:
    status: list[Document] = [{"$project": {"status": 1}}]
    cart = {"from": "commerce.carts", "localField": "_id.cart", "foreignField": "_id", "pipeline": status, "as": "cart"}
    return [
        {"$match": {"at": {"$lt": before}}},
        {"$sort": {"at": 1}},
        {"$lookup": cart},
        # guard: only reservations of missing or expired carts are returned
        {"$match": {"cart.status": {"$nin": KEEPING_RESERVATIONS}}},
    ]


ORPHANS = Pipeline(
    "commerce.orphans",
    "commerce.reservations",
    stages=_orphans,
    example={"before": _TIME},
    routing="broadcast",
    reason="return_orphans() looks for work on every shard",
)

QUERIES = declared(globals())
