"""Pure decisions about carts. Nothing here uses the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

from squinney.commerce.carts.documents import Cart
from squinney.commerce.documents import LIMITS, MAX_LINES, MAX_QTY, MAX_TOTAL, Line
from squinney.commerce.errors import CartClosed, CartLimit, WrongCurrency
from squinney.commerce.inventory.steps import not_removed, reservation_step, return_step, shortage, stock_step
from squinney.commerce.rules import status_step, total
from squinney.mongo.schema import Document
from squinney.transactions import Plan

MAX_DETAILS = 20
MAX_DETAIL_LENGTH = 200


def find_line(cart: Cart, sku: str) -> Line | None:
    """Return the cart's line with this SKU."""
    return next((line for line in cart["items"] if line["sku"] == sku), None)


def new_line(cart: Cart, product: Document) -> Line:
    """Return a line with quantity 0 at the product's current price.

    Raises: `WrongCurrency`.
    """
    sku, pricing = product["_id"], product["pricing"]
    # guard: a cart has one currency
    if pricing["currency"] != cart["currency"]:
        message = f"{sku} is sold in {pricing['currency']}, but the cart's currency is {cart['currency']}"
        raise WrongCurrency(message, sku=sku)
    details = _kept_details(product["details"])
    return {"sku": sku, "qty": 0, "price": pricing["retail"], "title": product["title"], "details": details}


def _kept_details(details: Mapping[str, Any]) -> Document:
    """Return a few short details of a product: a cart has up to 100 lines."""
    short = (
        (name, value)
        for name, value in details.items()
        if isinstance(value, int | str) and len(str(value)) <= MAX_DETAIL_LENGTH
    )
    return dict(islice(short, MAX_DETAILS))


def with_quantity(items: Sequence[Line], changed: Line, qty: int) -> list[Line]:
    """Return the lines in the order they were added, with one line set to `qty`; 0 removes the line.

    Raises: `CartLimit`.
    """
    line: Line = {**changed, "qty": qty}
    replaced = [line if old["sku"] == line["sku"] else old for old in items]
    if all(old["sku"] != line["sku"] for old in items):
        replaced.append(line)
    lines = [line for line in replaced if line["qty"]]
    # guard: a cart has limits of lines, units and value
    if len(lines) > MAX_LINES or qty > MAX_QTY or total(lines) > MAX_TOTAL:
        raise CartLimit(f"a cart has at most {LIMITS}")
    return lines


def cart_closed(cart: Mapping[str, Any]) -> CartClosed:
    """Return the error for a change of a cart that is not active."""
    return CartClosed(f"the cart is {cart['status']}", cart_id=cart["_id"], status=cart["status"])


def quantity_plan(cart: Cart, line: Line, qty: int, at: datetime, product: Document | None = None) -> Plan:
    """Return the plan that sets one line of an active cart to `qty`; its result is the changed cart.

    `product` is needed for a new line. The reservation of an existing line prevents the removal of its product.

    Raises: `CartClosed`, `CartLimit`.
    """
    # guard, 2 lines: only an active cart changes
    if cart["status"] != "active":
        raise cart_closed(cart)
    items = with_quantity(cart["items"], line, qty)
    sku, added = line["sku"], qty - line["qty"]
    steps = [status_step("commerce.carts", cart, {"items": items, "last_modified": at})]
    if added > 0:
        guard = not_removed(product) if product else {}
        # guard: units of a removed product are not reserved
        steps.append(stock_step(sku, added, "qty", "carted", shortage(sku, added, product), **guard))
    elif added < 0:
        steps.append(return_step(sku, -added))
    if added:
        steps.append(reservation_step(cart["_id"], sku, line["qty"], qty, at))
    return Plan(steps, result={**cart, "items": items, "last_modified": at, "version": cart["version"] + 1})
