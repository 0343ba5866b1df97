"""The lines of an order: validates new lines, and builds the updates that change lines and total on the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from squinney import checks
from squinney.commerce.catalog.products import addressable_sku
from squinney.commerce.documents import CURRENCY, LIMITS, MAX_LINES, MAX_PRICE, MAX_QTY, MAX_TOTAL
from squinney.commerce.errors import OrderFixed, OrderLimit, UnknownLine, WrongCurrency
from squinney.commerce.orders.documents import Order, OrderLine
from squinney.commerce.rules import total
from squinney.errors import Invalid, SquinneyError
from squinney.mongo.schema import Document
from squinney.transactions import Stale

# An order with a payment is not editable: its goods were sold and its money was charged.
# guard: a cancelled order does not change
# guard: the lines of a paid order do not change
EDITABLE = {"status": "placed", "payment_id": None}


# ---- new lines ----


def checked_lines(items: Any) -> list[OrderLine]:
    """Validate the lines of a new order.

    Raises: `Invalid`, `OrderLimit`.
    """
    if not isinstance(items, Sequence) or isinstance(items, str | bytes) or not 1 <= len(items) <= MAX_LINES:
        raise Invalid(f"items must be a list of 1 to {MAX_LINES} lines", field="items", limit=MAX_LINES)
    lines = [_checked_line(item) for item in items]
    if len({line["sku"] for line in lines}) < len(lines):
        raise Invalid("items must have one line per SKU", field="items")
    if total(lines) > MAX_TOTAL:
        raise OrderLimit(f"the total of an order is at most {MAX_TOTAL}")
    return lines


def _checked_line(item: Any) -> OrderLine:
    if not isinstance(item, Mapping) or not {"sku", "price", "qty"} <= item.keys() <= {"sku", "price", "qty", "title"}:
        raise Invalid("a line must have sku, price, qty and optionally title, and nothing else", field="items")
    sku = addressable_sku(item["sku"])
    return {
        "sku": sku,
        "title": checks.text(item.get("title", sku), "title", max_length=1_000),
        "price": checks.integer(item["price"], "price", minimum=0, maximum=MAX_PRICE),
        "qty": checks.integer(item["qty"], "qty", minimum=1, maximum=MAX_QTY),
    }


# ---- edits ----


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of an order's lines.

    `lines` is the server expression for the new lines, `arguments` are the caller's, and the order must match `guard`.
    """

    kind: str
    lines: Document
    arguments: Mapping[str, Any]
    guard: Mapping[str, str] = field(default_factory=dict)

    def where(self, order_id: str) -> Document:
        """Return the filter that matches the order if this edit is allowed."""
        # guard: an order has limits of lines, units and value
        return {"_id": order_id, **EDITABLE, **self.guard, "$expr": self.within_limits}

    @property
    def update(self) -> list[Document]:
        """The pipeline update that sets lines, total and version at once."""
        # guard: the lines and the total of an order change together
        fields = {"items": self.lines, "total": _sum_of(self.lines), "version": {"$add": ["$version", 1]}}
        return [{"$set": fields}]

    @property
    def within_limits(self) -> Document:
        """The server expression that tells whether an order would stay within its limits."""
        return _within_limits(self.lines)

    def refusal(self, order: Order, *, within_limits: bool) -> SquinneyError:
        """Return the error for an order that did not match `where`; `Stale` if it may match now."""
        if order["status"] != "placed" or order.get("payment_id"):
            return order_fixed(order)
        currency, sku = self.guard.get("currency"), self.guard.get("items.sku")
        if currency and order["currency"] != currency:
            return WrongCurrency(f"the order's currency is {order['currency']}, not {currency}", order_id=order["_id"])
        if sku and all(line["sku"] != sku for line in order["items"]):
            return UnknownLine(f"the order has no line with SKU {sku}", sku=sku)
        # guard: an edit that was refused for a state that has passed is tried again
        if within_limits:
            return Stale("the order has changed in the meantime; try again")
        return OrderLimit(f"an order has at most {LIMITS}")


def edit_to_add(item: Mapping[str, Any], currency: str | None) -> Edit:
    """Return the edit that adds a line, or adds the quantity to an existing line with the same SKU.

    Raises: `Invalid`.
    """
    line = _checked_line(item)
    sku, qty = line["sku"], line["qty"]
    if currency is not None:
        checks.text(currency, "currency", max_length=3, pattern=CURRENCY)
    increased = {"$mergeObjects": ["$$line", {"qty": {"$add": ["$$line.qty", qty]}}]}
    lines = {
        "$cond": [
            {"$in": [_literal(sku), "$items.sku"]},
            _replace_line(sku, increased),
            {"$concatArrays": ["$items", [{"$literal": line}]]},
        ]
    }
    # guard: an order has one currency
    return Edit("add", lines, {**line, "currency": currency}, guard={"currency": currency} if currency else {})


def edit_to_set(sku: str, qty: int) -> Edit:
    """Return the edit that sets the quantity of a line.

    Raises: `Invalid`.
    """
    checks.identifier(sku, "sku")
    checks.integer(qty, "qty", minimum=1, maximum=MAX_QTY)
    lines = _replace_line(sku, {"$mergeObjects": ["$$line", {"qty": qty}]})
    # guard: only an existing line of an order changes
    return Edit("set", lines, {"sku": sku, "qty": qty}, guard={"items.sku": sku})


def edit_to_remove(sku: str) -> Edit:
    """Return the edit that removes a line.

    Raises: `Invalid`.
    """
    checks.identifier(sku, "sku")
    kept = {"$filter": {"input": "$items", "as": "line", "cond": {"$not": [_has_sku(sku)]}}}
    return Edit("remove", kept, {"sku": sku}, guard={"items.sku": sku})


def order_fixed(order: Order) -> OrderFixed:
    """Return the error for a change of an order that cannot change."""
    if order["status"] == "placed":
        return OrderFixed("a paid order cannot be changed or deleted; cancel it instead")
    return OrderFixed(f"the order is {order['status']}", order_id=order["_id"], status=order["status"])


# ---- server expressions ----


def _literal(sku: str) -> Document:
    """Return the SKU as an expression that the server does not evaluate as a field path."""
    # guard: the server does not evaluate a SKU as an expression
    return {"$literal": sku}


def _has_sku(sku: str) -> Document:
    return {"$eq": ["$$line.sku", _literal(sku)]}


def _replace_line(sku: str, new_line: Document) -> Document:
    return {"$map": {"input": "$items", "as": "line", "in": {"$cond": [_has_sku(sku), new_line, "$$line"]}}}


def _sum_of(lines: Document) -> Document:
    line_total = {"$multiply": [{"$toLong": "$$line.price"}, {"$toLong": "$$line.qty"}]}
    return {"$sum": {"$map": {"input": lines, "as": "line", "in": line_total}}}


def _within_limits(lines: Document) -> Document:
    largest_qty = {"$max": {"$map": {"input": lines, "as": "line", "in": "$$line.qty"}}}
    return {
        "$and": [
            {"$lte": [{"$size": lines}, MAX_LINES]},
            {"$lte": [{"$ifNull": [largest_qty, 0]}, MAX_QTY]},
            {"$lte": [_sum_of(lines), MAX_TOTAL]},
        ]
    }
