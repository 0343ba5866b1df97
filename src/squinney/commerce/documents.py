"""Limits and types that all documents of the shop share. Money is an integer in minor units (cents) plus a currency."""

from __future__ import annotations

CURRENCY = r"[A-Z]{3}"
MOST_LINES = 100
MOST_QTY = 10**6
MOST_PRICE = 10**12
MOST_TOTAL = 10**15  # far below int64, so that no sum of lines can overflow it
MOST_STOCK = 10**12
LIMITS = f"{MOST_LINES} lines, {MOST_QTY} units in a line and a total of {MOST_TOTAL}"

INTEGER = {"bsonType": ["int", "long"]}
NOT_NEGATIVE = {**INTEGER, "minimum": 0}
