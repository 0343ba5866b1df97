"""The HTTP API of the shop."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query

from squinney.commerce import (
    CartClosed,
    CartEmpty,
    CartLimit,
    Categories,
    CategoryNotEmpty,
    CheckoutRunning,
    DepthLimit,
    InadequateInventory,
    OrderFixed,
    OrderLimit,
    PaymentDeclined,
    PaymentNeedsAction,
    PaymentRefunded,
    PaymentUnsettled,
    ProductReserved,
    SlugTaken,
    UnknownCart,
    UnknownCategory,
    UnknownLine,
    UnknownOrder,
    UnknownPayment,
    UnknownProduct,
    WrongCurrency,
)
from squinney.commerce.carts.documents import CartStatus
from squinney.commerce.categories.categories import Children
from squinney.commerce.surface.dependencies import ShopDep
from squinney.commerce.surface.filters import Filters, Text
from squinney.commerce.surface.models import (
    Adjustment,
    CartModel,
    CategoryModel,
    CategoryMove,
    CategoryPatch,
    Facets,
    LineModel,
    MovementModel,
    NewCart,
    NewCategory,
    NewOrder,
    NewProduct,
    OrderLineChange,
    OrderModel,
    PaymentModel,
    ProductModel,
    ProductPatch,
    Quantity,
    Receipt,
    Removed,
    StockModel,
)
from squinney.http.cursors import Cursor, Limit, SignCursor
from squinney.http.dependencies import IdempotencyKey, RequiredIdempotencyKey
from squinney.http.error_responses import responses
from squinney.http.response_models import page_of, signed_page
from squinney.http.routes import SuffixRoute
from squinney.patterns.ancestors import Cycle
from squinney.transactions import AlreadyExists, Busy, KeyReused, Stale

router = APIRouter(prefix="/api/commerce", tags=["commerce"], route_class=SuffixRoute)

Sort = Literal["title", "-title", "price", "-price", "discount", "newest", "oldest"]
Facet = Literal["type", "brand", "category", "genre", "actor", "properties", "price"]
KEY_ERRORS: list[type[Any]] = [KeyReused, Busy]


# ---- products ----


@router.get("/products", response_model=page_of(ProductModel), responses=responses(UnknownCategory))
def find_products(
    shop: ShopDep,
    sign: SignCursor,
    filters: Filters,
    sort: Sort | Literal["relevance"] | None = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Any:
    """List the products that match all filters, in the requested order."""
    filters = _with_category_id(shop.categories, filters)
    return signed_page(shop.catalog.find(**filters, sort=sort, cursor=cursor, limit=limit), sign)


@router.get("/facets", response_model=Facets, responses=responses(UnknownCategory))
def count_facets(shop: ShopDep, filters: Filters, by: Annotated[list[Facet], Query(min_length=1, max_length=7)]) -> Any:
    """Count the matching products, in total and for each value of the fields in `by`."""
    return shop.catalog.facets(by=by, **_with_category_id(shop.categories, filters))


def _with_category_id(tree: Categories, filters: dict[str, Any]) -> dict[str, Any]:
    """Replace the slug of a category by its id; an unknown category is an error, not an empty result."""
    if "category" not in filters:
        return filters
    try:
        category = tree.by_id(filters["category"])
    except UnknownCategory:
        category = tree.get(filters["category"])
    return {**filters, "category": category["_id"]}


@router.post(
    "/products", status_code=201, response_model=ProductModel, responses=responses(AlreadyExists, KeyReused, Busy)
)
def add_product(shop: ShopDep, body: NewProduct, key: IdempotencyKey) -> Any:
    """Add a product; `id` is its SKU. The response of a GET request is accepted unchanged."""
    return shop.catalog.add(body.product(), key=key)


@router.get("/products/{sku:path}", response_model=ProductModel, responses=responses(UnknownProduct))
def get_product(shop: ShopDep, sku: str) -> Any:
    """Get a product with its categories."""
    return shop.catalog.get_with_categories(sku)


@router.patch("/products/{sku:path}", response_model=ProductModel, responses=responses(UnknownProduct, Stale, Busy))
def patch_product(shop: ShopDep, sku: str, body: ProductPatch) -> Any:
    """Change some fields of a product."""
    return shop.catalog.patch(sku, body.changes, expected_version=body.expected_version)


@router.delete("/products/{sku:path}", status_code=204, responses=responses(UnknownProduct, ProductReserved, Busy))
def remove_product(shop: ShopDep, sku: str) -> None:
    """Remove a product that is in no cart."""
    shop.catalog.remove(sku)


# ---- stock: a SKU may contain slashes, so the route with a suffix is declared first ----


@router.get("/stock/{sku:path}/movements", response_model=page_of(MovementModel), responses=responses(UnknownProduct))
def list_movements(shop: ShopDep, sign: SignCursor, sku: str, cursor: Cursor = None, limit: Limit = 50) -> Any:
    """List the changes of a SKU's stock, newest first."""
    return signed_page(shop.inventory.movements(sku, cursor=cursor, limit=limit), sign)


@router.get("/stock/{sku:path}", response_model=StockModel, responses=responses(UnknownProduct))
def get_stock(shop: ShopDep, sku: str) -> Any:
    """Get the stock of a SKU."""
    return shop.inventory.level(sku)


@router.post("/stock/{sku:path}/receipts", response_model=StockModel, responses=responses(UnknownProduct, *KEY_ERRORS))
def receive_stock(shop: ShopDep, sku: str, body: Receipt, key: IdempotencyKey) -> Any:
    """Add received units to the stock."""
    return shop.inventory.receive(sku, body.qty, reason=body.reason, key=key)


@router.post(
    "/stock/{sku:path}/adjustments",
    response_model=StockModel,
    responses=responses(UnknownProduct, InadequateInventory, *KEY_ERRORS),
)
def adjust_stock(shop: ShopDep, sku: str, body: Adjustment, key: IdempotencyKey) -> Any:
    """Correct the available quantity: a negative `delta` removes units."""
    return shop.inventory.adjust(sku, body.delta, body.reason, key=key)


# ---- categories ----


@router.get("/categories", response_model=page_of(CategoryModel), responses=responses(UnknownCategory))
def list_categories(
    shop: ShopDep, sign: SignCursor, parent: Text = None, cursor: Cursor = None, limit: Limit = 50
) -> Any:
    """List the children of a category, or the roots, in order of position."""
    return signed_page(shop.categories.children(parent, cursor=cursor, limit=limit), sign)


@router.post(
    "/categories",
    status_code=201,
    response_model=CategoryModel,
    responses=responses(UnknownCategory, SlugTaken, DepthLimit, KeyReused, Busy),
)
def add_category(shop: ShopDep, body: NewCategory, key: IdempotencyKey) -> Any:
    """Add a category as the last child of its parent."""
    return shop.categories.add(body.name, body.slug, body.parent, key=key)


@router.get("/categories/{slug}", response_model=CategoryModel, responses=responses(UnknownCategory))
def get_category(shop: ShopDep, slug: str) -> Any:
    """Get a category with its ancestors, parent first."""
    return shop.categories.get(slug)


@router.get("/categories/{slug}/products", response_model=page_of(ProductModel), responses=responses(UnknownCategory))
def list_subtree(
    shop: ShopDep,
    sign: SignCursor,
    slug: str,
    type: Text = None,
    sort: Sort = "title",
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Any:
    """List the products in a category and its descendants."""
    return signed_page(shop.catalog.subtree(slug, type=type, sort=sort, cursor=cursor, limit=limit), sign)


@router.post(
    "/categories/{slug}/move",
    response_model=CategoryModel,
    responses=responses(UnknownCategory, Cycle, DepthLimit, KeyReused, Busy),
)
def move_category(shop: ShopDep, slug: str, body: CategoryMove, key: IdempotencyKey) -> Any:
    """Move a category and its descendants to another parent."""
    return shop.categories.move(slug, body.parent, body.position, key=key)


@router.patch("/categories/{slug}", response_model=CategoryModel, responses=responses(UnknownCategory, SlugTaken, Busy))
def change_category(shop: ShopDep, slug: str, body: CategoryPatch) -> Any:
    """Change the name or the slug of a category."""
    if body.name is not None:
        return shop.categories.rename(slug, body.name)
    return shop.categories.change_slug(slug, str(body.slug))


@router.delete(
    "/categories/{slug}", response_model=Removed, responses=responses(UnknownCategory, CategoryNotEmpty, Busy)
)
def remove_category(shop: ShopDep, slug: str, children: Children = "refuse") -> Any:
    """Remove a category; `children` selects what happens to its children."""
    return {"removed": shop.categories.remove(slug, children=children)}


# ---- carts ----

LINE_ERRORS: list[type[Any]] = [UnknownCart, UnknownLine, CartClosed, InadequateInventory, CartLimit, *KEY_ERRORS]


@router.get("/carts", response_model=page_of(CartModel), responses=responses())
def list_carts(
    shop: ShopDep, sign: SignCursor, status: CartStatus = "active", cursor: Cursor = None, limit: Limit = 50
) -> Any:
    """List the carts with this status, the least recently modified first."""
    return signed_page(shop.carts.all(status, cursor=cursor, limit=limit), sign)


@router.post("/carts", status_code=201, response_model=CartModel, responses=responses(*KEY_ERRORS))
def new_cart(shop: ShopDep, body: NewCart, key: IdempotencyKey) -> Any:
    """Create an empty cart."""
    return shop.carts.new(currency=body.currency, customer=body.customer, key=key)


@router.get("/carts/{cart_id}", response_model=CartModel, responses=responses(UnknownCart))
def get_cart(shop: ShopDep, cart_id: str) -> Any:
    """Get a cart."""
    return shop.carts.get(cart_id)


@router.post(
    "/carts/{cart_id}/items",
    response_model=CartModel,
    responses=responses(*LINE_ERRORS, UnknownProduct, WrongCurrency),
)
def add_item(shop: ShopDep, cart_id: str, body: LineModel, key: IdempotencyKey) -> Any:
    """Reserve units of a product for the cart."""
    return shop.carts.add_item(cart_id, body.sku, body.qty, key=key)


@router.put("/carts/{cart_id}/items/{sku:path}", response_model=CartModel, responses=responses(*LINE_ERRORS))
def set_quantity(shop: ShopDep, cart_id: str, sku: str, body: Quantity, key: IdempotencyKey) -> Any:
    """Set the quantity of a line; 0 removes the line."""
    return shop.carts.set_quantity(cart_id, sku, body.qty, key=key)


@router.delete("/carts/{cart_id}/items/{sku:path}", response_model=CartModel, responses=responses(*LINE_ERRORS))
def remove_item(shop: ShopDep, cart_id: str, sku: str, key: IdempotencyKey) -> Any:
    """Remove a line and return its units to stock."""
    return shop.carts.remove_item(cart_id, sku, key=key)


@router.post("/carts/{cart_id}/abandon", response_model=CartModel, responses=responses(UnknownCart, CartClosed, Busy))
def abandon_cart(shop: ShopDep, cart_id: str) -> Any:
    """End the cart and return its goods to stock."""
    return shop.carts.abandon(cart_id)


@router.post(
    "/carts/{cart_id}/checkout",
    response_model=OrderModel,
    responses=responses(
        UnknownCart,
        CartEmpty,
        CartClosed,
        CheckoutRunning,
        PaymentDeclined,
        PaymentNeedsAction,
        PaymentRefunded,
        PaymentUnsettled,
        Busy,
    ),
)
def check_out(shop: ShopDep, cart_id: str, idempotency_key: RequiredIdempotencyKey) -> Any:
    """Charge for the cart and create its order; a repeat with the same key returns the same order."""
    return shop.carts.checkout(cart_id, key=idempotency_key)


@router.post(
    "/payments/{payment_id}/settle",
    response_model=PaymentModel,
    responses=responses(UnknownPayment, PaymentUnsettled, Busy),
)
def settle_payment(shop: ShopDep, payment_id: str) -> Any:
    """Ask the provider for the state of a payment and apply it. Call this from the provider's webhook."""
    return shop.carts.settle(payment_id)


# ---- orders ----

EDIT_ERRORS: list[type[Any]] = [UnknownOrder, OrderFixed, OrderLimit, KeyReused, Busy]


@router.get("/orders", response_model=page_of(OrderModel), responses=responses())
def list_orders(
    shop: ShopDep, sign: SignCursor, customer: Text = None, cursor: Cursor = None, limit: Limit = 50
) -> Any:
    """List the orders of a customer, or all orders, newest first."""
    if customer is None:
        return signed_page(shop.orders.all(cursor=cursor, limit=limit), sign)
    return signed_page(shop.orders.by_customer(customer, cursor=cursor, limit=limit), sign)


@router.post("/orders", status_code=201, response_model=OrderModel, responses=responses(OrderLimit, *KEY_ERRORS))
def place_order(shop: ShopDep, body: NewOrder, key: IdempotencyKey) -> Any:
    """Create an order without a cart."""
    lines = [line.model_dump(exclude_none=True) for line in body.items]
    return shop.orders.place(lines, currency=body.currency, customer=body.customer, key=key)


@router.get("/orders/{order_id}", response_model=OrderModel, responses=responses(UnknownOrder))
def get_order(shop: ShopDep, order_id: str) -> Any:
    """Get an order."""
    return shop.orders.get(order_id)


@router.post("/orders/{order_id}/items", response_model=OrderModel, responses=responses(*EDIT_ERRORS, WrongCurrency))
def add_order_line(shop: ShopDep, order_id: str, body: OrderLineChange, key: IdempotencyKey) -> Any:
    """Add a line, or add the quantity to the existing line with the same SKU."""
    return shop.orders.add_or_increase(order_id, **body.model_dump(exclude_none=True), key=key)


@router.put(
    "/orders/{order_id}/items/{sku:path}", response_model=OrderModel, responses=responses(*EDIT_ERRORS, UnknownLine)
)
def set_order_quantity(shop: ShopDep, order_id: str, sku: str, body: Quantity, key: IdempotencyKey) -> Any:
    """Set the quantity of a line."""
    return shop.orders.set_quantity(order_id, sku, body.qty, key=key)


@router.delete(
    "/orders/{order_id}/items/{sku:path}", response_model=OrderModel, responses=responses(*EDIT_ERRORS, UnknownLine)
)
def remove_order_line(shop: ShopDep, order_id: str, sku: str, key: IdempotencyKey) -> Any:
    """Remove a line."""
    return shop.orders.remove_item(order_id, sku, key=key)


@router.post(
    "/orders/{order_id}/cancel",
    response_model=OrderModel,
    responses=responses(UnknownOrder, OrderFixed, PaymentUnsettled, Busy),
)
def cancel_order(shop: ShopDep, order_id: str) -> Any:
    """Cancel an order; a paid order is refunded and its goods are restocked."""
    return shop.orders.cancel(order_id)


@router.delete("/orders/{order_id}", status_code=204, responses=responses(UnknownOrder, OrderFixed))
def delete_order(shop: ShopDep, order_id: str) -> None:
    """Delete an order that is cancelled or unpaid."""
    shop.orders.delete(order_id)
