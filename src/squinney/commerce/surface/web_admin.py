"""`/shop/admin`: stock, and the category tree."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.responses import Response

from squinney.commerce import Catalog, Categories, Inventory, Orders
from squinney.commerce.surface.damage import whole_levels, whole_orders, whole_products
from squinney.commerce.surface.dependencies import CatalogDep, CategoriesDep, InventoryDep, OrdersDep
from squinney.errors import Invalid, SquinneyError
from squinney.http.pages import render
from squinney.http.permissions import needs
from squinney.http.statuses import status_of
from squinney.http.visitor import visitor_of
from squinney.patterns.ids import new_id
from squinney.patterns.paging import Page
from squinney.transactions import Key

router = APIRouter(prefix="/admin", dependencies=[needs("editor")])

Text = Annotated[str, Form(max_length=500)]
MOST_SHOWN = 500


@router.get("", response_class=HTMLResponse)
def show_admin(
    request: Request,
    catalog: CatalogDep,
    tree: CategoriesDep,
    inventory: InventoryDep,
    orders: OrdersDep,
    cursor: Annotated[str | None, Query(max_length=20_000)] = None,
) -> Response:
    """Stock by title, the tree, and the newest orders."""
    return _admin(request, catalog, tree, inventory, orders, cursor=cursor)


def _admin(
    request: Request,
    catalog: Catalog,
    tree: Categories,
    inventory: Inventory,
    orders: Orders,
    *,
    cursor: str | None = None,
    error: SquinneyError | None = None,
) -> Response:
    page = catalog.find(sort="title", cursor=cursor, limit=50)
    products, damaged = whole_products(page.items)
    newest, damaged_orders = whole_orders(orders.all(limit=10).items)
    return render(
        request,
        "commerce/admin.html",
        status=status_of(error) if error else 200,
        page=Page(products, page.next),
        damaged=damaged + damaged_orders,
        levels=whole_levels(inventory, [product["_id"] for product in products]),
        **_upper(tree.tree()),
        orders=newest,
        key=new_id(),
        error=error,
    )


def _upper(roots: list[Any]) -> dict[str, Any]:
    """The first `MOST_SHOWN` categories of the tree, level by level, and how many that leaves out."""
    nodes = list(roots)
    for node in nodes:  # it grows on the way
        nodes.extend(node["children"])
    kept = {node["_id"] for node in nodes[:MOST_SHOWN]}
    return {"tree": _only(roots, kept), "left_out": len(nodes) - len(kept)}


def _only(nodes: list[Any], kept: set[str]) -> list[Any]:
    return [{**node, "children": _only(node["children"], kept)} for node in nodes if node["_id"] in kept]


def _done_or_error(request: Request, services: Any, change: Callable[[], object], done: str) -> Response:
    try:
        change()
    except SquinneyError as error:
        return _admin(request, *services, error=error)
    visitor_of(request).flash(done)
    return RedirectResponse("/shop/admin", status_code=303)


async def _services(
    catalog: CatalogDep, tree: CategoriesDep, inventory: InventoryDep, orders: OrdersDep
) -> tuple[Any, ...]:
    return catalog, tree, inventory, orders


Services = Annotated[Any, Depends(_services)]


@router.post("/stock", response_class=HTMLResponse)
def change_stock(
    request: Request, services: Services, inventory: InventoryDep, sku: Text, units: Text, key: Text, reason: Text = ""
) -> Response:
    """Receive units; with a minus sign, and a reason, write some off."""

    def change() -> None:
        if not units.removeprefix("-").isascii() or not units.removeprefix("-").isdigit() or len(units) > 13:
            raise Invalid("units must be a whole number", field="units")
        if int(units) > 0:
            inventory.receive(sku, int(units), reason=reason, key=Key(key, "web"))
        else:
            inventory.adjust(sku, int(units), reason or "written off", key=Key(key, "web"))

    return _done_or_error(request, services, change, f"{units} of {sku} booked.")


@router.post("/categories", response_class=HTMLResponse)
def add_category(
    request: Request, services: Services, tree: CategoriesDep, name: Text, key: Text, parent: Text = ""
) -> Response:
    """Add a category; a form sent twice adds one."""
    add = partial(tree.add, name, parent=parent or None, key=Key(key, "web"))
    return _done_or_error(request, services, add, f"“{name}” is added.")


@router.post("/categories/move", response_class=HTMLResponse)
def move_category(
    request: Request, services: Services, tree: CategoriesDep, slug: Text, parent: Text = "", position: Text = ""
) -> Response:
    """Move a category: by the form, or dragged."""
    number = int(position) if position.isascii() and position.isdigit() and len(position) < 9 else None
    return _done_or_error(request, services, lambda: tree.move(slug, parent or None, number), f"“{slug}” is moved.")


@router.post("/categories/rename", response_class=HTMLResponse)
def rename_category(request: Request, services: Services, tree: CategoriesDep, slug: Text, name: Text) -> Response:
    """Rename a category."""
    return _done_or_error(request, services, lambda: tree.rename(slug, name), f"“{slug}” is called “{name}” now.")


@router.post("/categories/remove", response_class=HTMLResponse)
def remove_category(
    request: Request, services: Services, tree: CategoriesDep, slug: Text, children: Text = "refuse"
) -> Response:
    """Remove a category."""
    remove = partial(tree.remove, slug, children=children)  # type: ignore[arg-type]
    return _done_or_error(request, services, remove, f"“{slug}” is removed.")


@router.post("/orders/cancel", response_class=HTMLResponse)
def cancel_order(request: Request, services: Services, orders: OrdersDep, order_id: Text) -> Response:
    """Cancel an order: refund and restock."""
    return _done_or_error(request, services, lambda: orders.cancel(order_id), "The order is cancelled.")
