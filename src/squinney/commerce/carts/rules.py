"""Decisions about carts, and the steps that move stock, without a database."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, Literal

from squinney.commerce.carts.documents import STOCK, Cart, Line, Movement, Payment
from squinney.commerce.documents import MOST_LINES, MOST_QTY, MOST_TOTAL
from squinney.commerce.errors import (
    CartClosed,
    CartLimit,
    InadequateInventory,
    UnknownCart,
    UnknownLine,
    UnknownProduct,
    WrongCurrency,
)
from squinney.errors import SquinneyError
from squinney.mongo.schema import Document
from squinney.transactions import Plan, Stale, Step

Refusal = Callable[[Document | None], SquinneyError]
MOST_SHOWN = 20
LONGEST_SHOWN = 200


def total(lines: Sequence[Mapping[str, Any]]) -> int:
    """What the lines cost together."""
    return sum(line["price"] * line["qty"] for line in lines)


def line_of(cart: Cart, sku: str) -> Line:
    """The cart's line with this SKU.

    Raises: `UnknownLine`.
    """
    for line in cart["items"]:
        if line["sku"] == sku:
            return line
    raise UnknownLine(f"the cart holds no {sku}", sku=sku)


def new_line(cart: Cart, product: Document | None, sku: str) -> Line:
    """A line of nothing yet, at today's price.

    Raises: `UnknownProduct`, `WrongCurrency`.
    """
    if product is None:
        raise UnknownProduct(f"there is no product {sku}", sku=sku)
    pricing = product["pricing"]
    if pricing["currency"] != cart["currency"]:
        raise WrongCurrency(f"{sku} is sold in {pricing['currency']}, the cart is in {cart['currency']}", sku=sku)
    details = _shown(product["details"])
    return {"sku": sku, "qty": 0, "price": pricing["retail"], "title": product["title"], "details": details}


def _shown(details: Mapping[str, Any]) -> Document:
    """The details that a cart can keep: a hundred lines, and in two-phase mode two copies of them, are one document."""
    short = ((name, value) for name, value in details.items() if isinstance(value, int) or _is_short(value))
    return dict(islice(short, MOST_SHOWN))


def _is_short(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST_SHOWN


def with_quantity(items: Sequence[Line], changed: Line, qty: int) -> list[Line]:
    """The lines with one of them set to `qty`, in the order they were added; 0 leaves it out.

    Raises: `CartLimit`.
    """
    line: Line = {**changed, "qty": qty}
    replaced = [line if old["sku"] == line["sku"] else old for old in items]
    if all(old["sku"] != line["sku"] for old in items):
        replaced.append(line)
    lines = [line for line in replaced if line["qty"]]
    if len(lines) > MOST_LINES or qty > MOST_QTY or total(lines) > MOST_TOTAL:
        raise CartLimit(f"a cart holds at most {MOST_LINES} lines of {MOST_QTY} units, worth {MOST_TOTAL}")
    return lines


def cart_step(cart: Cart, change: Mapping[str, Any], *, unset: Sequence[str] = ()) -> Step:
    """Change the cart, if it is still as it was read."""
    give: Document = {"$set": dict(change), "$inc": {"version": 1}}
    if unset:
        give["$unset"] = dict.fromkeys(unset, "")
    guard = {"status": cart["status"], "version": cart["version"]}
    return Step("carts", cart["_id"], guard=guard, give=give, refused=_cart_refused(cart))


def _cart_refused(cart: Cart) -> Refusal:
    """Whoever plans anew on the cart as it is now sees what became of it: a repeat may find its own work done."""

    def error_for(found: Document | None) -> SquinneyError:
        return Stale("the cart has changed") if found else UnknownCart(f"there is no cart {cart['_id']}")

    return error_for


def closed(cart: Mapping[str, Any]) -> CartClosed:
    """The error that says what became of the cart."""
    return CartClosed(f"the cart is {cart['status']}", cart_id=cart["_id"], status=cart["status"])


def stock_step(sku: str, qty: int, taken_from: str, given_to: str, refused: Refusal, **guard: Any) -> Step:
    """Move units from one count of a SKU's stock to another: that they are there decides."""
    return Step(
        STOCK,
        sku,
        guard={taken_from: {"$gte": qty}, **guard},
        take={"$inc": {taken_from: -qty}},
        shared=True,
        give={"$inc": {given_to: qty}},
        refused=refused,
    )


def short_of(sku: str, qty: int) -> Refusal:
    """The refusal of a step that needs available units."""

    def error_for(found: Document | None) -> SquinneyError:
        available = found["qty"] if found and not found.get("txn_stub") and not found.get("removed_at") else 0
        message = f"{qty} of {sku} were asked for; available: {available}"
        return InadequateInventory(message, sku=sku, asked=qty, available=available)

    return error_for


def return_step(sku: str, qty: int) -> Step:
    """Make carted units available again."""
    return stock_step(sku, qty, "carted", "qty", _less_carted(sku))


def _less_carted(sku: str) -> Refusal:
    return lambda _: Stale(f"the stock of {sku} says that less is carted")


def reservation_step(cart_id: str, sku: str, before: int, after: int, at: datetime) -> Step:
    """Make the cart's reservation say `after`, where it says `before`; 0 is none."""
    reservation_id = {"sku": sku, "cart": cart_id}

    def stale(_: Document | None) -> SquinneyError:
        return Stale("the reservation has changed")

    if before == 0:
        return Step("reservations", reservation_id, insert={"qty": after, "at": at, "txns": []}, refused=stale)
    if after == 0:
        return Step("reservations", reservation_id, guard={"qty": before}, delete=True, refused=stale)
    return Step(
        "reservations", reservation_id, guard={"qty": before}, give={"$set": {"qty": after, "at": at}}, refused=stale
    )


def movement_step(movement: Movement) -> Step:
    """A line in the stock's history, on the shard of its SKU."""
    return Step("movements", movement["_id"], insert=movement, route={"sku": movement["sku"]})


def quantity_plan(cart: Cart, line: Line, qty: int, at: datetime) -> Plan:
    """Set one line of an active cart to `qty`; the result is the cart as it is then.

    Raises: `CartClosed`, `CartLimit`.
    """
    if cart["status"] != "active":
        raise closed(cart)
    items = with_quantity(cart["items"], line, qty)
    sku, more = line["sku"], qty - line["qty"]
    steps = [cart_step(cart, {"items": items, "last_modified": at})]
    if more > 0:
        steps.append(stock_step(sku, more, "qty", "carted", short_of(sku, more), removed_at=None))
    elif more < 0:
        steps.append(return_step(sku, -more))
    if more:
        steps.append(reservation_step(cart["_id"], sku, line["qty"], qty, at))
    return Plan(steps, result={**cart, "items": items, "last_modified": at, "version": cart["version"] + 1})


def give_back_steps(reservations: Sequence[Mapping[str, Any]], at: datetime) -> list[Step]:
    """Return what each reservation holds."""
    steps = []
    for held in reservations:
        sku, cart_id = held["_id"]["sku"], held["_id"]["cart"]
        steps.append(return_step(sku, held["qty"]))
        steps.append(reservation_step(cart_id, sku, held["qty"], 0, at))
    return steps


def sale_steps(cart: Cart, at: datetime) -> list[Step]:
    """What the cart reserved becomes sold."""
    steps = []
    for line in cart["items"]:
        sku, qty = line["sku"], line["qty"]
        steps.append(stock_step(sku, qty, "carted", "sold", _less_carted(sku)))
        steps.append(reservation_step(cart["_id"], sku, qty, 0, at))
        steps.append(movement_step(order_movement(cart["_id"], sku, "sold", -qty, at)))
    return steps


def order_movement(order_id: str, sku: str, kind: Literal["sold", "restocked"], qty: int, at: datetime) -> Movement:
    """The history line of an order, under an id that makes it one of a kind."""
    return {"_id": f"{order_id}:{sku}:{kind}", "sku": sku, "kind": kind, "qty": qty, "reason": order_id, "at": at}


def retake_steps(order_id: str, items: Sequence[Line], at: datetime) -> list[Step]:
    """Sell from what is available: the cart that had reserved it is gone."""
    steps = []
    for line in items:
        sku, qty = line["sku"], line["qty"]
        steps.append(stock_step(sku, qty, "qty", "sold", short_of(sku, qty)))
        steps.append(movement_step(order_movement(order_id, sku, "sold", -qty, at)))
    return steps


def payment_step(payment: Payment, change: Mapping[str, Any]) -> Step:
    """Change the payment attempt, if nobody has settled it otherwise."""
    return Step(
        "payments",
        payment["_id"],
        guard={"state": payment["state"]},
        give={"$set": dict(change)},
        refused=lambda _: Stale("the payment attempt has changed"),
    )
