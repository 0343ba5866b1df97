"""The queries of `find_problems`: each reads everything, and finds nothing where all is well."""

from __future__ import annotations

from typing import Any

from squinney.commerce.shapes import CART, LINE, ORDER, STOCK
from squinney.mongo.queries import problem_query
from squinney.mongo.schema import Document
from squinney.mongo.shapes import lacks
from squinney.transactions import AT_REST, visible

STALLED_SECONDS = 15 * 60  # `settle-payments` has asked sixty times by then

DAMAGED_LINES: list[Document] = [
    {"items": {"$elemMatch": {"$not": {"$type": "object"}}}},
    {"items": {"$elemMatch": {"$or": lacks(LINE)}}},
]
DAMAGED_CART: Document = {"$or": [*lacks(CART), *DAMAGED_LINES]}
DAMAGED_ORDER: Document = {"$or": [*lacks(ORDER), *DAMAGED_LINES]}
DAMAGED_STOCK: Document = {"$or": lacks(STOCK)}


def _whole(damaged: Document) -> Document:
    """Those that can be computed with: one that cannot would end the check of all the others."""
    return {"$nor": [damaged]}


def _of(collection: str, mine: str, theirs: str, stages: list[Document], name: str) -> Document:
    """A lookup of visible documents of another collection whose field equals one of ours."""
    match: Document = {"$match": {"$expr": {"$eq": [f"${theirs}", "$$mine"]}, "txn_stub": None}}
    return {"$lookup": {"from": collection, "let": {"mine": mine}, "pipeline": [match, *stages], "as": name}}


def _with_history() -> list[Document]:
    by_kind: list[Document] = [{"$group": {"_id": "$kind", "sum": {"$sum": "$qty"}}}]
    total: list[Document] = [{"$group": {"_id": None, "sum": {"$sum": "$qty"}}}]
    pairs: Document = {"$map": {"input": "$history", "as": "one", "in": {"k": "$$one._id", "v": "$$one.sum"}}}
    history: Document = {"$arrayToObject": pairs}
    return [
        _of("movements", "$_id", "sku", by_kind, "history"),
        _of("reservations", "$_id", "_id.sku", total, "reserved"),
        {"$set": {"history": history, "reserved": {"$ifNull": [{"$first": "$reserved.sum"}, 0]}}},
    ]


def _damaged_stock() -> list[Document]:
    return [{"$match": {**AT_REST, **DAMAGED_STOCK}}, *_with_history()]


def _unlike_history() -> list[Document]:
    moved = {kind: {"$ifNull": [f"$history.{kind}", 0]} for kind in ("received", "adjusted", "sold", "restocked")}
    sold = {"$subtract": [{"$multiply": [moved["sold"], -1]}, moved["restocked"]]}
    held = {"$add": ["$qty", "$carted", "$sold"]}
    return [
        {"$match": {**AT_REST, **_whole(DAMAGED_STOCK)}},
        *_with_history(),
        {
            "$match": {
                "$expr": {
                    "$or": [
                        {"$ne": ["$received", moved["received"]]},
                        {"$ne": ["$adjusted", moved["adjusted"]]},
                        {"$ne": ["$sold", sold]},
                        {"$ne": ["$carted", "$reserved"]},
                        {"$ne": [{"$add": ["$received", "$adjusted"]}, held]},
                        {"$lt": [{"$min": ["$qty", "$carted", "$sold"]}, 0]},
                    ]
                }
            }
        },
    ]


def _stray_reservations(sold: bool) -> list[Document]:
    """Of carts that are sold; or of carts that are gone, or ended without giving them back."""
    status: Document = {"$eq": "complete"} if sold else {"$nin": ["active", "pending", "expiring", "complete"]}
    return [
        {"$match": AT_REST},
        _of("carts", "$_id.cart", "_id", [{"$project": {"status": 1}}], "cart"),
        {"$match": {"cart.status": status}},
    ]


def _unlike_reservations() -> list[Document]:
    line = ["$$line.sku", "$$line.qty"]  # as an object, MongoDB 6.0 takes it for a rename and looks before it is there
    shown: list[Document] = [
        {"$project": {"_id": 0, "sku": "$_id.sku", "qty": 1, "marked": {"$ne": [{"$ifNull": ["$txns", []]}, []]}}}
    ]
    return [
        {"$match": {**AT_REST, "status": {"$in": ["active", "pending"]}, **_whole(DAMAGED_CART)}},
        _of("reservations", "$_id", "_id.cart", shown, "held"),
        {"$match": {"held.marked": {"$ne": True}}},
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
        {"$match": {**AT_REST, "status": "pending", **_whole(DAMAGED_CART)}},
        {"$set": {"attempt_id": {"$concat": ["$_id", ":", {"$toString": "$attempt"}]}}},
        _of("payments", "$attempt_id", "_id", [{"$project": {"state": 1}}], "payment"),
        {"$match": {"payment.state": {"$ne": "started"}}},
    ]


def _stalled_payments(state: str) -> list[Document]:
    """Attempts or refunds that have been open for so long that their provider cannot be at work."""
    since = {"$ifNull": ["$refunding_at", "$at"]}
    longest_ago = {"$subtract": ["$$NOW", STALLED_SECONDS * 1_000]}
    return [
        {"$match": {**AT_REST, "state": state}},
        {"$set": {"since": since}},
        {"$match": {"$expr": {"$lt": ["$since", longest_ago]}}},
        _of("orders", "$cart_id", "_id", [{"$project": {"status": 1}}], "order"),
    ]


def _paid_without_order() -> list[Document]:
    return [
        {"$match": {**AT_REST, "state": "captured"}},
        _of("orders", "$cart_id", "_id", [{"$project": {"payment_id": 1}}], "order"),
        {"$match": {"$expr": {"$ne": [{"$first": "$order.payment_id"}, "$_id"]}}},
        _of("carts", "$cart_id", "_id", [{"$project": {"status": 1, "attempt": 1}}], "cart"),
    ]


def _order_without_payment() -> list[Document]:
    borne_out: list[Any] = [["placed", "captured"], ["cancelling", "refunding"], ["cancelled", "refunded"]]
    both = ["$status", {"$first": "$payment.state"}]
    return [
        {"$match": {**AT_REST, "payment_id": {"$ne": None}}},
        _of("payments", "$payment_id", "_id", [{"$project": {"state": 1, "txns": 1}}], "payment"),
        {"$match": {"payment.txns.0": {"$exists": False}, "$expr": {"$not": [{"$in": [both, borne_out]}]}}},
    ]


def _wrong_totals() -> list[Document]:
    worth = {"$multiply": ["$$line.price", "$$line.qty"]}
    return [
        {"$match": visible(_whole(DAMAGED_ORDER))},
        {"$set": {"sum": {"$sum": {"$map": {"input": "$items", "as": "line", "in": worth}}}}},
        {"$match": {"$expr": {"$ne": ["$sum", "$total"]}}},
    ]


def _removed_but_sold() -> list[Document]:
    return [
        {"$match": {**AT_REST, "removed_at": {"$ne": None}}},
        _of("products", "$_id", "_id", [{"$project": {"_id": 1}}], "product"),
        {"$match": {"product.0": {"$exists": True}}},
    ]


def _unknown_categories() -> list[Document]:
    """Category ids that products name and that are no category, each once."""
    return [
        {"$unwind": "$category_ids"},
        {"$group": {"_id": "$category_ids", "products": {"$sum": 1}}},
        {"$lookup": {"from": "categories", "localField": "_id", "foreignField": "_id", "as": "category"}},
        {"$match": {"category.0": {"$exists": False}}},
    ]


def _outdated_products(version: int) -> list[Document]:
    counted = {"_id": None, "products": {"$sum": 1}, "first": {"$min": "$_id"}}
    return [{"$match": {"schema_version": {"$lt": version}}}, {"$group": counted}]


DAMAGED_CARTS = problem_query("commerce.damaged-carts", "carts", lambda: [{"$match": {**AT_REST, **DAMAGED_CART}}])
DAMAGED_ORDERS = problem_query("commerce.damaged-orders", "orders", lambda: [{"$match": {**AT_REST, **DAMAGED_ORDER}}])
DAMAGED_STOCKS = problem_query("commerce.damaged-stock", "stock", _damaged_stock)
UNLIKE_HISTORY = problem_query("commerce.unlike-history", "stock", _unlike_history)
STRAY_RESERVATIONS = problem_query("commerce.stray-reservations", "reservations", _stray_reservations, {"sold": True})
UNLIKE_RESERVATIONS = problem_query("commerce.unlike-reservations", "carts", _unlike_reservations)
PENDING_WITHOUT_ATTEMPT = problem_query("commerce.pending-without-attempt", "carts", _pending_without_attempt)
STALLED_PAYMENTS = problem_query("commerce.stalled-payments", "payments", _stalled_payments, {"state": "started"})
PAID_WITHOUT_ORDER = problem_query("commerce.paid-without-order", "payments", _paid_without_order)
ORDER_WITHOUT_PAYMENT = problem_query("commerce.order-without-payment", "orders", _order_without_payment)
WRONG_TOTALS = problem_query("commerce.wrong-totals", "orders", _wrong_totals)
REMOVED_BUT_SOLD = problem_query("commerce.removed-but-sold", "stock", _removed_but_sold)
UNKNOWN_CATEGORIES = problem_query("commerce.unknown-categories", "products", _unknown_categories)
OUTDATED_PRODUCTS = problem_query("commerce.outdated-products", "products", _outdated_products, {"version": 2})
