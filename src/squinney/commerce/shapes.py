"""What a stored cart, order, line or stock must have to be shown, sold or compared."""

from __future__ import annotations

from datetime import datetime

from squinney.mongo.shapes import Shape

_LINES: Shape = {"_id": str, "status": str, "currency": str, "version": int, "items": list}

LINE: Shape = {"sku": str, "title": str, "price": int, "qty": int}
CART: Shape = {**_LINES, "last_modified": datetime, "attempt": int}
ORDER: Shape = {**_LINES, "placed_at": datetime}  # a total follows from the rest
STOCK: Shape = {"_id": str, "received": int, "adjusted": int, "qty": int, "carted": int, "sold": int}
