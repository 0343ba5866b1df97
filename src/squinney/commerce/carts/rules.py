"""Pure decisions about carts, and the transaction steps that move stock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, Literal

from squinney.commerce.carts.documents import STOCK, Cart, Line, Movement, Payment
from squinney.commerce.documents import LIMITS, MOST_LINES, MOST_QTY, MOST_TOTAL
from squinney.commerce.errors import CartClosed, CartLimit, InadequateInventory, WrongCurrency
from squinney.commerce.orders.documents import Order
from squinney.errors import SquinneyError
from squinney.mongo.schema import Document
from squinney.transactions import Plan, Stale, Step

Refusal = Callable[[Document | None], SquinneyError]
MOST_DETAILS = 20
LONGEST_DETAIL = 200


def total(lines: Sequence[Mapping[str, Any]]) -> int:
    """Return the sum of price times quantity over the lines."""
    return sum(line["price"] * line["qty"] for line in lines)


def find_line(cart: Cart, sku: str) -> Line | None:
    """Return the cart's line with this SKU."""
    return next((line for line in cart["items"] if line["sku"] == sku), None)


def new_line(cart: Cart, product: Document) -> Line:
    """Return a line with quantity 0 at the product's current price.

    Raises: `WrongCurrency`.
    """
    sku, pricing = product["_id"], product["pricing"]
    if pricing["currency"] != cart["currency"]:
        message = f"{sku} is sold in {pricing['currency']}, but the cart's currency is {cart['currency']}"
        raise WrongCurrency(message, sku=sku)
    details = _kept_details(product["details"])
    return {"sku": sku, "qty": 0, "price": pricing["retail"], "title": product["title"], "details": details}


def _kept_details(details: Mapping[str, Any]) -> Document:
    """Return a few short details of a product: a cart has up to 100 lines, and a two-phase run stores them twice."""
    short = (
        (name, value)
        for name, value in details.items()
        if isinstance(value, int | str) and len(str(value)) <= LONGEST_DETAIL
    )
    return dict(islice(short, MOST_DETAILS))


def with_quantity(items: Sequence[Line], changed: Line, qty: int) -> list[Line]:
    """Return the lines in the order they were added, with one line set to `qty`; 0 removes the line.

    Raises: `CartLimit`.
    """
    line: Line = {**changed, "qty": qty}
    replaced = [line if old["sku"] == line["sku"] else old for old in items]
    if all(old["sku"] != line["sku"] for old in items):
        replaced.append(line)
    lines = [line for line in replaced if line["qty"]]
    if len(lines) > MOST_LINES or qty > MOST_QTY or total(lines) > MOST_TOTAL:
        raise CartLimit(f"a cart has at most {LIMITS}")
    return lines


def stale(message: str) -> Refusal:
    """Return the `refused` callable that makes a run plan again; the new plan may find its change applied already."""
    return lambda _: Stale(message)


def status_step(collection: Literal["carts", "orders"], found: Cart | Order, change: Mapping[str, Any]) -> Step:
    """Return the step that changes a cart or order if its status and version are still those that were read."""
    guard = {"status": found["status"], "version": found["version"]}
    give = {"$set": dict(change), "$inc": {"version": 1}}
    return Step(collection, found["_id"], guard=guard, give=give, refused=stale("the cart or order has changed"))


def cart_closed(cart: Mapping[str, Any]) -> CartClosed:
    """Return the error for a change of a cart that is not active."""
    return CartClosed(f"the cart is {cart['status']}", cart_id=cart["_id"], status=cart["status"])


def stock_step(sku: str, qty: int, taken_from: str, given_to: str, refused: Refusal, **guard: Any) -> Step:
    """Return the step that moves units from one count of a SKU's stock to another, if the first has enough."""
    return Step(
        STOCK,
        sku,
        guard={taken_from: {"$gte": qty}, **guard},
        take={"$inc": {taken_from: -qty}},
        shared=True,
        give={"$inc": {given_to: qty}},
        refused=refused,
    )


def added_id_of(product: Mapping[str, Any]) -> str:
    """Return the id that `removed_ids` of the stock contains once this product is removed."""
    return product.get("added_id") or ""


def not_removed(product: Mapping[str, Any]) -> Document:
    """Return the guard on the stock of a product, which fails once this product is removed."""
    return {"removed_ids": {"$ne": added_id_of(product)}}


def shortage(sku: str, qty: int, product: Mapping[str, Any] | None = None) -> Refusal:
    """Return the `refused` callable of a step that needs `qty` available units, and `product` not to be removed."""

    def error_for(found: Document | None) -> SquinneyError:
        if found and product and added_id_of(product) in found.get("removed_ids", []):
            return Stale("the product was removed")
        available = found["qty"] if found and not found.get("txn_stub") else 0
        message = f"{qty} units of {sku} were requested, but {available} are available"
        return InadequateInventory(message, sku=sku, asked=qty, available=available)

    return error_for


def return_step(sku: str, qty: int) -> Step:
    """Return the step that makes carted units available again."""
    return stock_step(sku, qty, "carted", "qty", _too_few_carted(sku))


def _too_few_carted(sku: str) -> Refusal:
    return stale(f"the stock of {sku} has fewer carted units than its reservations")


def reservation_step(cart_id: str, sku: str, before: int, after: int, at: datetime) -> Step:
    """Return the step that changes the cart's reservation from `before` to `after` units; 0 means no reservation."""
    reservation = {"qty": after, "at": at}
    change: dict[str, Any] = {"guard": {"qty": before}, "give": {"$set": reservation}}
    if before == 0:
        change = {"insert": {**reservation, "txns": []}}
    elif after == 0:
        change = {"guard": {"qty": before}, "delete": True}
    reservation_id = {"sku": sku, "cart": cart_id}
    return Step("reservations", reservation_id, **change, refused=stale("the reservation has changed"))


def movement_step(movement: Movement) -> Step:
    """Return the step that inserts a movement, routed to the shard of its SKU."""
    return Step("movements", movement["_id"], insert=movement, route={"sku": movement["sku"]})


def quantity_plan(cart: Cart, line: Line, qty: int, at: datetime, product: Document | None = None) -> Plan:
    """Return the plan that sets one line of an active cart to `qty`; its result is the changed cart.

    `product` is needed for a new line. The reservation of an existing line prevents the removal of its product.

    Raises: `CartClosed`, `CartLimit`.
    """
    if cart["status"] != "active":
        raise cart_closed(cart)
    items = with_quantity(cart["items"], line, qty)
    sku, added = line["sku"], qty - line["qty"]
    steps = [status_step("carts", cart, {"items": items, "last_modified": at})]
    if added > 0:
        guard = not_removed(product) if product else {}
        steps.append(stock_step(sku, added, "qty", "carted", shortage(sku, added, product), **guard))
    elif added < 0:
        steps.append(return_step(sku, -added))
    if added:
        steps.append(reservation_step(cart["_id"], sku, line["qty"], qty, at))
    return Plan(steps, result={**cart, "items": items, "last_modified": at, "version": cart["version"] + 1})


def return_steps(reservations: Sequence[Mapping[str, Any]], at: datetime) -> list[Step]:
    """Return the steps that delete the reservations and make their units available again."""
    steps = []
    for reservation in reservations:
        sku, cart_id = reservation["_id"]["sku"], reservation["_id"]["cart"]
        steps.append(return_step(sku, reservation["qty"]))
        steps.append(reservation_step(cart_id, sku, reservation["qty"], 0, at))
    return steps


def sale_steps(cart_id: str, items: Sequence[Line], at: datetime, *, reserved: bool) -> list[Step]:
    """Return the steps that sell the units that are reserved for the cart, or available units if they are not."""
    steps = []
    for line in items:
        sku, qty = line["sku"], line["qty"]
        if reserved:
            steps.append(stock_step(sku, qty, "carted", "sold", _too_few_carted(sku)))
            steps.append(reservation_step(cart_id, sku, qty, 0, at))
        else:
            steps.append(stock_step(sku, qty, "qty", "sold", shortage(sku, qty)))
        steps.append(movement_step(order_movement(cart_id, sku, "sold", -qty, at)))
    return steps


def order_movement(order_id: str, sku: str, kind: Literal["sold", "restocked"], qty: int, at: datetime) -> Movement:
    """Return the movement of an order's line; its id prevents a second one."""
    return {"_id": f"{order_id}:{sku}:{kind}", "sku": sku, "kind": kind, "qty": qty, "reason": order_id, "at": at}


def payment_step(payment: Payment, change: Mapping[str, Any]) -> Step:
    """Return the step that changes the payment attempt if its state is still the one that was read."""
    return Step(
        "payments",
        payment["_id"],
        guard={"state": payment["state"]},
        give={"$set": dict(change)},
        refused=stale("the payment attempt has changed"),
    )
