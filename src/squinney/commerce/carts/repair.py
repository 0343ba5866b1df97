"""What can be wrong with stock, carts, payments and orders, found and mended.

The history is the record of what came, went and was sold, the reservations of what is in carts; a stock's figures
follow from both. An order's total follows from its lines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress

from pymongo.errors import DuplicateKeyError

from squinney.commerce import problem_queries as queries
from squinney.commerce import rules
from squinney.commerce.errors import UnknownOrder
from squinney.commerce.orders.orders import Orders
from squinney.mongo.problems import Problem, mended, told
from squinney.mongo.queries import Pipeline
from squinney.mongo.schema import Db, Document
from squinney.transactions import AT_REST, drop_orphans

MARKED = ("stock", "movements", "carts", "reservations", "payments", "orders", "products")


def find_problems(db: Db) -> Iterator[Problem]:
    """Everything that breaks an invariant; each check is of one moment."""
    yield from told(db, queries.UNLIKE_HISTORY, _wrong_stock)
    yield from told(db, queries.STRAY_RESERVATIONS, _stray)
    yield from told(db, queries.UNLIKE_RESERVATIONS, _unlike_reservations)
    yield from told(db, queries.PENDING_WITHOUT_ATTEMPT, _without_attempt)
    yield from told(db, queries.STALLED_PAYMENTS, _stalled)
    yield from told(db, queries.PAID_WITHOUT_ORDER, _without_order)
    yield from told(db, queries.ORDER_WITHOUT_PAYMENT, _without_payment)
    yield from told(db, queries.WRONG_TOTALS, _wrong_total)


def _without_attempt(cart: Document) -> Problem:
    return Problem(
        "pending-without-attempt",
        f"cart {cart['_id']} is pending, but no payment attempt is open",
        documents={"carts": cart["_id"]},
        repairable=_may_reopen(cart),
    )


def _wrong_total(order: Document) -> Problem:
    return Problem(
        "wrong-total",
        f"order {order['_id']} says {order['total']}, its lines add up to {order['sum']}",
        documents={"orders": order["_id"]},
        repairable=not order.get("payment_id"),
    )


def _wrong_stock(stock: Document) -> Problem:
    right = right_figures(stock)
    return Problem(
        "wrong-stock",
        f"stock {stock['_id']} says {_figures(stock)}, its history and reservations say {_figures(right)}",
        documents={"stock": stock["_id"]},
        repairable=min(right["qty"], right["carted"], right["sold"], right["received"]) >= 0,
    )


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


def _stray(held: Document) -> Problem:
    cart = next(iter(held["cart"]), None)
    sold = cart is not None and cart["status"] == "complete"
    code = "sold-reservation" if sold else "orphan-reservation"
    message = "whose goods are sold" if sold else "which is gone"
    return Problem(
        code,
        f"{held['qty']} of {held['_id']['sku']} are reserved for cart {held['_id']['cart']}, {message}",
        documents={"reservations": held["_id"]},
        repairable=True,
    )


def _unlike_reservations(cart: Document) -> Problem:
    return Problem(
        "unlike-reservations",
        f"cart {cart['_id']} says {cart['lines']}, its reservations say {cart['reserved']}",
        documents={"carts": cart["_id"]},
        repairable=cart["status"] == "active",
    )


def _stalled(payment: Document) -> Problem:
    """For a person to look at: only the provider knows what became of the money."""
    since = f"since {payment['since']:%Y-%m-%d %H:%M} UTC, and the provider gives no answer"
    if payment["state"] == "started":
        return Problem(
            "stalled-payment",
            f"cart {payment['cart_id']} is waiting for payment {payment['_id']} {since}",
            documents={"payments": payment["_id"], "carts": payment["cart_id"]},
        )
    orders = {"orders": payment["cart_id"]} if payment["order"] else {}
    return Problem(
        "stalled-refund",
        f"payment {payment['_id']} is owed back {since}" + (", so its order stays cancelling" if orders else ""),
        documents={"payments": payment["_id"], **orders},
    )


def _without_order(payment: Document) -> Problem:
    return Problem(
        "paid-without-order",
        f"payment {payment['_id']} was captured, but there is no order for it",
        documents={"payments": payment["_id"], "carts": payment["cart_id"]},
        repairable=_may_have_order(payment),
    )


def _without_payment(order: Document) -> Problem:
    return Problem(
        "order-without-payment",
        f"order {order['_id']} is {order['status']}, which its payment {order['payment_id']} does not bear out",
        documents={"orders": order["_id"], "payments": order["payment_id"]},
    )


def _may_reopen(cart: Document) -> bool:
    """A cart that was paid for must not be paid for again: what became of its goods is for a person to say."""
    return all(payment["state"] != "captured" for payment in cart["payment"])


def _may_have_order(payment: Document) -> bool:
    """Where the cart was completed by this very attempt, only the order is missing; else the money may be owed."""
    completed = any(cart["status"] == "complete" and cart["attempt"] == payment["attempt"] for cart in payment["cart"])
    return completed and not payment["order"]


# ---- mending: each document by itself, only where it is still as it was found ----


def repair(db: Db) -> Counter[str]:
    """Mend what can be mended; returns counts by what was done."""
    done = drop_orphans(db, MARKED)
    steps: list[tuple[str, Pipeline, Callable[[Document], int]]] = [
        ("orders made", queries.PAID_WITHOUT_ORDER, lambda one: _may_have_order(one) and _make_order(db, one)),
        ("carts reopened", queries.PENDING_WITHOUT_ATTEMPT, lambda one: _may_reopen(one) and _reopen(db, one)),
        ("reservations dropped", queries.STRAY_RESERVATIONS, lambda one: _drop_reservation(db, one)),
        ("carts set", queries.UNLIKE_RESERVATIONS, lambda one: one["status"] == "active" and _set_items(db, one)),
        ("stocks set", queries.UNLIKE_HISTORY, lambda one: _set_stock(db, one)),
        ("totals set", queries.WRONG_TOTALS, lambda one: not one.get("payment_id") and _set_total(db, one)),
    ]
    for what, check, mend in steps:
        done[what] += mended(db, check, mend)
    return done


def _reopen(db: Db, cart: Document) -> int:
    return _set_cart(db, cart, {"status": "active"})


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
            db["movements"].insert_one(dict(rules.sold_movement(cart_id, sku, sold, order["placed_at"])))
    return db["reservations"].delete_one({"_id": held["_id"], "qty": held["qty"], **AT_REST}).deleted_count


def _set_items(db: Db, cart: Document) -> int:
    """The lines as the reservations have them; what is reserved without a line goes back."""
    held = dict(cart["reserved"])
    lines = [{**line, "qty": held.pop(line["sku"])} for line in cart["items"] if line["sku"] in held]
    done = _set_cart(db, cart, {"items": lines})
    for sku, qty in held.items() if done else ():
        db["reservations"].delete_one({"_id": {"sku": sku, "cart": cart["_id"]}, "qty": qty, **AT_REST})
    return done


def _set_cart(db: Db, cart: Document, change: Document) -> int:
    where = {"_id": cart["_id"], "version": cart["version"], **AT_REST}
    return db["carts"].update_one(where, {"$set": change, "$inc": {"version": 1}}).modified_count


def _set_stock(db: Db, stock: Document) -> int:
    right = right_figures(stock)
    if min(right["qty"], right["carted"], right["sold"], right["received"]) < 0:
        return 0
    found = {name: stock[name] for name in right}
    return db["stock"].update_one({"_id": stock["_id"], **found, **AT_REST}, {"$set": right}).modified_count


def _set_total(db: Db, order: Document) -> int:
    where = {"_id": order["_id"], "version": order["version"], **AT_REST}
    change = {"$set": {"total": order["sum"]}, "$inc": {"version": 1}}
    return db["orders"].update_one(where, change).modified_count
