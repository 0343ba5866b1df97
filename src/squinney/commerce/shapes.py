"""The fields and types that a stored cart, order, line or stock needs to be shown, sold or compared."""

from __future__ import annotations

from datetime import datetime

from squinney.mongo.shapes import Shape

_COMMON: Shape = {"_id": str, "status": str, "currency": str, "version": int, "items": list}

LINE: Shape = {"sku": str, "title": str, "price": int, "qty": int}
CART: Shape = {**_COMMON, "last_modified": datetime, "attempt": int}
ORDER: Shape = {**_COMMON, "placed_at": datetime}  # not the total: it can be computed from the lines
STOCK: Shape = {"_id": str, "received": int, "adjusted": int, "qty": int, "carted": int, "sold": int}
