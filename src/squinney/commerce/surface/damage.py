"""Stored documents that are not what they should be: lists show the rest, and a page of one says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Literal

from squinney.commerce import Inventory
from squinney.commerce.carts.documents import Stock
from squinney.commerce.catalog.products import damage_of
from squinney.commerce.shapes import CART, LINE, ORDER, STOCK
from squinney.errors import Conflict
from squinney.mongo.shapes import Shape, fits

CATEGORY: Shape = {"slug": str, "name": str, "ancestors": list}
MOVEMENT: Shape = {"at": datetime, "qty": int, "kind": str, "reason": str}


def is_product(product: Any) -> bool:
    """Whether it can be shown."""
    return damage_of(product) is None


def is_order(order: Any) -> bool:
    """Whether it can be shown."""
    return fits(order, {**ORDER, "total": int}) and _has_lines(order)


def is_cart(cart: Any) -> bool:
    """Whether it can be shown."""
    return fits(cart, CART) and _has_lines(cart)


def _has_lines(document: Any) -> bool:
    return all(fits(line, LINE) for line in document["items"])


def is_category(category: Any) -> bool:
    """Whether it can be shown, with the way to it."""
    return fits(category, CATEGORY)


IS_WHOLE: Mapping[str, Callable[[Any], bool]] = {"product": is_product, "order": is_order, "cart": is_cart}


def require_whole(what: Literal["product", "order", "cart"], document: Any) -> None:
    """Raises: `Conflict` where it cannot be shown."""
    if not IS_WHOLE[what](document):
        raise Conflict(f"{what} {document.get('_id')} is damaged: `squinney doctor` tells more")


def whole_levels(inventory: Inventory, skus: list[str]) -> dict[str, Stock]:
    """The stock of several SKUs, without what cannot be read."""
    return {sku: level for sku, level in inventory.levels(skus).items() if fits(level, STOCK)}
