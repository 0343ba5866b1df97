"""`/shop/admin/products`: forms that add, change and remove products."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.responses import Response

from squinney.commerce.catalog.products import TYPES, Product
from squinney.commerce.surface.damage import MOVEMENT, require_valid, valid_levels
from squinney.commerce.surface.dependencies import Shop, ShopDep
from squinney.commerce.surface.product_form import ProductForm, form_for, product_of
from squinney.errors import Conflict, SquinneyError
from squinney.http.access.callers import PageRoute
from squinney.http.access.visitor import visitor_of
from squinney.http.pages import render
from squinney.mongo.shapes import fits
from squinney.patterns.ids import new_id
from squinney.transactions import Key, Stale

router = APIRouter(prefix="/products", route_class=PageRoute)

Typed = Annotated[ProductForm, Form()]
Text = Annotated[str, Form(max_length=200)]
Sku = Annotated[str, Query(min_length=1, max_length=200)]
MAX_MOVEMENTS = 20


@router.get("/new", response_class=HTMLResponse)
def show_new(request: Request) -> Response:
    """Show an empty form."""
    return _render_form(request, ProductForm())


@router.post("/new", response_class=HTMLResponse)
def add(request: Request, shop: ShopDep, typed: Typed, key: Text) -> Response:
    """Add a product; a form that is sent twice adds one product."""
    try:
        # guard: a product form that is sent twice adds one product
        product = shop.catalog.add(product_of(typed, _category_ids(shop, typed), {}), key=Key(key, "web"))
    except SquinneyError as error:
        return _render_form(request, typed, error=error)
    visitor_of(request).flash(f"“{product['title']}” was added. Add stock to sell it.")
    return _to_product(product["_id"])


@router.get("/edit", response_class=HTMLResponse)
def show_edit(request: Request, shop: ShopDep, sku: Sku) -> Response:
    """Show the form of a product, with its stock and the latest movements."""
    product = _product(shop, sku)
    return _render_form(request, form_for(product), product, shop)


@router.post("/edit", response_class=HTMLResponse)
def change(
    request: Request, shop: ShopDep, typed: Typed, sku: Sku, version: Annotated[int, Form(ge=1, le=10**12)]
) -> Response:
    """Change a product, unless another user changed it after the form was loaded."""
    product = _product(shop, sku)
    typed.sku = sku
    try:
        changed = product_of(typed, _category_ids(shop, typed), product)
        # guard: a product that another user changed is not overwritten
        shop.catalog.replace(sku, changed, expected_version=version)
    except Stale:
        conflict = Conflict("another user has changed this product; save again to overwrite their changes")
        return _render_form(request, typed, product, shop, error=conflict)
    except SquinneyError as error:
        return _render_form(request, typed, product, shop, error=error)
    visitor_of(request).flash(f"“{changed['title']}” was saved.")
    return _to_product(sku)


@router.post("/remove", response_class=HTMLResponse)
def remove(request: Request, shop: ShopDep, sku: Text) -> Response:
    """Remove a product that is in no cart."""
    product = _product(shop, sku)
    try:
        shop.catalog.remove(sku)
    except SquinneyError as error:
        return _render_form(request, form_for(product), product, shop, error=error)
    visitor_of(request).flash(f"“{product['title']}” was removed.")
    return RedirectResponse("/shop/admin", status_code=303)


def _product(shop: Shop, sku: str) -> Product:
    require_valid("product", shop.catalog.get(sku))  # first, because a damaged product may have no valid category ids
    return shop.catalog.get_with_categories(sku)


def _category_ids(shop: Shop, typed: ProductForm) -> list[str]:
    return [shop.categories.get(slug.strip())["_id"] for slug in typed.categories.split(",") if slug.strip()]


def _to_product(sku: str) -> Response:
    return RedirectResponse(f"/shop/admin/products/edit?sku={quote(sku, safe='')}", status_code=303)


def _render_form(
    request: Request,
    typed: ProductForm,
    product: Product | None = None,
    shop: Shop | None = None,
    *,
    error: SquinneyError | None = None,
) -> Response:
    stock = valid_levels(shop.inventory, [typed.sku]).get(typed.sku) if shop else None
    movements = shop.inventory.movements(typed.sku, limit=MAX_MOVEMENTS).items if shop else []
    return render(
        request,
        "commerce/product_form.html",
        typed=typed,
        product=product,
        pictures=shop.pictures.of([product]) if shop and product else {},
        stock=stock,
        movements=[movement for movement in movements if fits(movement, MOVEMENT)],
        types=list(TYPES),
        key=new_id(),
        error=error,
    )
