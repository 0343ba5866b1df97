"""The checks that compare stock, carts, payments and orders with each other.

The movements are the record of received, adjusted, sold and restocked units, and the reservations are the record of
carted units. The counts of a stock are computed from both. The total of an order is computed from its lines.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from pymongo.errors import DuplicateKeyError

from squinney.commerce import problem_queries as queries
from squinney.commerce.documents import CART, COUNTS, LINE
from squinney.commerce.errors import UnknownOrder
from squinney.commerce.inventory.steps import order_movement
from squinney.commerce.orders.orders import Orders
from squinney.mongo.problems import Check
from squinney.mongo.schema import Db, Document
from squinney.mongo.shapes import fits

SINCE = "since {since:%Y-%m-%d %H:%M} UTC, and the provider does not respond"


def _formatted(counts: Document) -> str:
    return ", ".join(f"{name} {counts.get(name)!r}" for name in COUNTS)


def _wrong_stock(stock: Document) -> str:
    expected = _formatted(stock["expected"])
    return f"stock {stock['_id']} has {_formatted(stock)}; its movements and reservations give {expected}"


def _counts_are_possible(stock: Document) -> bool:
    counts = {**stock["expected"], "adjusted": 0}  # only corrections may be negative
    return isinstance(stock["_id"], str) and min(counts.values()) >= 0


def _stalled_refund(payment: Document) -> str:
    consequence = ", so its order stays cancelling" if payment["order"] else ""
    return f"the refund of payment {payment['_id']} has been open {SINCE.format(**payment)}{consequence}"


def _may_reopen(cart: Document) -> bool:
    """Return False if the payment was captured: the customer must not pay twice, so a person has to decide."""
    return all(payment["state"] != "captured" for payment in cart["payment"])


def _may_have_order(payment: Document) -> bool:
    """Return whether this attempt completed the cart, so that only the order is missing; else a refund may be due."""
    completed = any(cart["status"] == "complete" and cart["attempt"] == payment["attempt"] for cart in payment["cart"])
    return completed and not payment["order"]


def _only_lines_are_damaged(cart: Document) -> bool:
    """Return whether the cart is unpaid and all its fields except the lines are valid."""
    return "items" in cart and cart.get("status") == "active" and fits({**cart, "items": []}, CART)


def _damaged(what: str) -> Callable[[Document], str]:
    return lambda document: f"{what} {document['_id']} cannot be read: it has {_excerpt(document)}"


def _excerpt(document: Document) -> str:
    return ", ".join(f"{name} {str(value)[:60]!r}" for name, value in document.items() if name != "_id")[:300]


# ---- repairs: each changes one document, only if it has not changed since it was read ----


def _create_order(db: Db, payment: Document) -> int:
    try:
        Orders(db).from_cart(payment["cart_id"])
    except UnknownOrder:  # the payment was refunded in the meantime
        return 0
    return 1


def _drop_reservation(db: Db, reservation: Document) -> int:
    """Delete a stray reservation, and add a missing movement for goods that an order sold.

    The check `wrong-stock`, which runs later, then corrects the counts of the stock.
    """
    sku, cart_id = reservation["_id"]["sku"], reservation["_id"]["cart"]
    order = db["commerce.orders"].find_one({"_id": cart_id, "items.sku": sku})
    if order:
        sold = next(line["qty"] for line in order["items"] if line["sku"] == sku)
        with suppress(DuplicateKeyError):  # the movement exists already
            db["commerce.movements"].insert_one(dict(order_movement(cart_id, sku, "sold", -sold, order["placed_at"])))
    where = {"_id": reservation["_id"], "qty": reservation["qty"]}
    return db["commerce.reservations"].delete_one(where).deleted_count


def _set_items(db: Db, cart: Document) -> int:
    """Set the lines to the quantities of the reservations, and delete reservations without a line."""
    reserved = dict(cart["reserved"])
    lines = [{**line, "qty": reserved.pop(line["sku"])} for line in cart["items"] if line["sku"] in reserved]
    done = _set_cart(db, cart, {"items": lines})
    for sku, qty in reserved.items() if done else ():
        db["commerce.reservations"].delete_one({"_id": {"sku": sku, "cart": cart["_id"]}, "qty": qty})
    return done


def _drop_damaged_lines(db: Db, cart: Document) -> int:
    """Keep only the valid lines; the checks that follow return the reservations of the other lines."""
    lines = [line for line in cart["items"] if fits(line, LINE)] if isinstance(cart["items"], list) else []
    return _set_cart(db, cart, {"items": lines})


def _set_cart(db: Db, cart: Document, change: Document) -> int:
    where = {"_id": cart["_id"], "version": cart["version"]}
    return db["commerce.carts"].update_one(where, {"$set": change, "$inc": {"version": 1}}).modified_count


def _set_stock(db: Db, stock: Document) -> int:
    counts = {name: stock.get(name) for name in COUNTS}
    # guard: repair changes a stock only if its counts are still those that were read
    where = {"_id": stock["_id"], **counts}
    return db["commerce.stock"].update_one(where, {"$set": stock["expected"]}).modified_count


def _set_total(db: Db, order: Document) -> int:
    where = {"_id": order["_id"], "version": order["version"]}
    change = {"$set": {"total": order["sum"]}, "$inc": {"version": 1}}
    return db["commerce.orders"].update_one(where, change).modified_count


# Repairs run in this order: an earlier repair may change what a later check reads.
CHECKS = [
    Check("damaged-order", queries.DAMAGED_ORDERS, _damaged("order")),
    Check(
        "damaged-cart",
        queries.DAMAGED_CARTS,
        _damaged("cart"),
        repair=_drop_damaged_lines,
        repairable=_only_lines_are_damaged,
        counted_as="carts stripped of damaged lines",
    ),
    Check(
        "paid-without-order",
        queries.PAID_WITHOUT_ORDER,
        "payment {_id} was captured, but there is no order for it",
        repair=_create_order,
        repairable=_may_have_order,
        counted_as="orders created",
        documents=lambda payment: {"commerce.payments": payment["_id"], "commerce.carts": payment["cart_id"]},
    ),
    Check(
        "order-without-payment",
        queries.ORDER_WITHOUT_PAYMENT,
        "order {_id} is {status}, which does not match the state of its payment {payment_id}",
        documents=lambda order: {"commerce.orders": order["_id"], "commerce.payments": order["payment_id"]},
    ),
    Check(
        "pending-without-attempt",
        queries.PENDING_WITHOUT_ATTEMPT,
        "cart {_id} is pending, but no payment attempt is open",
        repair=lambda db, cart: _set_cart(db, cart, {"status": "active"}),
        repairable=_may_reopen,
        counted_as="carts reopened",
    ),
    *(
        Check(
            code,
            queries.STRAY_RESERVATIONS,
            "{qty} of {_id[sku]} are reserved for cart {_id[cart]}, " + why,
            repair=_drop_reservation,
            counted_as="reservations dropped",
            arguments={"sold": sold},
        )
        for code, sold, why in (
            ("sold-reservation", True, "whose goods are sold"),
            ("orphan-reservation", False, "which is missing or expired"),
        )
    ),
    Check(
        "unlike-reservations",
        queries.UNLIKE_RESERVATIONS,
        "cart {_id} has the lines {lines}, but its reservations are {reserved}",
        repair=_set_items,
        repairable=lambda cart: cart["status"] == "active",
        counted_as="carts set",
    ),
    *(
        Check(
            code,
            queries.WRONG_STOCKS,
            _wrong_stock,
            repair=_set_stock,
            repairable=_counts_are_possible,
            counted_as="stocks set",
            arguments={"damaged": damaged},
        )
        for code, damaged in (("damaged-stock", True), ("wrong-stock", False))
    ),
    # No repair: a person must look, because only the provider knows whether money moved.
    Check(
        "stalled-payment",
        queries.STALLED_PAYMENTS,
        "cart {cart_id} is waiting for payment {_id} " + SINCE,
        documents=lambda payment: {"commerce.payments": payment["_id"], "commerce.carts": payment["cart_id"]},
        arguments={"state": "started"},
    ),
    Check(
        "stalled-refund",
        queries.STALLED_PAYMENTS,
        _stalled_refund,
        arguments={"state": "refunding"},
        documents=lambda payment: {
            "commerce.payments": payment["_id"],
            **({"commerce.orders": payment["cart_id"]} if payment["order"] else {}),
        },
    ),
    Check(
        "wrong-total",
        queries.WRONG_TOTALS,
        lambda order: f"order {order['_id']} has total {order.get('total')!r}, but its lines sum to {order['sum']}",
        repair=_set_total,
        repairable=lambda order: not order.get("payment_id"),
        counted_as="totals set",
    ),
]
