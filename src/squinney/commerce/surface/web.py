"""The shop's pages: products, the cart, checkout and orders. `web_admin.py` has `/shop/admin`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Depends, Form, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse
from starlette.responses import Response

from squinney.clock import utcnow
from squinney.commerce import (
    CartClosed,
    Carts,
    Catalog,
    Payment,
    TestGateway,
    UnknownCart,
    UnknownOrder,
    UnknownPayment,
    breadcrumbs,
)
from squinney.commerce.carts.documents import Cart
from squinney.commerce.catalog.search import SORTS
from squinney.commerce.jobs import CART_SECONDS
from squinney.commerce.orders.documents import Order
from squinney.commerce.rules import total
from squinney.commerce.surface import web_admin, web_pictures
from squinney.commerce.surface.damage import (
    is_valid_category,
    is_valid_order,
    is_valid_product,
    require_valid,
    valid_levels,
)
from squinney.commerce.surface.dependencies import Shop, ShopDep
from squinney.commerce.surface.timeline import timeline
from squinney.commerce.surface.wording import labelled, readable, whole_number
from squinney.errors import Invalid, SquinneyError
from squinney.http.access.callers import PageRoute
from squinney.http.access.permissions import needs, signed_in
from squinney.http.access.visitor import visitor_of
from squinney.http.dependencies import assembled
from squinney.http.pages import redirect, render
from squinney.http.site_options import MAX_FORM_BYTES
from squinney.patterns import paging
from squinney.patterns.ids import new_id
from squinney.patterns.paging import without_damaged
from squinney.roles import may_act_as
from squinney.system import Assembled
from squinney.transactions import Key

router = APIRouter(prefix="/shop", route_class=PageRoute)
router.include_router(web_admin.router)
router.include_router(web_pictures.router)
BODY_LIMITS = {"/shop/admin/pictures": MAX_FORM_BYTES}


def public_pages(services: Mapping[str, Any]) -> Iterator[str]:
    """Yield the paths of the products' pages, newest first."""
    catalog: Catalog = services["catalog"]
    for product in paging.all_items(lambda at: catalog.find(sort="newest", cursor=at, limit=200)):
        yield f"/shop/products/{quote(product['_id'], safe='')}"


Text = Annotated[str, Form(max_length=200)]
Sku = Annotated[str, Query(min_length=1, max_length=200)]
Word = Annotated[str, Query(max_length=200)]
Cursor = Annotated[str | None, Query(max_length=20_000)]

PICTURE_HEADERS = {
    # The id of a picture never has another content.
    "Cache-Control": "public, max-age=31536000, immutable",
    # Whatever a picture contains, a browser may show it but runs no script in it.
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
}

THANKED_FOR = timedelta(minutes=10)  # later, the page of an order has its name
CART_COOKIE = "squinney-cart"
COOKIE_SECONDS = 7 * 86_400
OPEN_STATUSES = ("active", "pending")
MAX_CHILDREN = 1_000
SORT_LABELS = {
    "title": "Title",
    "price": "Price, lowest first",
    "-price": "Price, highest first",
    "discount": "Biggest saving",
    "newest": "Newest",
    "oldest": "Oldest",
}


# ---- browsing ----


@router.get("", response_class=HTMLResponse)
def browse(
    request: Request,
    shop: ShopDep,
    category: Word = "",
    type: Word = "",
    genre: Word = "",
    words: Word = "",
    sort: Word = "",
    cursor: Cursor = None,
) -> Response:
    """Show categories, a search form, facets and a page of products."""
    chosen = {"category": category, "type": type, "genre": genre, "words": words}
    chosen = {name: value for name, value in chosen.items() if value}
    current = shop.categories.get(category) if category else None
    listing: dict[str, Any] = {"page": None, "damaged": 0, "facets": {}, "error": None, "levels": {}, "pictures": {}}
    try:
        listing = _listing(shop, current, chosen, sort, cursor)
    except SquinneyError as error:
        listing["error"] = error
    children = shop.categories.children(category or None, limit=MAX_CHILDREN)
    return render(
        request,
        "commerce/index.html",
        current=current,
        crumbs=breadcrumbs(current) if current else [],
        children=without_damaged(children, is_valid_category)[0].items,
        chosen=chosen,
        sort=sort,
        sorts=SORT_LABELS,
        link=_link_builder(chosen, sort),
        **listing,
    )


def _listing(shop: Shop, current: Any, chosen: dict[str, str], sort: str, cursor: str | None) -> dict[str, Any]:
    """Return the template values for a page of products, its facets and its stock; facets may be missing."""
    if current and chosen.keys() <= {"category", "type"}:
        kind, wanted = chosen.get("type"), sort if sort in SORTS else "title"
        page = shop.catalog.subtree(current["slug"], type=kind, sort=wanted, cursor=cursor, limit=24)
        facets = shop.facets.subtree_facets(current["slug"], by=["type"], limit=12, type=kind)
    else:
        filters = {**chosen, "category": current["_id"]} if current else chosen
        order = sort if sort in SORTS and "words" not in chosen else None
        page = shop.catalog.find(**filters, sort=order, cursor=cursor, limit=24)
        facets = shop.facets.facets(by=["type", "genre"], limit=12, **filters)
    page, damaged = without_damaged(page, is_valid_product)
    levels = valid_levels(shop.inventory, [product["_id"] for product in page.items])
    pictures = shop.pictures.of(page.items)
    shown = {"page": page, "damaged": damaged, "facets": facets or {}}
    return {**shown, "levels": levels, "pictures": pictures, "error": None}


def _link_builder(chosen: dict[str, str], sort: str) -> Any:
    """Return a function that builds a URL of this list with some parameters changed; an empty value removes one."""

    def link(**changes: str) -> str:
        wanted = {**chosen, "sort": sort, **changes}
        return "/shop?" + urlencode({name: value for name, value in wanted.items() if value})

    return link


@router.get("/products/{sku:path}", response_class=HTMLResponse)
def show_product(request: Request, shop: ShopDep, sku: str) -> Response:
    """Show a product with its details, stock and a form to add it to the cart."""
    return _render_product(request, shop, sku)


def _render_product(request: Request, shop: Shop, sku: str, *, error: SquinneyError | None = None) -> Response:
    require_valid("product", shop.catalog.get(sku))  # first, because a damaged product may have no valid category ids
    product = shop.catalog.get_with_categories(sku)
    stock = valid_levels(shop.inventory, [sku]).get(sku)
    cart = _open_cart(request, shop.carts)
    trails = [breadcrumbs(category) for category in product["categories"] if is_valid_category(category)]
    return render(
        request,
        "commerce/product.html",
        product=product,
        labelled=labelled(product.get("details", {})),
        pictures=shop.pictures.of([product]),
        available=stock["qty"] if stock else 0,
        other_currency=cart["currency"] if cart and not _accepts(cart, product["pricing"]["currency"]) else None,
        readable=readable,
        trails=trails,
        mentions=_mentions_of(request, sku),
        key=new_id(),
        error=error,
    )


def _mentions_of(request: Request, sku: str) -> Sequence[Any]:
    """Return the public texts of the site that link to a product. The service finds them."""
    mentions = getattr(request.app.state, "mentions", None)
    return mentions.of_product(sku) if mentions else ()


@router.get("/pictures/{picture_id}")
def show_picture(
    shop: ShopDep, picture_id: str, sku: Sku, width: Annotated[int, Query(ge=1, le=10_000)] = 640
) -> Response:
    """Return a picture of a product in the smallest size that is at least that wide."""
    size, content = shop.pictures.read(sku, picture_id, width)
    return Response(content, media_type=size["type"], headers=PICTURE_HEADERS)


@router.get("/stock")
def live_stock(shop: ShopDep, sku: Annotated[list[str], Query(max_length=200)]) -> Response:
    """Return the available quantity of each SKU as JSON; the pages poll this every few seconds."""
    levels = valid_levels(shop.inventory, sku)
    available = {name: levels[name]["qty"] if name in levels else 0 for name in sku}
    return JSONResponse(available, headers={"Cache-Control": "no-store"})


# ---- the cart ----


def _open_cart(request: Request, carts: Carts) -> Cart | None:
    """Return the visitor's active or pending cart: this browser's, else one that they began in another browser."""
    cart = _cart_from_cookie(request, carts)
    if cart and cart["status"] not in OPEN_STATUSES:
        cart = None
    if cart and cart["items"]:
        return cart
    # guard: a member finds the cart that was begun in another browser
    return _cart_of_member(request, carts) or cart


def _cart_of_member(request: Request, carts: Carts) -> Cart | None:
    customer = _customer(request)
    cart = carts.open_of(customer) if customer else None
    if cart:
        require_valid("cart", cart)
    return cart


def count_in_cart(request: Request) -> int:
    """Return how many pieces are in the visitor's open cart; 0 if it cannot be read, for pages that only show it."""
    shop = request.app.state.assembled.services["commerce"]
    try:
        cart = _open_cart(request, shop["carts"])
    # guard: a page is shown although the cart cannot be counted
    except SquinneyError:
        return 0
    return sum(item["qty"] for item in cart["items"]) if cart else 0


def _cart_from_cookie(request: Request, carts: Carts) -> Cart | None:
    """Return the cart in any status, unless it belongs to another user who was signed in with this browser."""
    cart = _find_cart(carts, request.cookies.get(CART_COOKIE, ""))
    if not cart or cart.get("customer") not in (None, _customer(request)):
        return None
    require_valid("cart", cart)
    return cart


def _customer(request: Request) -> str | None:
    person = visitor_of(request).person
    return person["_id"] if person else None


def _find_cart(carts: Carts, cart_id: str) -> Cart | None:
    if not cart_id:
        return None
    try:
        return carts.get(cart_id)
    except (UnknownCart, Invalid):
        return None


def _accepts(cart: Cart, currency: str) -> bool:
    """Return whether a product in this currency can be added. An empty cart is replaced by one in its currency."""
    return cart["currency"] == currency or not cart["items"]


def _open_or_new_cart(request: Request, carts: Carts, currency: str, key: str) -> Cart:
    """Return the visitor's open cart, or a new cart in this currency.

    A form that is sent twice before the first response sets the cookie gets the same new cart, because of the key.
    """
    cart = _open_cart(request, carts)
    if cart is not None and (cart["items"] or cart["currency"] == currency):
        return _claim(request, carts, cart)
    wanted: dict[str, Any] = {"customer": _customer(request), "currency": currency}
    first = _find_cart(carts, carts.new(**wanted, key=Key(key, f"web:{visitor_of(request).scope}"))["_id"])
    return first if first and first["status"] in OPEN_STATUSES else carts.new(**wanted)


def _claim(request: Request, carts: Carts, cart: Cart) -> Cart:
    """Assign a guest's cart to the visitor if they are signed in, so that its order appears in their list."""
    customer = _customer(request)
    return carts.claim(cart["_id"], customer) if customer and "customer" not in cart else cart


def _set_cart_cookie(request: Request, response: Response, cart_id: str) -> Response:
    secure = request.url.scheme == "https"
    response.set_cookie(CART_COOKIE, cart_id, max_age=COOKIE_SECONDS, httponly=True, samesite="lax", secure=secure)
    return response


@router.post("/cart/items", response_class=HTMLResponse)
def add_item(request: Request, shop: ShopDep, sku: Text, key: Text, qty: Text = "1") -> Response:
    """Add a product to the cart and show the cart; a form that is sent twice adds once."""
    try:
        product = shop.catalog.get(sku)
        require_valid("product", product)
        cart = _open_or_new_cart(request, shop.carts, product["pricing"]["currency"], key)
        shop.carts.add_item(cart["_id"], sku, whole_number(qty, "qty"), key=Key(key, f"web:{cart['_id']}"))
    except SquinneyError as error:
        return _render_product(request, shop, sku, error=error)
    return _set_cart_cookie(request, RedirectResponse("/shop/cart", status_code=303), cart["_id"])


def _cart_id(request: Request, carts: Carts, shown: str) -> str:
    """Return the id of the cart that the form was `shown` for, in any status, so that a repeat finds its order.

    It must be this browser's or the visitor's own. A form without a cart means this browser's.
    """
    cart = _cart_from_cookie(request, carts)
    if shown and (not cart or cart["_id"] != shown):
        cart = _find_cart(carts, shown)
        # guard: a form changes no cart of somebody else
        if cart and (_customer(request) is None or cart.get("customer") != _customer(request)):
            cart = None
    if cart is None:
        raise CartClosed("there is no open cart")
    require_valid("cart", cart)
    return _claim(request, carts, cart)["_id"]


@router.get("/cart", response_class=HTMLResponse)
def show_cart(request: Request, shop: ShopDep) -> Response:
    """Show the cart with live stock, or its order if the payment was settled after the visitor's checkout."""
    cart = _cart_from_cookie(request, shop.carts)
    return _to_order(cart["_id"]) if cart and cart["status"] == "complete" else _render_cart(request, shop)


def _expired_cart(request: Request, carts: Carts) -> Cart | None:
    """Return this browser's cart if it has expired, to say what became of its goods."""
    cart = _cart_from_cookie(request, carts)
    return cart if cart and cart["status"] in ("expiring", "expired") and cart["items"] else None


def _render_cart(request: Request, shop: Shop, *, error: SquinneyError | None = None) -> Response:
    cart = _open_cart(request, shop.carts)
    lines = cart["items"] if cart else []
    skus = [line["sku"] for line in lines]
    return render(
        request,
        "commerce/cart.html",
        cart=cart,
        expired=None if lines else _expired_cart(request, shop.carts),
        expires_after_minutes=CART_SECONDS // 60,
        total=total(lines),
        levels=valid_levels(shop.inventory, skus),
        pictures=shop.pictures.of(shop.catalog.get_many(skus)),
        key=new_id(),
        for_testing=isinstance(shop.carts.payments, TestGateway),
        pays_from_accounts=request.app.state.order_payments is not None,
        accounts=_accounts(request, cart),
        error=error,
    )


def _accounts(request: Request, cart: Cart | None) -> list[Any]:
    """Return the accounts from which the visitor can pay for the cart; none if the ledger is not served."""
    payments, customer = request.app.state.order_payments, _customer(request)
    if payments is None or cart is None or customer is None:
        return []
    return list(payments.accounts_of(customer, cart["currency"]))


@router.post("/cart/quantity", response_class=HTMLResponse)
def set_quantity(request: Request, shop: ShopDep, sku: Text, qty: Text, cart: Text = "") -> Response:
    """Set the quantity of a line; 0 removes the line."""
    try:
        shop.carts.set_quantity(_cart_id(request, shop.carts, cart), sku, whole_number(qty, "qty"))
    except SquinneyError as error:
        return _render_cart(request, shop, error=error)
    return RedirectResponse("/shop/cart", status_code=303)


@router.post("/cart/checkout", response_class=HTMLResponse)
def check_out(
    request: Request,
    systems: Annotated[Assembled, Depends(assembled)],
    shop: ShopDep,
    key: Text,
    card: Text = "",
    cart: Text = "",
) -> Response:
    """Check out the cart and show the order; with the test gateway, the visitor may choose a declined card."""
    try:
        order = _carts_for(systems, shop.carts, card).checkout(_cart_id(request, shop.carts, cart), key=key)
    except SquinneyError as error:
        return _render_cart(request, shop, error=error)
    return _to_order(order["_id"])


@router.post("/cart/pay", response_class=HTMLResponse, dependencies=[needs("member")])
def pay_from_account(request: Request, shop: ShopDep, key: Text, account_id: Text, cart: Text = "") -> Response:
    """Buy the cart with money from the visitor's own account and show the order; a form sent twice buys once."""
    payments, owner = request.app.state.order_payments, signed_in(request)["_id"]
    try:
        if payments is None:
            raise Invalid("account_id: this shop takes no money from accounts", field="account_id")
        order = payments.pay(_cart_id(request, shop.carts, cart), account_id, owner=owner, key=key)
    except SquinneyError as error:
        return _render_cart(request, shop, error=error)
    return _to_order(order["_id"])


def _to_order(order_id: str) -> Response:
    response = RedirectResponse(f"/shop/orders/{quote(order_id)}", status_code=303)
    response.delete_cookie(CART_COOKIE)
    return response


def _carts_for(systems: Assembled, carts: Carts, card: str) -> Carts:
    if card != "declined" or not isinstance(carts.payments, TestGateway):
        return carts
    return Carts(systems.db, payments=TestGateway(systems.db, "decline"), transactions=systems.transactions)


# ---- orders ----


@router.get("/orders", response_class=HTMLResponse, dependencies=[needs("member")])
def show_orders(request: Request, shop: ShopDep, cursor: Cursor = None) -> Response:
    """List the visitor's orders."""
    orders = shop.orders.by_customer(signed_in(request)["_id"], cursor=cursor, limit=25)
    page, damaged = without_damaged(orders, is_valid_order)
    return render(request, "commerce/orders.html", page=page, damaged=damaged, find=None)


@router.get("/orders/{order_id}", response_class=HTMLResponse)
def show_order(request: Request, shop: ShopDep, order_id: str) -> Response:
    """Show an order. A guest's order is shown to every visitor who knows its id, which is as long as a password."""
    return _render_order(request, shop, order_id)


def _render_order(request: Request, shop: Shop, order_id: str, *, error: SquinneyError | None = None) -> Response:
    order = shop.orders.get(order_id)
    own = order.get("customer") in (None, _customer(request))
    if not own and not may_act_as(visitor_of(request).role, "editor"):
        raise UnknownOrder(f"there is no order {order_id}", order_id=order_id)
    require_valid("order", order)
    payment = _payment_of(shop, order)
    return render(
        request,
        "commerce/order.html",
        order=order,
        own=own,
        is_mine=_customer(request) is not None and order.get("customer") == _customer(request),
        payment=payment,
        timeline=timeline(order, payment),
        is_new=utcnow() - order["placed_at"] < THANKED_FOR,
        customer_name=request.app.state.name_of(order["customer"]) if "customer" in order else "",
        error=error,
    )


def _payment_of(shop: Shop, order: Order) -> Payment | None:
    try:
        return shop.orders.payment_of(order)
    except UnknownPayment:  # the page of a damaged order can still be read
        return None


@router.post("/orders/{order_id}/cancel", response_class=HTMLResponse, dependencies=[needs("member")])
def cancel_order(request: Request, shop: ShopDep, order_id: str) -> Response:
    """Cancel an open order of the visitor; what was paid is refunded."""
    # guard: a member cancels only own orders
    if shop.orders.get(order_id).get("customer") != signed_in(request)["_id"]:
        raise UnknownOrder(f"there is no order {order_id}", order_id=order_id)
    try:
        shop.orders.cancel(order_id)
    except SquinneyError as error:
        return _render_order(request, shop, order_id, error=error)
    return redirect(request, f"/shop/orders/{quote(order_id)}", "The order was cancelled.")
