"""An order's lines: as they come in, and as the server computes them together with their total."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from squinney import checks
from squinney.commerce.carts import rules
from squinney.commerce.catalog.products import addressable_sku
from squinney.commerce.documents import CURRENCY, MOST_LINES, MOST_PRICE, MOST_QTY, MOST_TOTAL
from squinney.commerce.errors import OrderFixed, OrderLimit, UnknownLine, WrongCurrency
from squinney.commerce.orders.documents import Order, OrderLine
from squinney.errors import Invalid, SquinneyError
from squinney.mongo.schema import Document

# The lines of an order that came from a cart stand for goods and money that have moved: they do not change alone.
EDITABLE = {"status": "placed", "payment_id": None, "txn_stub": None, "txn_lock": None}


# ---- as they come in ----


def checked_lines(items: Any) -> list[OrderLine]:
    """The lines of a new order.

    Raises: `Invalid`, `OrderLimit`.
    """
    if not isinstance(items, Sequence) or isinstance(items, str | bytes) or not 1 <= len(items) <= MOST_LINES:
        raise Invalid(f"items must be a list of 1 to {MOST_LINES} lines", field="items", limit=MOST_LINES)
    lines = [_checked_line(item) for item in items]
    if len({line["sku"] for line in lines}) < len(lines):
        raise Invalid("items must have one line per SKU", field="items")
    if rules.total(lines) > MOST_TOTAL:
        raise OrderLimit(f"an order is worth at most {MOST_TOTAL}")
    return lines


def _checked_line(item: Any) -> OrderLine:
    if not isinstance(item, Mapping) or not {"sku", "price", "qty"} <= item.keys() <= {"sku", "price", "qty", "title"}:
        raise Invalid("a line has sku, price, qty and perhaps title, and nothing else", field="items")
    sku = addressable_sku(item["sku"])
    return {
        "sku": sku,
        "title": checks.text(item.get("title", sku), "title", most=1_000),
        "price": checks.integer(item["price"], "price", least=0, most=MOST_PRICE),
        "qty": checks.integer(item["qty"], "qty", least=1, most=MOST_QTY),
    }


# ---- edits ----


@dataclass(frozen=True, slots=True)
class Edit:
    """What an order's lines become, as the server computes it; what the caller said; what must hold for it."""

    kind: str
    lines: Document
    arguments: Mapping[str, Any]
    guard: Mapping[str, str] = field(default_factory=dict)

    def where(self, order_id: str) -> Document:
        """The order, where it may be edited so."""
        return {"_id": order_id, **EDITABLE, **self.guard, "$expr": _within_limits(self.lines)}

    @property
    def change(self) -> list[Document]:
        """The update: lines, total and version at once."""
        fields = {"items": self.lines, "total": _sum_of(self.lines), "version": {"$add": ["$version", 1]}}
        return [{"$set": fields}]

    def refusal(self, order: Order) -> SquinneyError:
        """Why the order may not be edited so."""
        if order["status"] != "placed" or order.get("payment_id"):
            return fixed(order)
        currency, sku = self.guard.get("currency"), self.guard.get("items.sku")
        if currency and order["currency"] != currency:
            return WrongCurrency(f"the order is in {order['currency']}, not {currency}", order_id=order["_id"])
        if sku and all(line["sku"] != sku for line in order["items"]):
            return UnknownLine(f"the order has no line with {sku}", sku=sku)
        return OrderLimit(f"an order has at most {MOST_LINES} lines of {MOST_QTY} units, worth {MOST_TOTAL}")


def adding(item: Mapping[str, Any], currency: str | None) -> Edit:
    """A line more, or more of the line that is there.

    Raises: `Invalid`.
    """
    line = _checked_line(item)
    sku, qty = line["sku"], line["qty"]
    if currency is not None:
        checks.text(currency, "currency", most=3, pattern=CURRENCY)
    more = {"$mergeObjects": ["$$line", {"qty": {"$add": ["$$line.qty", qty]}}]}
    lines = {
        "$cond": [
            {"$in": [_literal(sku), "$items.sku"]},
            _each_line({"$cond": [_is(sku), more, "$$line"]}),
            {"$concatArrays": ["$items", [{"$literal": line}]]},
        ]
    }
    return Edit("add", lines, {**line, "currency": currency}, guard={"currency": currency} if currency else {})


def setting(sku: str, qty: int) -> Edit:
    """A line that says `qty`.

    Raises: `Invalid`.
    """
    checks.identifier(sku, "sku")
    checks.integer(qty, "qty", least=1, most=MOST_QTY)
    changed = {"$mergeObjects": ["$$line", {"qty": qty}]}
    lines = _each_line({"$cond": [_is(sku), changed, "$$line"]})
    return Edit("set", lines, {"sku": sku, "qty": qty}, guard={"items.sku": sku})


def removing(sku: str) -> Edit:
    """A line less.

    Raises: `Invalid`.
    """
    checks.identifier(sku, "sku")
    kept = {"$filter": {"input": "$items", "as": "line", "cond": {"$not": [_is(sku)]}}}
    return Edit("remove", kept, {"sku": sku}, guard={"items.sku": sku})


def fixed(order: Order) -> OrderFixed:
    """The error that says why an order does not change."""
    if order["status"] == "placed":
        return OrderFixed("this order was paid for; its lines change only with the goods: cancel it instead")
    return OrderFixed(f"the order is {order['status']}", order_id=order["_id"], status=order["status"])


# ---- the server's arithmetic ----


def _literal(sku: str) -> Document:
    """A SKU that the server does not take for a field path."""
    return {"$literal": sku}


def _is(sku: str) -> Document:
    return {"$eq": ["$$line.sku", _literal(sku)]}


def _each_line(becomes: Document) -> Document:
    return {"$map": {"input": "$items", "as": "line", "in": becomes}}


def _sum_of(lines: Document) -> Document:
    worth = {"$multiply": [{"$toLong": "$$line.price"}, {"$toLong": "$$line.qty"}]}
    return {"$sum": {"$map": {"input": lines, "as": "line", "in": worth}}}


def _within_limits(lines: Document) -> Document:
    """Whether the lines that an update would leave are ones an order may have."""
    most = {"$max": {"$map": {"input": lines, "as": "line", "in": "$$line.qty"}}}
    return {
        "$and": [
            {"$lte": [{"$size": lines}, MOST_LINES]},
            {"$lte": [{"$ifNull": [most, 0]}, MOST_QTY]},
            {"$lte": [_sum_of(lines), MOST_TOTAL]},
        ]
    }
