"""Limits and shapes that the documents of the shop share. Money is an integer in minor units plus a currency code."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypedDict

from squinney.mongo.shapes import Shape
from squinney.transactions import CHECKS_FIELD

CURRENCY = r"[A-Z]{3}"
MAX_LINES = 100
MAX_QTY = 10**6
MAX_PRICE = 10**12
MAX_TOTAL = 10**15  # far below int64, so that no sum of lines can overflow it
MAX_STOCK = 10**12
LIMITS = f"{MAX_LINES} lines, {MAX_QTY} units in a line and a total of {MAX_TOTAL}"

# An operation that has read a product finishes long before so many more products with its SKU are removed.
MAX_REMOVED_IDS = 100

WITHOUT_CHECKS = {CHECKS_FIELD: 0}
COUNTS = ("received", "adjusted", "qty", "carted", "sold")
INTEGER = {"bsonType": ["int", "long"]}
NOT_NEGATIVE = {**INTEGER, "minimum": 0}

# The fields and types that a stored document needs to be shown, sold or compared.
_COMMON: Shape = {"_id": str, "status": str, "currency": str, "version": int, "items": list}
LINE: Shape = {"sku": str, "title": str, "price": int, "qty": int}
CART: Shape = {**_COMMON, "last_modified": datetime, "attempt": int}
ORDER: Shape = {**_COMMON, "placed_at": datetime}  # not the total: it can be computed from the lines
STOCK: Shape = {"_id": str, **dict.fromkeys(COUNTS, int)}


class Line(TypedDict):
    """One line of a cart, with the price at the time when the product was added."""

    sku: str
    qty: int
    price: int
    title: str
    details: dict[str, Any]
