"""The shop's pages without a browser: what their forms do when they are sent twice."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.api.conftest import SECRET

from squinney import assembly
from squinney.clock import utcnow
from squinney.commerce import Carts, Catalog, FacetCache, TestGateway, demo
from squinney.errors import Unavailable
from squinney.http.visitor import SIGNED_IN, Visitor

SKU = "album-2"  # of which there is one


@pytest.fixture
def shop(site: TestClient, systems: assembly.Assembled) -> TestClient:
    demo(systems.db)
    site.headers["Accept"] = "text/html"
    site.follow_redirects = False
    return site


def add(shop: TestClient, key: str = "k") -> Any:
    return shop.post("/shop/cart/items", data={"sku": SKU, "key": key})


def carted(systems: assembly.Assembled) -> int:
    return int(systems.services["commerce"]["inventory"].level(SKU)["carted"])


def test_a_first_addition_sent_twice_is_one(shop: TestClient, systems: assembly.Assembled) -> None:
    """The second is sent before the first one's answer has brought the cookie."""
    first = add(shop)
    shop.cookies.delete("squinney-cart")
    second = add(shop)
    assert (first.status_code, second.status_code, carted(systems)) == (303, 303, 1)
    assert first.cookies["squinney-cart"] == second.cookies["squinney-cart"]


def test_the_same_page_serves_for_another_cart(shop: TestClient, systems: assembly.Assembled) -> None:
    """Once the first has come to its end."""
    first = add(shop).cookies["squinney-cart"]
    systems.services["commerce"]["carts"].abandon(first)
    second = add(shop)
    assert (second.status_code, second.cookies["squinney-cart"] != first, carted(systems)) == (303, True, 1)


def test_paying_twice_shows_the_order_twice(shop: TestClient) -> None:
    cart_id = add(shop).cookies["squinney-cart"]
    places = []
    for _ in range(2):
        shop.cookies.set("squinney-cart", cart_id)
        places.append(shop.post("/shop/cart/checkout", data={"key": "pay"}).headers.get("location"))
    assert places == [f"/shop/orders/{cart_id}"] * 2


def test_an_order_that_was_settled_later_is_shown(shop: TestClient, systems: assembly.Assembled) -> None:
    cart_id = add(shop).cookies["squinney-cart"]
    Carts(systems.db, payments=TestGateway(systems.db)).checkout(cart_id, key="elsewhere")
    found = shop.get("/shop/cart")
    assert (found.status_code, found.headers["location"]) == (303, f"/shop/orders/{cart_id}")
    assert "nothing in your cart" in shop.get("/shop/cart").text


def become(shop: TestClient, systems: assembly.Assembled, person_id: str) -> None:
    """From now on the browser is signed in as somebody."""
    token = SIGNED_IN + systems.services["identity"]["sessions"].start(
        systems.db["people"].find_one({"_id": person_id})
    )
    shop.cookies.set("squinney", token, domain="testserver.local")
    shop.headers["X-CSRF-Token"] = Visitor(SECRET, token).csrf


def test_a_cart_is_not_the_next_persons_at_the_same_browser(shop: TestClient, systems: assembly.Assembled) -> None:
    """Who pays for it would not be shown the order, which is the first one's."""
    ada = {"_id": "ada", "login": "ada", "name": "Ada", "role": "member", "created_at": utcnow()}
    systems.db["people"].insert_one(ada)
    cart_id = add(shop).cookies["squinney-cart"]
    become(shop, systems, "ada")
    assert "nothing in your cart" in shop.get("/shop/cart").text
    assert shop.post("/shop/cart/checkout", data={"key": "pay"}).status_code == 409
    assert shop.post("/shop/cart/quantity", data={"sku": SKU, "qty": "0"}).status_code == 409
    assert (systems.db["orders"].count_documents({}), carted(systems)) == (0, 1)
    become(shop, systems, "admin")
    paid = shop.post("/shop/cart/checkout", data={"key": "pay"})
    assert paid.headers["location"] == f"/shop/orders/{cart_id}"


def test_what_a_guest_filled_is_ordered_by_whom_they_sign_in_as(shop: TestClient, systems: assembly.Assembled) -> None:
    cart_id = systems.services["commerce"]["carts"].new()["_id"]
    systems.services["commerce"]["carts"].add_item(cart_id, SKU)
    shop.cookies.set("squinney-cart", cart_id, domain="testserver.local")
    shop.post("/shop/cart/checkout", data={"key": "pay"})
    assert f"/shop/orders/{cart_id}" in shop.get("/shop/orders").text


def test_a_hundred_and_more_categories_are_all_shown(shop: TestClient, systems: assembly.Assembled) -> None:
    systems.services["commerce"]["categories"].add_paths([[f"Shelf {number}"] for number in range(120)])
    assert "Shelf 119" in shop.get("/shop").text


def test_the_admin_sees_the_upper_levels_of_a_large_tree(shop: TestClient, systems: assembly.Assembled) -> None:
    paths = [[f"Shelf {number // 200}", f"Box {number}", "Inside"] for number in range(600)]
    systems.services["commerce"]["categories"].add_paths(paths)
    page = shop.get("/shop/admin").text
    assert page.count('draggable="true"') == 500
    assert f"{3 + 600 + 600 + 8 - 500} further down are not shown" in page
    assert "Inside" not in page


def test_a_quantity_needs_a_cart(shop: TestClient, systems: assembly.Assembled) -> None:
    refused = shop.post("/shop/cart/quantity", data={"sku": SKU, "qty": "1"})
    assert (refused.status_code, systems.db["carts"].count_documents({})) == (409, 0)


def test_a_member_finds_the_orders_again(shop: TestClient) -> None:
    assert "None yet." in shop.get("/shop/orders").text
    cart_id = add(shop).cookies["squinney-cart"]
    shop.post("/shop/cart/checkout", data={"key": "pay"})
    assert f"/shop/orders/{cart_id}" in shop.get("/shop/orders").text
    shop.cookies.delete("squinney")
    assert shop.get("/shop/orders").headers["location"] == "/sign-in?next=/shop/orders"


def test_a_line_can_be_removed(shop: TestClient, systems: assembly.Assembled) -> None:
    add(shop)
    assert 'name="qty" value="0"' in shop.get("/shop/cart").text
    shop.post("/shop/cart/quantity", data={"sku": SKU, "qty": "0"})
    assert carted(systems) == 0
    assert "nothing in your cart" in shop.get("/shop/cart").text


def test_a_shop_without_products_says_so(site: TestClient) -> None:
    page = {"Accept": "text/html"}
    assert "There are no products yet." in site.get("/shop", headers=page).text
    assert "Nothing matches." in site.get("/shop?words=acorn", headers=page).text
    assert "No product yet" in site.get("/shop/admin", headers=page).text
    assert "Nothing has been counted yet." in site.get("/analytics", headers=page).text


def test_the_admin_is_told_what_was_done(shop: TestClient) -> None:
    shop.follow_redirects = True
    assert f"5 of {SKU} booked." in shop.post("/shop/admin/stock", data={"sku": SKU, "units": "5", "key": "a"}).text
    assert "“jazz” is moved." in shop.post("/shop/admin/categories/move", data={"slug": "jazz", "parent": "films"}).text
    assert "is called “All that jazz” now" in (
        shop.post("/shop/admin/categories/rename", data={"slug": "jazz", "name": "All that jazz"}).text
    )


def test_products_are_shown_where_their_facets_cannot_be_counted(
    shop: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object, **__: object) -> None:
        raise Unavailable("MongoDB took too long to answer")

    monkeypatch.setattr(Catalog, "facets", away)
    monkeypatch.setattr(Catalog, "subtree_facets", away)
    for page in ("/shop", "/shop?genre=Jazz", "/shop?category=music", "/shop?words=blue"):
        shown = shop.get(page)
        assert (shown.status_code, "Blue Tuesday" in shown.text, "Not counted" in shown.text) == (200, True, True)


def test_a_broad_view_says_that_it_counted_only_so_many(shop: TestClient, systems: assembly.Assembled) -> None:
    services: Any = systems.services["commerce"]
    services["facets"] = FacetCache(services["catalog"], up_to=3, count_seconds=60)
    shown = shop.get("/shop")
    assert ("3+ products" in shown.text, "Thirteen Lines" in shown.text) == (True, True)


def test_what_is_sold_in_another_currency_can_be_bought(shop: TestClient, systems: assembly.Assembled) -> None:
    services = systems.services["commerce"]
    pricing = {"list": 900, "retail": 900, "currency": "USD"}
    details = {"ports": ["HDMI", "USB"], "smart": True}
    services["catalog"].add({"_id": "tv", "type": "TV", "title": "A set", "pricing": pricing, "details": details})
    services["inventory"].receive("tv", 5)
    shown = shop.get("/shop/products/tv").text
    assert ("Put into the cart" in shown, "<dd>HDMI, USB</dd>" in shown, "<dd>yes</dd>" in shown) == (True, True, True)
    cart_id = shop.post("/shop/cart/items", data={"sku": "tv", "key": "usd"}).cookies["squinney-cart"]
    assert (services["carts"].get(cart_id)["currency"], services["inventory"].level("tv")["carted"]) == ("USD", 1)
    other = shop.get(f"/shop/products/{SKU}").text
    assert ("Put into the cart" in other, "your cart is in USD" in other) == (False, True)
    assert add(shop, "eur").status_code == 409
    shop.post("/shop/cart/quantity", data={"sku": "tv", "qty": "0"})
    assert "Put into the cart" in shop.get(f"/shop/products/{SKU}").text
    assert services["carts"].get(add(shop, "eur 2").cookies["squinney-cart"])["currency"] == "EUR"
