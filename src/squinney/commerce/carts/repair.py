"""What can be wrong with stock, carts, payments and orders, found and mended.

The history is the record of what came, went and was sold, the reservations of what is in carts; a stock's figures
follow from both. An order's total follows from its lines.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from pymongo.errors import DuplicateKeyError

from squinney.commerce import problem_queries as queries
from squinney.commerce.carts import rules
from squinney.commerce.errors import UnknownOrder
from squinney.commerce.orders.orders import Orders
from squinney.commerce.shapes import CART, LINE
from squinney.mongo.problems import Check
from squinney.mongo.schema import Db, Document
from squinney.mongo.shapes import fits
from squinney.transactions import AT_REST

SINCE = "since {since:%Y-%m-%d %H:%M} UTC, and the provider gives no answer"


def right_figures(stock: Document) -> Document:
    """The stock's figures as its history and its reservations have them."""
    history = stock["history"]
    figures = {name: history.get(name, 0) for name in ("received", "adjusted")}
    figures["sold"] = -history.get("sold", 0) - history.get("restocked", 0)
    figures["carted"] = stock["reserved"]
    figures["qty"] = figures["received"] + figures["adjusted"] - figures["carted"] - figures["sold"]
    return figures


def _figures(stock: Document) -> str:
    return ", ".join(f"{name} {stock[name]}" for name in ("received", "adjusted", "qty", "carted", "sold"))


def _wrong_stock(stock: Document) -> str:
    right = right_figures(stock)
    return f"stock {stock['_id']} says {_figures(stock)}, its history and reservations say {_figures(right)}"


def _can_be(stock: Document) -> bool:
    if not isinstance(stock["_id"], str):
        return False
    right = right_figures(stock)
    return all(right[name] >= 0 for name in ("qty", "carted", "sold", "received"))


def _owed(payment: Document) -> str:
    ending = ", so its order stays cancelling" if payment["order"] else ""
    return f"payment {payment['_id']} is owed back {SINCE.format(**payment)}{ending}"


def _may_reopen(cart: Document) -> bool:
    """A cart that was paid for must not be paid for again: what became of its goods is for a person to say."""
    return all(payment["state"] != "captured" for payment in cart["payment"])


def _may_have_order(payment: Document) -> bool:
    """Where the cart was completed by this very attempt, only the order is missing; else the money may be owed."""
    completed = any(cart["status"] == "complete" and cart["attempt"] == payment["attempt"] for cart in payment["cart"])
    return completed and not payment["order"]


def _only_lines_are_damaged(cart: Document) -> bool:
    """Nobody has paid yet, and everything else is as it should be."""
    return "items" in cart and cart.get("status") == "active" and fits({**cart, "items": []}, CART)


def _damaged(what: str) -> Callable[[Document], str]:
    return lambda document: f"{what} {document['_id']} cannot be read: it has {_shown(document)}"


def _shown(document: Document) -> str:
    return ", ".join(f"{name} {str(value)[:60]!r}" for name, value in document.items() if name != "_id")[:300]


# ---- mending: each document by itself, only where it is still as it was found ----


def _make_order(db: Db, payment: Document) -> int:
    try:
        Orders(db).from_cart(payment["cart_id"])
    except UnknownOrder:  # the payment was given back meanwhile
        return 0
    return 1


def _drop_reservation(db: Db, held: Document) -> int:
    """Without the reservation, the stock's figures are set by what is left; a sale that has no history gets it."""
    sku, cart_id = held["_id"]["sku"], held["_id"]["cart"]
    order = db["orders"].find_one({"_id": cart_id, "items.sku": sku})
    if order:
        sold = next(line["qty"] for line in order["items"] if line["sku"] == sku)
        with suppress(DuplicateKeyError):  # it is there already
            db["movements"].insert_one(dict(rules.order_movement(cart_id, sku, "sold", -sold, order["placed_at"])))
    return db["reservations"].delete_one({"_id": held["_id"], "qty": held["qty"], **AT_REST}).deleted_count


def _reopen(db: Db, cart: Document) -> int:
    return _set_cart(db, cart, {"status": "active"})


def _set_items(db: Db, cart: Document) -> int:
    """The lines as the reservations have them; what is reserved without a line goes back."""
    held = dict(cart["reserved"])
    lines = [{**line, "qty": held.pop(line["sku"])} for line in cart["items"] if line["sku"] in held]
    done = _set_cart(db, cart, {"items": lines})
    for sku, qty in held.items() if done else ():
        db["reservations"].delete_one({"_id": {"sku": sku, "cart": cart["_id"]}, "qty": qty, **AT_REST})
    return done


def _drop_damaged_lines(db: Db, cart: Document) -> int:
    """The lines that can be read; what was reserved for the others goes back by the checks that follow."""
    lines = [line for line in cart["items"] if fits(line, LINE)] if isinstance(cart["items"], list) else []
    return _set_cart(db, cart, {"items": lines})


def _set_cart(db: Db, cart: Document, change: Document) -> int:
    where = {"_id": cart["_id"], "version": cart["version"], **AT_REST}
    return db["carts"].update_one(where, {"$set": change, "$inc": {"version": 1}}).modified_count


def _set_stock(db: Db, stock: Document) -> int:
    right = right_figures(stock)
    found = {name: stock.get(name) for name in right}
    return db["stock"].update_one({"_id": stock["_id"], **found, **AT_REST}, {"$set": right}).modified_count


def _set_total(db: Db, order: Document) -> int:
    where = {"_id": order["_id"], "version": order["version"], **AT_REST}
    change = {"$set": {"total": order["sum"]}, "$inc": {"version": 1}}
    return db["orders"].update_one(where, change).modified_count


# In the order in which they are mended: what a later one looks at, an earlier one may set.
CHECKS = [
    Check("damaged-order", queries.DAMAGED_ORDERS, _damaged("order")),
    Check(
        "damaged-cart",
        queries.DAMAGED_CARTS,
        _damaged("cart"),
        repair=_drop_damaged_lines,
        repairable=_only_lines_are_damaged,
        counted_as="carts without what was damaged",
    ),
    Check(
        "paid-without-order",
        queries.PAID_WITHOUT_ORDER,
        "payment {_id} was captured, but there is no order for it",
        repair=_make_order,
        repairable=_may_have_order,
        counted_as="orders made",
        documents=lambda payment: {"payments": payment["_id"], "carts": payment["cart_id"]},
    ),
    Check(
        "order-without-payment",
        queries.ORDER_WITHOUT_PAYMENT,
        "order {_id} is {status}, which its payment {payment_id} does not bear out",
        documents=lambda order: {"orders": order["_id"], "payments": order["payment_id"]},
    ),
    Check(
        "pending-without-attempt",
        queries.PENDING_WITHOUT_ATTEMPT,
        "cart {_id} is pending, but no payment attempt is open",
        repair=_reopen,
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
            ("orphan-reservation", False, "which is gone"),
        )
    ),
    Check(
        "unlike-reservations",
        queries.UNLIKE_RESERVATIONS,
        "cart {_id} says {lines}, its reservations say {reserved}",
        repair=_set_items,
        repairable=lambda cart: cart["status"] == "active",
        counted_as="carts set",
    ),
    Check(
        "damaged-stock",
        queries.DAMAGED_STOCKS,
        lambda stock: (
            f"stock {stock['_id']} lacks figures, its history and reservations say {_figures(right_figures(stock))}"
        ),
        repair=_set_stock,
        repairable=_can_be,
        counted_as="stocks set",
    ),
    Check(
        "wrong-stock",
        queries.UNLIKE_HISTORY,
        _wrong_stock,
        repair=_set_stock,
        repairable=_can_be,
        counted_as="stocks set",
    ),
    # For a person to look at: only the provider knows what became of the money.
    Check(
        "stalled-payment",
        queries.STALLED_PAYMENTS,
        "cart {cart_id} is waiting for payment {_id} " + SINCE,
        documents=lambda payment: {"payments": payment["_id"], "carts": payment["cart_id"]},
        arguments={"state": "started"},
    ),
    Check(
        "stalled-refund",
        queries.STALLED_PAYMENTS,
        _owed,
        arguments={"state": "refunding"},
        documents=lambda payment: {
            "payments": payment["_id"],
            **({"orders": payment["cart_id"]} if payment["order"] else {}),
        },
    ),
    Check(
        "wrong-total",
        queries.WRONG_TOTALS,
        lambda order: f"order {order['_id']} says {order.get('total')!r}, its lines add up to {order['sum']}",
        repair=_set_total,
        repairable=lambda order: not order.get("payment_id"),
        counted_as="totals set",
    ),
]
