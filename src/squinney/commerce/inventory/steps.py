"""The transaction steps that move units between available, carted and sold. Nothing here uses the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from squinney.commerce.documents import Line
from squinney.commerce.errors import InadequateInventory
from squinney.commerce.inventory.documents import STOCK, Movement
from squinney.commerce.rules import Refusal, stale
from squinney.errors import SquinneyError
from squinney.mongo.schema import Document
from squinney.transactions import Stale, Step


def stock_step(sku: str, qty: int, taken_from: str, given_to: str, refused: Refusal, **guard: Any) -> Step:
    """Return the step that moves units from one count of a SKU's stock to another, if the first has enough."""
    return Step(
        STOCK,
        sku,
        # guard: no more units are reserved than are available
        guard={taken_from: {"$gte": qty}, **guard},
        update={"$inc": {taken_from: -qty, given_to: qty}},
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

    def error_for(stock: Document | None) -> SquinneyError:
        if stock and product and added_id_of(product) in stock.get("removed_ids", []):
            return Stale("the product was removed")
        available = stock["qty"] if stock else 0
        rest = "1 is available" if available == 1 else f"{available or 'none'} are available"
        message = f"{qty} units of {sku} were requested, but {rest}"
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
    change: dict[str, Any] = {"guard": {"qty": before}, "update": {"$set": reservation}}
    if before == 0:
        change = {"insert": reservation}
    elif after == 0:
        change = {"guard": {"qty": before}, "delete": True}
    reservation_id = {"sku": sku, "cart": cart_id}
    return Step("commerce.reservations", reservation_id, **change, refused=stale("the reservation has changed"))


def movement_step(movement: Movement) -> Step:
    """Return the step that inserts a movement, routed to the shard of its SKU."""
    return Step("commerce.movements", movement["_id"], insert=movement, route={"sku": movement["sku"]})


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


def restock_steps(order_id: str, items: Sequence[Mapping[str, Any]], at: datetime) -> list[Step]:
    """Return the steps that make the sold units of an order available again."""
    steps = []
    for line in items:
        sku, qty = line["sku"], line["qty"]
        steps.append(stock_step(sku, qty, "sold", "qty", stale("the stock has fewer sold units")))
        steps.append(movement_step(order_movement(order_id, sku, "restocked", qty, at)))
    return steps
