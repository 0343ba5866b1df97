"""Every query on carts, declared once."""

from __future__ import annotations

from datetime import datetime

from squinney.mongo.queries import Pipeline, Query, declared
from squinney.mongo.schema import Document

_TIME = datetime(2026, 1, 1)  # noqa: DTZ001 - a sample value

CART = Query("commerce.cart", "commerce.carts", where=lambda cart_id: {"_id": cart_id}, example={"cart_id": "c"})


def _cart_and_product(cart_id: str, sku: str) -> list[Document]:
    product: Document = {
        "from": "commerce.products",
        "pipeline": [{"$match": {"_id": sku}}, {"$project": {"title": 1, "details": 1, "pricing": 1, "added_id": 1}}],
        "as": "product",
    }
    return [{"$match": {"_id": cart_id}}, {"$lookup": product}]


CART_AND_PRODUCT = Pipeline(
    "commerce.cart-and-product",
    "commerce.carts",
    stages=_cart_and_product,
    example={"cart_id": "c", "sku": "s"},
    routing="few",
    reason="the cart and the product are on different shards; one round trip reads both",
)
IDLE_CARTS = Query(
    "commerce.idle-carts",
    "commerce.carts",
    where=lambda status, before: {"status": status, "last_modified": {"$lt": before}},
    example={"status": "active", "before": _TIME},
    sort=[("last_modified", 1)],
    routing="broadcast",
    reason="expire_carts() looks for work on every shard",
)
OPEN_CARTS_OF = Query(
    "commerce.open-carts-of",
    "commerce.carts",
    where=lambda customer: {
        "customer": customer,
        "status": {"$in": ["active", "pending"]},
        "items.0": {"$exists": True},
    },
    example={"customer": "u"},
    sort=[("created_at", -1)],
    routing="broadcast",
    reason="carts are sharded by id, so a customer's carts are on all shards",
)
CARTS = Query(
    "commerce.carts",
    "commerce.carts",
    where=lambda status: {"status": status},
    example={"status": "active"},
    sort=[("last_modified", 1), ("_id", 1)],
    routing="broadcast",
    reason="lists carts of all shards, a page at a time",
)
QUERIES = declared(globals())
