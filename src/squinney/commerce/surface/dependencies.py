"""The shop's objects, as its routes and pages ask for them."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends

from squinney.commerce import Carts, Catalog, Categories, FacetCache, Inventory, Orders
from squinney.http.dependencies import service

CatalogDep = Annotated[Catalog, Depends(service("commerce", "catalog", Catalog))]
CategoriesDep = Annotated[Categories, Depends(service("commerce", "categories", Categories))]
InventoryDep = Annotated[Inventory, Depends(service("commerce", "inventory", Inventory))]
CartsDep = Annotated[Carts, Depends(service("commerce", "carts", Carts))]
OrdersDep = Annotated[Orders, Depends(service("commerce", "orders", Orders))]
FacetsDep = Annotated[FacetCache, Depends(service("commerce", "facets", FacetCache))]
