"""Every query on stock, carts and payments, declared once."""

from __future__ import annotations

from datetime import datetime

from squinney.mongo.queries import Pipeline, Query, declared
from squinney.mongo.schema import Document
from squinney.transactions import visible

_TIME = datetime(2026, 1, 1)  # noqa: DTZ001 - a sample value

STOCK = Query("commerce.stock", "stock", where=lambda sku: visible({"_id": sku}), example={"sku": "s"})
STOCKS = Query(
    "commerce.stocks",
    "stock",
    where=lambda skus: visible({"_id": {"$in": skus}}),
    example={"skus": ["s", "t"]},
    routing="few",
    reason="the products of one page are on several shards",
)
MOVEMENTS = Query(
    "commerce.movements",
    "movements",
    where=lambda sku: visible({"sku": sku}),
    example={"sku": "s"},
    sort=[("at", -1), ("_id", -1)],
)
CART = Query("commerce.cart", "carts", where=lambda cart_id: {"_id": cart_id}, example={"cart_id": "c"})


def _cart_and_product(cart_id: str, sku: str) -> list[Document]:
    product: Document = {
        "from": "products",
        "pipeline": [{"$match": {"_id": sku}}, {"$project": {"title": 1, "details": 1, "pricing": 1, "added_id": 1}}],
        "as": "product",
    }
    return [{"$match": {"_id": cart_id}}, {"$lookup": product}]


CART_AND_PRODUCT = Pipeline(
    "commerce.cart-and-product",
    "carts",
    stages=_cart_and_product,
    example={"cart_id": "c", "sku": "s"},
    routing="few",
    reason="the cart and the product are on different shards; one round trip reads both",
)
RESERVED_BY = Query(
    "commerce.reserved-by",
    "reservations",
    where=lambda cart_id: visible({"_id.cart": cart_id}),
    example={"cart_id": "c"},
    routing="broadcast",
    reason="a cart's reservations are on many shards; they are read only when the cart ends",
)
# The status of a cart whose reservations stay. A cart that is missing or expired never gets one of these again.
KEEPING_RESERVATIONS = ["active", "pending", "expiring", "complete"]


def _orphans(before: datetime) -> list[Document]:
    status: list[Document] = [{"$project": {"status": 1}}]
    cart = {"from": "carts", "localField": "_id.cart", "foreignField": "_id", "pipeline": status, "as": "cart"}
    return [
        {"$match": visible({"at": {"$lt": before}})},
        {"$sort": {"at": 1}},
        {"$lookup": cart},
        {"$match": {"cart.status": {"$nin": KEEPING_RESERVATIONS}}},
    ]


ORPHANS = Pipeline(
    "commerce.orphans",
    "reservations",
    stages=_orphans,
    example={"before": _TIME},
    routing="broadcast",
    reason="return_orphans() looks for work on every shard",
)
IDLE_CARTS = Query(
    "commerce.idle-carts",
    "carts",
    where=lambda status, before: {"status": status, "last_modified": {"$lt": before}},
    example={"status": "active", "before": _TIME},
    sort=[("last_modified", 1)],
    routing="broadcast",
    reason="expire_carts() looks for work on every shard",
)
CARTS = Query(
    "commerce.carts",
    "carts",
    where=lambda status: {"status": status},
    example={"status": "active"},
    sort=[("last_modified", 1), ("_id", 1)],
    routing="broadcast",
    reason="lists carts of all shards, a page at a time",
)
PAYMENTS_OF_CARTS = Query(
    "commerce.payments-of-carts",
    "payments",
    where=lambda cart_ids, finished: {"cart_id": {"$in": cart_ids}, "state": {"$nin": finished}},
    example={"cart_ids": ["c", "d"], "finished": ["declined", "refunded"]},
    routing="broadcast",
    reason="forget_carts() reads the attempts of a batch of carts",
)
PAYMENT = Query(
    "commerce.payment", "payments", where=lambda payment_id: visible({"_id": payment_id}), example={"payment_id": "c:1"}
)
OPEN_PAYMENTS = Query(
    "commerce.open-payments",
    "payments",
    where=lambda state, before: visible({"state": state, "at": {"$lt": before}}),
    example={"state": "started", "before": _TIME},
    sort=[("at", 1)],
    routing="broadcast",
    reason="settle_payments() looks for work on every shard",
)
PAYMENTS_OF_CART = Query(
    "commerce.payments-of-cart",
    "payments",
    where=lambda cart_id: visible({"cart_id": cart_id}),
    example={"cart_id": "c"},
    sort=[("attempt", 1)],
    routing="broadcast",
    reason="used rarely, for one cart at a time",
)

QUERIES = declared(globals())
