"""The shop's objects, as its routes and pages ask for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from squinney.commerce import Carts, Catalog, Categories, FacetCache, Inventory, Orders


@dataclass(frozen=True)
class Shop:
    """What `system.py` builds, once per process."""

    catalog: Catalog
    facets: FacetCache
    categories: Categories
    inventory: Inventory
    carts: Carts
    orders: Orders


async def _shop(request: Request) -> Shop:
    return Shop(**request.app.state.assembled.services["commerce"])


ShopDep = Annotated[Shop, Depends(_shop)]
