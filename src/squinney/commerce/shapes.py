"""What a stored cart, order or line must have to be shown, sold or compared."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

Shape = Mapping[str, type]

LINE: Shape = {"sku": str, "title": str, "price": int, "qty": int}
CART: Shape = {"_id": str, "status": str, "currency": str, "last_modified": datetime, "version": int, "attempt": int}
ORDER: Shape = {"_id": str, "status": str, "currency": str, "placed_at": datetime, "version": int}
STOCK: Shape = {"_id": str, "received": int, "adjusted": int, "qty": int, "carted": int, "sold": int}
IN_BSON: Mapping[type, list[str]] = {str: ["string"], int: ["int", "long"], datetime: ["date"]}


def fits(document: Mapping[str, Any], shape: Shape) -> bool:
    """Whether it has these fields, of these types; True and False are no numbers."""
    return all(
        isinstance(document.get(name), kind) and not isinstance(document[name], bool) for name, kind in shape.items()
    )


def lacks(shape: Shape) -> list[dict[str, Any]]:
    """The same for the server: one of these matches what does not fit."""
    return [{name: {"$not": {"$type": IN_BSON[kind]}}} for name, kind in shape.items()]
