"""The FastAPI dependency that gives routes and pages the shop's services."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends

from squinney.commerce import Carts, Catalog, Categories, FacetCache, Inventory, Orders, Pictures
from squinney.http.dependencies import services


@dataclass(frozen=True)
class Shop:
    """The services that `system.py` builds, once per process."""

    catalog: Catalog
    facets: FacetCache
    categories: Categories
    inventory: Inventory
    pictures: Pictures
    carts: Carts
    orders: Orders


ShopDep = Annotated[Shop, Depends(services("commerce", Shop))]
