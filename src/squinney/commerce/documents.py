"""Limits and shapes that the documents of the shop share. Money is an integer in minor units plus a currency code."""

from __future__ import annotations

from datetime import datetime

from squinney.mongo.shapes import Shape

CURRENCY = r"[A-Z]{3}"
MOST_LINES = 100
MOST_QTY = 10**6
MOST_PRICE = 10**12
MOST_TOTAL = 10**15  # far below int64, so that no sum of lines can overflow it
MOST_STOCK = 10**12
LIMITS = f"{MOST_LINES} lines, {MOST_QTY} units in a line and a total of {MOST_TOTAL}"

# An operation that has read a product finishes long before so many more products with its SKU are removed.
MOST_REMOVED_IDS = 100

COUNTS = ("received", "adjusted", "qty", "carted", "sold")
INTEGER = {"bsonType": ["int", "long"]}
NOT_NEGATIVE = {**INTEGER, "minimum": 0}

# The fields and types that a stored document needs to be shown, sold or compared.
_COMMON: Shape = {"_id": str, "status": str, "currency": str, "version": int, "items": list}
LINE: Shape = {"sku": str, "title": str, "price": int, "qty": int}
CART: Shape = {**_COMMON, "last_modified": datetime, "attempt": int}
ORDER: Shape = {**_COMMON, "placed_at": datetime}  # not the total: it can be computed from the lines
STOCK: Shape = {"_id": str, **dict.fromkeys(COUNTS, int)}
