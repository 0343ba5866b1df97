"""The queries of `find_problems`: each reads a whole collection, and finds nothing if the data is consistent."""

from __future__ import annotations

from typing import Any

from squinney.commerce.documents import CART, COUNTS, LINE, ORDER, STOCK
from squinney.commerce.inventory.queries import KEEPING_RESERVATIONS
from squinney.mongo.queries import problem_query
from squinney.mongo.schema import Document
from squinney.mongo.shapes import mismatches

STALLED_SECONDS = 15 * 60  # the job `settle-payments` has asked the provider sixty times by then

DAMAGED_LINES: list[Document] = [
    {"items": {"$elemMatch": {"$not": {"$type": "object"}}}},
    {"items": {"$elemMatch": {"$or": mismatches(LINE)}}},
]
DAMAGED_CART: Document = {"$or": [*mismatches(CART), *DAMAGED_LINES]}
DAMAGED_ORDER: Document = {"$or": [*mismatches(ORDER), *DAMAGED_LINES]}
DAMAGED_STOCK: Document = {"$or": mismatches(STOCK)}


def _undamaged(damaged: Document) -> Document:
    """Return the filter that excludes damaged documents: computing with one would abort the whole pipeline."""
    return {"$nor": [damaged]}


def _lookup(collection: str, local: str, foreign: str, stages: list[Document], name: str) -> Document:
    """Return a lookup of the documents of `collection` whose field `foreign` equals the expression `local`."""
    match: Document = {"$match": {"$expr": {"$eq": [f"${foreign}", "$$local"]}}}
    return {"$lookup": {"from": collection, "let": {"local": local}, "pipeline": [match, *stages], "as": name}}


def _wrong_stock(damaged: bool) -> list[Document]:
    """Find stocks without valid counts (`damaged`), or with other counts than their history gives (`expected`)."""
    kinds = ("received", "adjusted", "sold", "restocked")
    moved = {kind: {"$sum": {"$cond": [{"$eq": ["$kind", kind]}, "$qty", 0]}} for kind in kinds}
    differing: list[Document] = [{"$ne": [f"${name}", f"$expected.{name}"]} for name in COUNTS]
    negative: Document = {"$lt": [{"$min": ["$qty", "$carted", "$sold"]}, 0]}
    return [
        {"$match": DAMAGED_STOCK if damaged else _undamaged(DAMAGED_STOCK)},
        _lookup("commerce.movements", "$_id", "sku", [{"$group": {"_id": None, **moved}}], "moved"),
        _lookup(
            "commerce.reservations", "$_id", "_id.sku", [{"$group": {"_id": None, "qty": {"$sum": "$qty"}}}], "reserved"
        ),
        {"$set": {"expected": _expected_counts()}},
        *([] if damaged else [{"$match": {"$expr": {"$or": [*differing, negative]}}}]),
    ]


def _expected_counts() -> Document:
    """Return the counts that the sums of a stock's movements and reservations give."""
    received, adjusted, sold, restocked, carted = (
        {"$ifNull": [{"$first": f"${path}"}, 0]}
        for path in ("moved.received", "moved.adjusted", "moved.sold", "moved.restocked", "reserved.qty")
    )
    sold = {"$multiply": [{"$add": [sold, restocked]}, -1]}
    qty = {"$subtract": [{"$add": [received, adjusted]}, {"$add": [carted, sold]}]}
    return {"received": received, "adjusted": adjusted, "qty": qty, "carted": carted, "sold": sold}


def _stray_reservations(sold: bool) -> list[Document]:
    """Find reservations of completed carts (`sold`), or of carts that are missing or expired."""
    status: Document = {"$eq": "complete"} if sold else {"$nin": KEEPING_RESERVATIONS}
    return [
        _lookup("commerce.carts", "$_id.cart", "_id", [{"$project": {"status": 1}}], "cart"),
        {"$match": {"cart.status": status}},
    ]


def _unlike_reservations() -> list[Document]:
    # A pair, because MongoDB 6.0 treats an object as a rename and evaluates it before the lookup.
    line = ["$$line.sku", "$$line.qty"]
    projection: list[Document] = [{"$project": {"_id": 0, "sku": "$_id.sku", "qty": 1}}]
    return [
        {"$match": {"status": {"$in": ["active", "pending"]}, **_undamaged(DAMAGED_CART)}},
        _lookup("commerce.reservations", "$_id", "_id.cart", projection, "held"),
        {
            "$set": {
                "lines": {"$map": {"input": "$items", "as": "line", "in": line}},
                "reserved": {"$map": {"input": "$held", "as": "line", "in": line}},
            }
        },
        {"$match": {"$expr": {"$not": [{"$setEquals": ["$lines", "$reserved"]}]}}},
    ]


def _pending_without_attempt() -> list[Document]:
    return [
        {"$match": {"status": "pending", **_undamaged(DAMAGED_CART)}},
        {"$set": {"attempt_id": {"$concat": ["$_id", ":", {"$toString": "$attempt"}]}}},
        _lookup("commerce.payments", "$attempt_id", "_id", [{"$project": {"state": 1}}], "payment"),
        {"$match": {"payment.state": {"$ne": "started"}}},
    ]


def _stalled_payments(state: str) -> list[Document]:
    """Find attempts or refunds that have been open for so long that the provider cannot still be processing them."""
    since = {"$ifNull": ["$refunding_at", "$at"]}
    longest_ago = {"$subtract": ["$$NOW", STALLED_SECONDS * 1_000]}
    return [
        {"$match": {"state": state}},
        {"$set": {"since": since}},
        {"$match": {"$expr": {"$lt": ["$since", longest_ago]}}},
        _lookup("commerce.orders", "$cart_id", "_id", [{"$project": {"status": 1}}], "order"),
    ]


def _paid_without_order() -> list[Document]:
    return [
        {"$match": {"state": "captured"}},
        _lookup("commerce.orders", "$cart_id", "_id", [{"$project": {"payment_id": 1}}], "order"),
        {"$match": {"$expr": {"$ne": [{"$first": "$order.payment_id"}, "$_id"]}}},
        _lookup("commerce.carts", "$cart_id", "_id", [{"$project": {"status": 1, "attempt": 1}}], "cart"),
    ]


def _order_without_payment() -> list[Document]:
    consistent: list[Any] = [["placed", "captured"], ["cancelling", "refunding"], ["cancelled", "refunded"]]
    states = ["$status", {"$first": "$payment.state"}]
    return [
        {"$match": {"payment_id": {"$ne": None}}},
        _lookup("commerce.payments", "$payment_id", "_id", [{"$project": {"state": 1}}], "payment"),
        {"$match": {"$expr": {"$not": [{"$in": [states, consistent]}]}}},
    ]


def _wrong_totals() -> list[Document]:
    line_total = {"$multiply": ["$$line.price", "$$line.qty"]}
    return [
        {"$match": _undamaged(DAMAGED_ORDER)},
        {"$set": {"sum": {"$sum": {"$map": {"input": "$items", "as": "line", "in": line_total}}}}},
        {"$match": {"$expr": {"$ne": ["$sum", "$total"]}}},
    ]


def _unknown_categories() -> list[Document]:
    return [
        {"$unwind": "$category_ids"},
        {"$group": {"_id": "$category_ids", "products": {"$sum": 1}}},
        {"$lookup": {"from": "commerce.categories", "localField": "_id", "foreignField": "_id", "as": "category"}},
        {"$match": {"category.0": {"$exists": False}}},
    ]


def _outdated_products(version: int) -> list[Document]:
    counted = {"_id": None, "products": {"$sum": 1}, "first": {"$min": "$_id"}}
    return [{"$match": {"schema_version": {"$lt": version}}}, {"$group": counted}]


DAMAGED_CARTS = problem_query("commerce.damaged-carts", "commerce.carts", lambda: [{"$match": DAMAGED_CART}])
DAMAGED_ORDERS = problem_query("commerce.damaged-orders", "commerce.orders", lambda: [{"$match": DAMAGED_ORDER}])
WRONG_STOCKS = problem_query("commerce.wrong-stock", "commerce.stock", _wrong_stock, {"damaged": False})
STRAY_RESERVATIONS = problem_query(
    "commerce.stray-reservations", "commerce.reservations", _stray_reservations, {"sold": True}
)
UNLIKE_RESERVATIONS = problem_query("commerce.unlike-reservations", "commerce.carts", _unlike_reservations)
PENDING_WITHOUT_ATTEMPT = problem_query("commerce.pending-without-attempt", "commerce.carts", _pending_without_attempt)
STALLED_PAYMENTS = problem_query(
    "commerce.stalled-payments", "commerce.payments", _stalled_payments, {"state": "started"}
)
PAID_WITHOUT_ORDER = problem_query("commerce.paid-without-order", "commerce.payments", _paid_without_order)
ORDER_WITHOUT_PAYMENT = problem_query("commerce.order-without-payment", "commerce.orders", _order_without_payment)
WRONG_TOTALS = problem_query("commerce.wrong-totals", "commerce.orders", _wrong_totals)
UNKNOWN_CATEGORIES = problem_query("commerce.unknown-categories", "commerce.products", _unknown_categories)
OUTDATED_PRODUCTS = problem_query("commerce.outdated-products", "commerce.products", _outdated_products, {"version": 2})
