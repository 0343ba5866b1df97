"""The shop's pages: browsing, the cart, checkout and orders. `/shop/admin` is in `web_admin.py`."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Depends, Form, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse
from starlette.responses import Response

from squinney.commerce import CartClosed, Carts, TestGateway, UnknownCart, UnknownOrder, breadcrumbs
from squinney.commerce.carts.documents import Cart
from squinney.commerce.carts.rules import total
from squinney.commerce.catalog.search import SORTS
from squinney.commerce.surface import web_admin
from squinney.commerce.surface.damage import is_category, is_order, is_product, require_whole, whole_levels
from squinney.commerce.surface.dependencies import Shop, ShopDep
from squinney.commerce.surface.wording import labelled, readable
from squinney.errors import Invalid, SquinneyError
from squinney.http.dependencies import assembled
from squinney.http.pages import render, without_damaged
from squinney.http.permissions import needs, signed_in
from squinney.http.visitor import visitor_of
from squinney.patterns.ids import new_id
from squinney.roles import may_act_as
from squinney.system import Assembled
from squinney.transactions import Key

router = APIRouter(prefix="/shop")
router.include_router(web_admin.router)
WRITES_NEED = "visitor"

Text = Annotated[str, Form(max_length=200)]
Word = Annotated[str, Query(max_length=200)]
Cursor = Annotated[str | None, Query(max_length=20_000)]

CART_COOKIE = "squinney-cart"
CART_SECONDS = 7 * 86_400
LIVING = ("active", "pending")
MOST_CHILDREN = 1_000
ORDERS = {
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
    """The tree, a search, facets, and a page of products."""
    chosen = {"category": category, "type": type, "genre": genre, "words": words}
    chosen = {name: value for name, value in chosen.items() if value}
    inside = shop.categories.get(category) if category else None
    listing: dict[str, Any] = {"page": None, "damaged": 0, "facets": {}, "error": None, "levels": {}}
    try:
        listing = _listing(shop, inside, chosen, sort, cursor)
    except SquinneyError as error:
        listing["error"] = error
    return render(
        request,
        "commerce/index.html",
        inside=inside,
        crumbs=breadcrumbs(inside) if inside else [],
        children=without_damaged(shop.categories.children(category or None, limit=MOST_CHILDREN), is_category)[0].items,
        chosen=chosen,
        sort=sort,
        sorts=ORDERS,
        link=_linker(chosen, sort),
        **listing,
    )


def _listing(shop: Shop, inside: Any, chosen: dict[str, str], sort: str, cursor: str | None) -> dict[str, Any]:
    """The products, then what is counted beside them: they are shown also where that cannot be had."""
    if inside and chosen.keys() <= {"category", "type"}:
        kind, wanted = chosen.get("type"), sort if sort in SORTS else "title"
        page = shop.catalog.subtree(inside["slug"], type=kind, sort=wanted, cursor=cursor, limit=24)
        facets = shop.facets.subtree_facets(inside["slug"], by=["type"], most=12, type=kind)
    else:
        filters = {**chosen, "category": inside["_id"]} if inside else chosen
        order = sort if sort in SORTS and "words" not in chosen else None
        page = shop.catalog.find(**filters, sort=order, cursor=cursor, limit=24)
        facets = shop.facets.facets(by=["type", "genre"], most=12, **filters)
    page, damaged = without_damaged(page, is_product)
    levels = whole_levels(shop.inventory, [product["_id"] for product in page.items])
    return {"page": page, "damaged": damaged, "facets": facets or {}, "levels": levels, "error": None}


def _linker(chosen: dict[str, str], sort: str) -> Any:
    """Makes links to the same list with something changed; an empty value leaves it out."""

    def link(**changes: str) -> str:
        wanted = {**chosen, "sort": sort, **changes}
        return "/shop?" + urlencode({name: value for name, value in wanted.items() if value})

    return link


@router.get("/products/{sku:path}", response_class=HTMLResponse)
def show_product(request: Request, shop: ShopDep, sku: str) -> Response:
    """One product, as its type has it."""
    return _product(request, shop, sku)


def _product(request: Request, shop: Shop, sku: str, *, error: SquinneyError | None = None) -> Response:
    require_whole("product", shop.catalog.get(sku))  # before what is stored in it is looked up
    product = shop.catalog.get_with_categories(sku)
    stock = whole_levels(shop.inventory, [sku]).get(sku)
    cart = _cart(request, shop.carts)
    trails = [breadcrumbs(category) for category in product["categories"] if is_category(category)]
    return render(
        request,
        "commerce/product.html",
        product=product,
        labelled=labelled(product.get("details", {})),
        available=stock["qty"] if stock else 0,
        other_currency=cart["currency"] if cart and not _takes(cart, product["pricing"]["currency"]) else None,
        readable=readable,
        trails=trails,
        key=new_id(),
        error=error,
    )


@router.get("/stock")
def live_stock(shop: ShopDep, sku: Annotated[list[str], Query(max_length=200)]) -> Response:
    """What is available of each SKU; the pages ask every few seconds."""
    levels = whole_levels(shop.inventory, sku)
    available = {one: levels[one]["qty"] if one in levels else 0 for one in sku}
    return JSONResponse(available, headers={"Cache-Control": "no-store"})


# ---- the cart ----


def _cart(request: Request, carts: Carts) -> Cart | None:
    """The visitor's cart, while it is theirs to change or to look at."""
    cart = _cart_of_browser(request, carts)
    return cart if cart and cart["status"] in LIVING else None


def _cart_of_browser(request: Request, carts: Carts) -> Cart | None:
    """The cart, whatever became of it, unless it belongs to somebody else who was signed in here."""
    cart = _found(carts, request.cookies.get(CART_COOKIE, ""))
    if not cart or cart.get("customer") not in (None, _customer(request)):
        return None
    require_whole("cart", cart)
    return cart


def _customer(request: Request) -> str | None:
    person = visitor_of(request).person
    return person["_id"] if person else None


def _found(carts: Carts, cart_id: str) -> Cart | None:
    try:
        return carts.get(cart_id or "none")
    except (UnknownCart, Invalid):
        return None


def _takes(cart: Cart, currency: str) -> bool:
    """Whether what is sold in this currency may go into the cart; in the place of an empty one there can be another."""
    return cart["currency"] == currency or not cart["items"]


def _own_cart(request: Request, carts: Carts, currency: str, key: str) -> Cart:
    """The visitor's cart, or a new one in the currency that is needed: the same for a form that is sent twice before
    its answer brings the cookie."""
    cart = _cart(request, carts)
    if cart is not None and (cart["items"] or cart["currency"] == currency):
        return _claimed(request, carts, cart)
    wanted: dict[str, Any] = {"customer": _customer(request), "currency": currency}
    first = _found(carts, carts.new(**wanted, key=Key(key, f"web:{visitor_of(request).csrf}"))["_id"])
    return first if first and first["status"] in LIVING else carts.new(**wanted)


def _claimed(request: Request, carts: Carts, cart: Cart) -> Cart:
    """The cart, which is the visitor's own once they have signed in: they find its order again then."""
    customer = _customer(request)
    return carts.claim(cart["_id"], customer) if customer and "customer" not in cart else cart


def _keep_cart(request: Request, response: Response, cart_id: str) -> Response:
    secure = request.url.scheme == "https"
    response.set_cookie(CART_COOKIE, cart_id, max_age=CART_SECONDS, httponly=True, samesite="lax", secure=secure)
    return response


@router.post("/cart/items", response_class=HTMLResponse)
def add_item(request: Request, shop: ShopDep, sku: Text, key: Text, qty: Text = "1") -> Response:
    """Reserve a product, and show the cart; a form sent twice adds once."""
    try:
        product = shop.catalog.get(sku)
        require_whole("product", product)
        cart = _own_cart(request, shop.carts, product["pricing"]["currency"], key)
        shop.carts.add_item(cart["_id"], sku, _quantity(qty), key=Key(key, f"web:{cart['_id']}"))
    except SquinneyError as error:
        return _product(request, shop, sku, error=error)
    return _keep_cart(request, RedirectResponse("/shop/cart", status_code=303), cart["_id"])


def _quantity(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 8 else -1


def _cart_id(request: Request, carts: Carts) -> str:
    """The cart's id, whatever became of it: a checkout that is sent again finds its order by it."""
    if cart := _cart_of_browser(request, carts):
        return _claimed(request, carts, cart)["_id"]
    raise CartClosed("the cart is empty, or was given up")


@router.get("/cart", response_class=HTMLResponse)
def show_cart(request: Request, shop: ShopDep) -> Response:
    """The cart with live stock, or the order that was made of it after the visitor had stopped waiting."""
    cart = _cart_of_browser(request, shop.carts)
    return _to_order(cart["_id"]) if cart and cart["status"] == "complete" else _show_cart(request, shop)


def _show_cart(request: Request, shop: Shop, *, error: SquinneyError | None = None) -> Response:
    cart = _cart(request, shop.carts)
    lines = cart["items"] if cart else []
    return render(
        request,
        "commerce/cart.html",
        cart=cart,
        total=total(lines),
        levels=whole_levels(shop.inventory, [line["sku"] for line in lines]),
        key=new_id(),
        for_testing=isinstance(shop.carts.payments, TestGateway),
        error=error,
    )


@router.post("/cart/quantity", response_class=HTMLResponse)
def set_quantity(request: Request, shop: ShopDep, sku: Text, qty: Text) -> Response:
    """Change a line; 0 removes it."""
    try:
        shop.carts.set_quantity(_cart_id(request, shop.carts), sku, _quantity(qty))
    except SquinneyError as error:
        return _show_cart(request, shop, error=error)
    return RedirectResponse("/shop/cart", status_code=303)


@router.post("/cart/checkout", response_class=HTMLResponse)
def check_out(
    request: Request, systems: Annotated[Assembled, Depends(assembled)], shop: ShopDep, key: Text, card: Text = ""
) -> Response:
    """Pay, and show the order; with the test gateway one may choose to be declined."""
    try:
        order = _payer(systems, shop.carts, card).checkout(_cart_id(request, shop.carts), key=key)
    except SquinneyError as error:
        return _show_cart(request, shop, error=error)
    return _to_order(order["_id"])


def _to_order(order_id: str) -> Response:
    response = RedirectResponse(f"/shop/orders/{quote(order_id)}", status_code=303)
    response.delete_cookie(CART_COOKIE)
    return response


def _payer(systems: Assembled, carts: Carts, card: str) -> Carts:
    if card != "declined" or not isinstance(carts.payments, TestGateway):
        return carts
    return Carts(systems.db, payments=TestGateway(systems.db, "decline"), transactions=systems.transactions)


# ---- orders ----


@router.get("/orders", response_class=HTMLResponse, dependencies=[needs("member")])
def show_orders(request: Request, shop: ShopDep, cursor: Cursor = None) -> Response:
    """The visitor's own orders."""
    page, damaged = without_damaged(
        shop.orders.by_customer(signed_in(request)["_id"], cursor=cursor, limit=25), is_order
    )
    return render(request, "commerce/orders.html", page=page, damaged=damaged, find=None)


@router.get("/orders/{order_id}", response_class=HTMLResponse)
def show_order(request: Request, shop: ShopDep, order_id: str) -> Response:
    """An order. Whoever knows a guest's order id may look: it is as long as a password."""
    order = shop.orders.get(order_id)
    strangers = order.get("customer") not in (None, _customer(request))
    if strangers and not may_act_as(visitor_of(request).role, "editor"):
        raise UnknownOrder(f"there is no order {order_id}", order_id=order_id)
    require_whole("order", order)
    return render(request, "commerce/order.html", order=order, own=not strangers)
