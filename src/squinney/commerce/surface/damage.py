"""Finds damaged stored documents, so that lists leave them out and pages of a single one report an error."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from squinney.commerce import Inventory
from squinney.commerce.catalog.products import damage_of
from squinney.commerce.documents import CART, LINE, ORDER, STOCK
from squinney.commerce.inventory.documents import Stock
from squinney.errors import Conflict
from squinney.mongo.shapes import Shape, fits

CATEGORY: Shape = {"slug": str, "name": str, "ancestors": list}
MOVEMENT: Shape = {"at": datetime, "qty": int, "kind": str, "reason": str}


def is_valid_product(product: Any) -> bool:
    """Return whether the stored product can be shown."""
    return damage_of(product) is None


def is_valid_order(order: Any) -> bool:
    """Return whether the stored order can be shown."""
    return fits(order, {**ORDER, "total": int}) and _has_valid_lines(order)


def is_valid_cart(cart: Any) -> bool:
    """Return whether the stored cart can be shown."""
    return fits(cart, CART) and _has_valid_lines(cart)


def _has_valid_lines(document: Any) -> bool:
    return all(fits(line, LINE) for line in document["items"])


def is_valid_category(category: Any) -> bool:
    """Return whether the stored category and its breadcrumbs can be shown."""
    return fits(category, CATEGORY)


VALIDATORS = {"product": is_valid_product, "order": is_valid_order, "cart": is_valid_cart}


def require_valid(what: Literal["product", "order", "cart"], document: Any) -> None:
    """Raises: `Conflict` if the stored document cannot be shown."""
    if not VALIDATORS[what](document):
        raise Conflict(f"{what} {document.get('_id')} is damaged; run `squinney doctor` for details")


def valid_levels(inventory: Inventory, skus: list[str]) -> dict[str, Stock]:
    """Return the stock of several SKUs, by SKU, without damaged documents."""
    return {sku: level for sku, level in inventory.levels(skus).items() if fits(level, STOCK)}
