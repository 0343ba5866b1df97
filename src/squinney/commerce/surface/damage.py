"""Stored documents that are not what they should be: lists show the rest, and a page of one says so."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, TypeVar

from squinney.commerce import Inventory
from squinney.commerce.carts.documents import Stock
from squinney.commerce.catalog.products import damage_of
from squinney.commerce.shapes import LINE
from squinney.errors import Conflict
from squinney.http.pages import whole

T = TypeVar("T")

ORDER: dict[str, type] = {"_id": str, "items": list, "total": int, "currency": str, "status": str}
ORDER["placed_at"] = datetime
CART: dict[str, type] = {"items": list, "currency": str, "status": str}


def whole_products(products: Iterable[T]) -> tuple[list[T], int]:
    """Those that can be shown, and how many cannot."""
    given = list(products)
    kept = [product for product in given if damage_of(product) is None]
    return kept, len(given) - len(kept)


def whole_orders(orders: Iterable[T]) -> tuple[list[T], int]:
    """Those that can be shown, and how many cannot."""
    given = list(orders)
    kept = [order for order in given if _has_lines(order, ORDER)]
    return kept, len(given) - len(kept)


def require_product(product: Any) -> None:
    """Raises: `Conflict` where it cannot be shown."""
    if damage_of(product):
        raise _damaged("product", product)


def require_order(order: Any) -> None:
    """Raises: `Conflict` where it cannot be shown."""
    if not _has_lines(order, ORDER):
        raise _damaged("order", order)


def require_cart(cart: Any) -> None:
    """Raises: `Conflict` where it cannot be shown."""
    if not _has_lines(cart, CART):
        raise _damaged("cart", cart)


def whole_levels(inventory: Inventory, skus: list[str]) -> dict[str, Stock]:
    """The stock of several SKUs, without what cannot be read."""
    return {level["_id"]: level for level in whole(inventory.levels(skus).values(), qty=int, carted=int, sold=int)[0]}


def _has_lines(document: Any, shape: dict[str, type]) -> bool:
    return bool(whole([document], **shape)[0]) and not whole(document["items"], **LINE)[1]


def _damaged(what: str, document: Any) -> Conflict:
    return Conflict(f"{what} {document.get('_id')} is damaged: `squinney doctor` tells more")
