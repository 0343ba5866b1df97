"""`/shop/admin`: stock, the category tree and orders. `web_admin_products.py` has the products."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.responses import Response

from squinney.commerce import Catalog, UnknownOrder
from squinney.commerce.catalog.products import Product
from squinney.commerce.surface import web_admin_products
from squinney.commerce.surface.damage import is_valid_order, is_valid_product, valid_levels
from squinney.commerce.surface.dependencies import Shop, ShopDep
from squinney.commerce.surface.wording import whole_number
from squinney.errors import Invalid, SquinneyError
from squinney.http.access.callers import PageRoute
from squinney.http.access.permissions import needs
from squinney.http.access.visitor import visitor_of
from squinney.http.pages import render, return_path
from squinney.patterns.ids import new_id
from squinney.patterns.paging import Page, without_damaged
from squinney.transactions import Key

router = APIRouter(prefix="/admin", route_class=PageRoute, dependencies=[needs("editor")])
router.include_router(web_admin_products.router)

Text = Annotated[str, Form(max_length=500)]
Word = Annotated[str, Query(max_length=200)]
Cursor = Annotated[str | None, Query(max_length=20_000)]
MAX_SHOWN = 500
# Pages with forms: after a form is sent, the user returns to the same page with the same query.
FORMS_ON = ("/shop/admin", "/shop/admin/products/edit")
FORMS_BELOW = "/shop/orders/"


@router.get("", response_class=HTMLResponse)
def show_admin(request: Request, shop: ShopDep, words: Word = "", cursor: Cursor = None) -> Response:
    """Show the stock of products, found by words or SKU, the category tree and the newest orders."""
    return _render_admin(request, shop, words=words.strip(), cursor=cursor)


def _render_admin(
    request: Request, shop: Shop, *, words: str = "", cursor: str | None = None, error: SquinneyError | None = None
) -> Response:
    page, damaged = without_damaged(_find_products(shop.catalog, words, cursor), is_valid_product)
    newest, damaged_orders = without_damaged(shop.orders.all(limit=10), is_valid_order)
    return render(
        request,
        "commerce/admin.html",
        page=page,
        damaged=damaged + damaged_orders,
        levels=valid_levels(shop.inventory, [product["_id"] for product in page.items]),
        words=words,
        **_top_of_tree(shop.categories.tree()),
        orders=newest.items,
        key=new_id(),
        error=error,
    )


def _find_products(catalog: Catalog, words: str, cursor: str | None) -> Page[Product]:
    """Return all products by title, or the product with this SKU and the products with these words."""
    if not words:
        return catalog.find(sort="title", cursor=cursor, limit=50)
    page = catalog.find(words=words, cursor=cursor, limit=50)
    # guard: the admin's search finds a product by its SKU
    first = [] if cursor else catalog.get_many([words])
    return Page([*first, *(product for product in page.items if product["_id"] != words)], page.next)


def _top_of_tree(roots: list[Any]) -> dict[str, Any]:
    """Return the first `MAX_SHOWN` categories, level by level, and the number of the others."""
    nodes = list(roots)
    for node in nodes:  # the list grows while it is read: breadth first
        nodes.extend(node["children"])
    kept = {node["_id"] for node in nodes[:MAX_SHOWN]}
    return {"tree": _pruned(roots, kept), "left_out": len(nodes) - len(kept)}


def _pruned(nodes: list[Any], kept: set[str]) -> list[Any]:
    return [{**node, "children": _pruned(node["children"], kept)} for node in nodes if node["_id"] in kept]


def _done_or_error(request: Request, shop: Shop, change: Callable[[], object], done: str) -> Response:
    try:
        change()
    except SquinneyError as error:
        return _render_admin(request, shop, error=error)
    visitor_of(request).flash(done)
    return RedirectResponse(_sent_from(request), status_code=303)


def _sent_from(request: Request) -> str:
    page = return_path(request)
    path = page.partition("?")[0]
    # guard: after a form the user returns to a page, not to the form's target
    return page if path in FORMS_ON or path.startswith(FORMS_BELOW) else "/shop/admin"


@router.post("/stock", response_class=HTMLResponse)
def change_stock(request: Request, shop: ShopDep, sku: Text, units: Text, key: Text, reason: Text = "") -> Response:
    """Receive units, or write units off if `units` is negative."""

    def change() -> None:
        if (number := whole_number(units, "units")) > 0:
            shop.inventory.receive(sku, number, reason=reason, key=Key(key, "web"))
        else:
            shop.inventory.adjust(sku, number, reason or "written off", key=Key(key, "web"))

    return _done_or_error(request, shop, change, f"The stock of {sku} changed by {units}.")


@router.post("/categories", response_class=HTMLResponse)
def add_category(request: Request, shop: ShopDep, name: Text, key: Text, parent: Text = "") -> Response:
    """Add a category; a form that is sent twice adds one category."""
    add = partial(shop.categories.add, name, parent=parent or None, key=Key(key, "web"))
    return _done_or_error(request, shop, add, f"“{name}” was added.")


@router.post("/categories/move", response_class=HTMLResponse)
def move_category(request: Request, shop: ShopDep, slug: Text, parent: Text = "", position: Text = "") -> Response:
    """Move a category; the page sends this form also after drag and drop."""

    def move() -> None:
        shop.categories.move(slug, parent or None, whole_number(position, "position") if position else None)

    return _done_or_error(request, shop, move, f"“{slug}” was moved.")


@router.post("/categories/rename", response_class=HTMLResponse)
def rename_category(request: Request, shop: ShopDep, slug: Text, name: Text) -> Response:
    """Rename a category."""
    rename = partial(shop.categories.rename, slug, name)
    return _done_or_error(request, shop, rename, f"“{slug}” was renamed to “{name}”.")


@router.post("/categories/remove", response_class=HTMLResponse)
def remove_category(request: Request, shop: ShopDep, slug: Text, children: Text = "refuse") -> Response:
    """Remove a category; `children` selects what happens to its children."""
    remove = partial(shop.categories.remove, slug, children=children)  # type: ignore[arg-type]
    return _done_or_error(request, shop, remove, f"“{slug}” was removed.")


@router.get("/orders", response_class=HTMLResponse)
def find_orders(request: Request, shop: ShopDep, find: Word = "", cursor: Cursor = None) -> Response:
    """List all orders, newest first, or the orders of a customer; redirect to the order if `find` is its id."""
    wanted = find.strip()
    try:
        return RedirectResponse(f"/shop/orders/{quote(shop.orders.get(wanted)['_id'])}", status_code=303)
    except (UnknownOrder, Invalid):
        paged: dict[str, Any] = {"cursor": cursor, "limit": 50}
        page = shop.orders.by_customer(wanted, **paged) if wanted else shop.orders.all(**paged)
    page, damaged = without_damaged(page, is_valid_order)
    customers = {order["customer"] for order in page.items if "customer" in order}
    names = {customer: request.app.state.name_of(customer) for customer in customers}
    return render(request, "commerce/orders.html", page=page, damaged=damaged, find=wanted, names=names)


@router.post("/orders/cancel", response_class=HTMLResponse)
def cancel_order(request: Request, shop: ShopDep, order_id: Text) -> Response:
    """Cancel an order; a paid order is refunded and its goods are restocked."""
    return _done_or_error(request, shop, partial(shop.orders.cancel, order_id), "The order was cancelled.")
