"""Tests of the shop's pages without a browser."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from PIL import Image
from starlette.testclient import TestClient
from tests.api.conftest import SECRET

from squinney import assembly
from squinney.clock import utcnow
from squinney.commerce import Carts, Catalog, FacetCache, TestGateway, demo
from squinney.errors import Unavailable
from squinney.http.access.visitor import SIGNED_IN, Visitor

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
    """The second form is sent before the first response sets the cookie."""
    first = add(shop)
    shop.cookies.delete("squinney-cart")
    second = add(shop)
    assert (first.status_code, second.status_code, carted(systems)) == (303, 303, 1)
    assert first.cookies["squinney-cart"] == second.cookies["squinney-cart"]


def test_every_page_shows_how_much_is_in_the_cart(
    shop: TestClient, systems: assembly.Assembled, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert 'class="cart"' not in shop.get("/").text
    cart_id = add(shop).cookies["squinney-cart"]
    assert 'Cart <span class="count">1</span>' in shop.get("/").text
    with monkeypatch.context() as patched:
        patched.setattr(Carts, "get", lambda *_: (_ for _ in ()).throw(Unavailable("too slow")))
        assert shop.get("/").status_code == 200
    shop.cookies.clear()
    shop.cookies.set("squinney-cart", cart_id)
    systems.db["commerce.carts"].update_one({"_id": cart_id}, {"$set": {"customer": "somebody else"}})
    assert 'class="cart"' not in shop.get("/").text


def test_a_product_page_can_be_used_for_a_second_cart(shop: TestClient, systems: assembly.Assembled) -> None:
    """After the first cart has expired."""
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
    """Sign the browser in as this person."""
    token = SIGNED_IN + systems.services["identity"]["sessions"].start(
        systems.db["identity.people"].find_one({"_id": person_id})
    )
    shop.cookies.set("squinney", token, domain="testserver.local")
    shop.headers["X-CSRF-Token"] = Visitor(SECRET, token).csrf


def test_a_cart_is_hidden_from_the_next_user_of_the_browser(shop: TestClient, systems: assembly.Assembled) -> None:
    """Otherwise the next user would pay for an order that only the first user can see."""
    ada = {"_id": "ada", "login": "ada", "name": "Ada", "role": "member", "created_at": utcnow()}
    systems.db["identity.people"].insert_one(ada)
    cart_id = add(shop).cookies["squinney-cart"]
    become(shop, systems, "ada")
    assert "nothing in your cart" in shop.get("/shop/cart").text
    assert shop.post("/shop/cart/checkout", data={"key": "pay"}).status_code == 409
    assert shop.post("/shop/cart/quantity", data={"sku": SKU, "qty": "0"}).status_code == 409
    assert (systems.db["commerce.orders"].count_documents({}), carted(systems)) == (0, 1)
    become(shop, systems, "admin")
    paid = shop.post("/shop/cart/checkout", data={"key": "pay"})
    assert paid.headers["location"] == f"/shop/orders/{cart_id}"


def test_a_member_finds_the_cart_in_another_browser(shop: TestClient, systems: assembly.Assembled) -> None:
    cart_id = add(shop).cookies["squinney-cart"]
    shop.cookies.delete("squinney-cart")
    page = shop.get("/shop/cart").text
    assert f'name="cart" value="{cart_id}"' in page
    assert 'Cart <span class="count">1</span>' in page
    assert shop.post("/shop/cart/quantity", data={"sku": SKU, "qty": "1", "cart": cart_id}).status_code == 303
    assert add(shop, "again").status_code == 409  # there is one, and it is in this cart
    paid = shop.post("/shop/cart/checkout", data={"key": "pay", "cart": cart_id})
    assert paid.headers["location"] == f"/shop/orders/{cart_id}"
    assert "nothing in your cart" in shop.get("/shop/cart").text


def test_a_form_changes_no_cart_of_somebody_else(shop: TestClient, systems: assembly.Assembled) -> None:
    cart_id = add(shop).cookies["squinney-cart"]
    shop.cookies.delete("squinney-cart")
    ada = {"_id": "ada", "login": "ada", "name": "Ada", "role": "member", "created_at": utcnow()}
    systems.db["identity.people"].insert_one(ada)
    become(shop, systems, "ada")
    for act, form in (("quantity", {"sku": SKU, "qty": "0"}), ("checkout", {"key": "pay"})):
        assert shop.post(f"/shop/cart/{act}", data={**form, "cart": cart_id}).status_code == 409
    shop.cookies.delete("squinney")
    shop.headers.pop("X-CSRF-Token")
    guest = systems.services["commerce"]["carts"].new()["_id"]
    assert "nothing in your cart" in shop.get("/shop/cart").text
    shop.headers["X-CSRF-Token"] = csrf_of(shop)
    assert shop.post("/shop/cart/quantity", data={"sku": SKU, "qty": "0", "cart": guest}).status_code == 409
    assert carted(systems) == 1


def csrf_of(shop: TestClient) -> str:
    """Return the token of a form that is shown to this browser."""
    return re.findall(r'name="csrf" value="([^"]+)"', shop.get("/shop/products/film-1").text)[0]


def test_a_form_of_an_old_page_does_not_pay_for_another_cart(shop: TestClient, systems: assembly.Assembled) -> None:
    first = add(shop).cookies["squinney-cart"]
    shop.post("/shop/cart/checkout", data={"key": "pay", "cart": first})
    second = shop.post("/shop/cart/items", data={"sku": "film-1", "key": "k2"}).cookies["squinney-cart"]
    shop.cookies.delete("squinney-cart")
    again = shop.post("/shop/cart/checkout", data={"key": "pay", "cart": first})
    assert again.headers["location"] == f"/shop/orders/{first}"
    assert shop.post("/shop/cart/checkout", data={"key": "pay"}).status_code == 409
    assert systems.services["commerce"]["carts"].get(second)["status"] == "active"


def test_an_expired_cart_says_what_became_of_its_goods(shop: TestClient, systems: assembly.Assembled) -> None:
    systems.services["commerce"]["carts"].abandon(add(shop).cookies["squinney-cart"])
    page = shop.get("/shop/cart").text
    assert "did not change for 30 minutes" in page
    assert f'href="/shop/products/{SKU}"' in page
    assert shop.post("/shop/cart/items", data={"sku": "film-1", "key": "k2"}).status_code == 303
    assert "did not change for" not in shop.get("/shop/cart").text


def test_a_guests_cart_is_ordered_by_the_user_they_sign_in_as(shop: TestClient, systems: assembly.Assembled) -> None:
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
    assert f"{3 + 600 + 600 + 8 - 500} categories of deeper levels are not shown" in page
    assert "Inside" not in page


def test_a_quantity_needs_a_cart(shop: TestClient, systems: assembly.Assembled) -> None:
    refused = shop.post("/shop/cart/quantity", data={"sku": SKU, "qty": "1"})
    assert (refused.status_code, systems.db["commerce.carts"].count_documents({})) == (409, 0)


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


def test_the_admin_page_reports_what_was_done(shop: TestClient) -> None:
    shop.follow_redirects = True
    changed = shop.post("/shop/admin/stock", data={"sku": SKU, "units": "5", "key": "a"})
    assert f"The stock of {SKU} changed by 5." in changed.text
    moved = shop.post("/shop/admin/categories/move", data={"slug": "jazz", "parent": "films"})
    assert "“jazz” was moved." in moved.text
    assert "was renamed to “All that jazz”" in (
        shop.post("/shop/admin/categories/rename", data={"slug": "jazz", "name": "All that jazz"}).text
    )


def test_a_category_is_not_moved_to_an_invalid_position(shop: TestClient, systems: assembly.Assembled) -> None:
    data = {"slug": "jazz", "parent": "films", "position": "first"}
    refused = shop.post("/shop/admin/categories/move", data=data)
    assert (refused.status_code, "position must be a whole number" in refused.text) == (422, True)
    assert systems.services["commerce"]["categories"].get("jazz")["ancestors"][0]["slug"] == "music"


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


def test_a_bounded_count_is_shown_with_a_plus_sign(shop: TestClient, systems: assembly.Assembled) -> None:
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
    assert ("Add to cart" in shown, "<dd>HDMI, USB</dd>" in shown, "<dd>yes</dd>" in shown) == (True, True, True)
    cart_id = shop.post("/shop/cart/items", data={"sku": "tv", "key": "usd"}).cookies["squinney-cart"]
    assert (services["carts"].get(cart_id)["currency"], services["inventory"].level("tv")["carted"]) == ("USD", 1)
    other = shop.get(f"/shop/products/{SKU}").text
    assert ("Add to cart" in other, "your cart is in USD" in other) == (False, True)
    assert add(shop, "eur").status_code == 409
    shop.post("/shop/cart/quantity", data={"sku": "tv", "qty": "0"})
    assert "Add to cart" in shop.get(f"/shop/products/{SKU}").text
    assert services["carts"].get(add(shop, "eur 2").cookies["squinney-cart"])["currency"] == "EUR"


def test_a_product_is_added_and_changed_by_the_form(shop: TestClient, systems: assembly.Assembled) -> None:
    catalog = systems.services["commerce"]["catalog"]
    typed = {
        "sku": "lp/1",
        "type": "Audio Album",
        "title": "New one",
        "price": "1,012.50",
        "list_price": "1500",
        "currency": "EUR",
        "categories": "jazz, bebop",
        "details": 'artist: Nell\ngenre: ["Jazz"]\nissue_date: 1961-03-02',
        "properties": 'Format: Vinyl\nSides: 2\n"Cat: No": "007"',
    }
    for _ in range(2):  # sent twice, it is added once
        added = shop.post("/shop/admin/products/new", data={**typed, "key": "n"})
        assert (added.status_code, added.headers["location"]) == (303, "/shop/admin/products/edit?sku=lp%2F1")
    stored = catalog.get("lp/1")
    assert (stored["pricing"]["retail"], stored["pricing"]["list"], stored["details"]["issue_date"].year) == (
        101_250,
        150_000,
        1961,
    )
    assert {(pair["n"], pair["v"]) for pair in stored["properties"]} == {
        ("Format", "Vinyl"),
        ("Sides", 2),
        ("Cat: No", "007"),
    }
    asin = catalog.patch("lp/1", {"asin": "B1"})["version"]
    page = shop.get(added.headers["location"]).text
    assert ('value="1,012.50"' in page, 'value="jazz, bebop"' in page) == (True, True)
    changed = shop.post(
        added.headers["location"], data={**typed, "title": "Renamed", "list_price": "", "version": str(asin)}
    )
    assert changed.status_code == 303
    after = catalog.get("lp/1")
    assert (after["title"], after["asin"], after["pricing"]["savings"]) == ("Renamed", "B1", 0)
    assert (after["details"], after["properties"]) == (stored["details"], stored["properties"])


def test_a_product_form_reports_that_another_user_changed_the_product(
    shop: TestClient, systems: assembly.Assembled
) -> None:
    catalog = systems.services["commerce"]["catalog"]
    version = catalog.get("album-0")["version"]
    catalog.patch("album-0", {"title": "Theirs"})
    typed = {"type": "Audio Album", "title": "Mine", "price": "1", "currency": "EUR", "version": str(version)}
    shown = shop.post("/shop/admin/products/edit?sku=album-0", data=typed)
    assert (shown.status_code, "another user has changed this product" in shown.text) == (409, True)
    assert (catalog.get("album-0")["title"], 'value="Mine"' in shown.text) == ("Theirs", True)


def test_a_product_that_cannot_be_stored_keeps_what_was_typed(shop: TestClient, systems: assembly.Assembled) -> None:
    typed = {"sku": "x", "type": "Thing", "title": "Kept", "price": "12.50", "currency": "EUR", "key": "k"}
    for wrong, message in [
        ({"price": "12,50"}, "price must be an amount"),
        ({"details": "no colon"}, "a name, a colon and a value"),
        ({"details": "a: 1\na: 2"}, "two lines for a"),
        ({"categories": "nowhere"}, "nowhere"),
        ({"sku": "album-0"}, "product album-0 exists already"),
    ]:
        shown = shop.post("/shop/admin/products/new", data={**typed, **wrong})
        assert (shown.status_code in (404, 409, 422), message in shown.text, 'value="Kept"' in shown.text) == (
            True,
            True,
            True,
        ), wrong
    assert systems.db["commerce.products"].find_one({"_id": "x"}) is None


def test_a_product_is_removed_unless_it_is_in_a_cart(shop: TestClient, systems: assembly.Assembled) -> None:
    add(shop)
    refused = shop.post("/shop/admin/products/remove", data={"sku": SKU})
    assert (refused.status_code, systems.db["commerce.products"].count_documents({"_id": SKU})) == (409, 1)
    assert shop.post("/shop/admin/products/remove", data={"sku": "film-0"}).headers["location"] == "/shop/admin"
    assert systems.db["commerce.products"].count_documents({"_id": "film-0"}) == 0


def test_an_editor_finds_products_and_returns_to_the_same_page(shop: TestClient) -> None:
    assert "Blue Tuesday" not in shop.get("/shop/admin?words=prairie").text
    assert "Blue Tuesday" in shop.get("/shop/admin?words=album-0").text  # by its SKU
    booked = {"sku": SKU, "units": "5", "reason": "found behind the shelf", "key": "a"}
    for page, back in [
        ("/shop/admin?words=prairie", "/shop/admin?words=prairie"),
        (f"/shop/admin/products/edit?sku={SKU}", f"/shop/admin/products/edit?sku={SKU}"),
        ("/shop/admin/stock", "/shop/admin"),  # a form that was refused stands there, and it is no page
    ]:
        done = shop.post("/shop/admin/stock", data=booked, headers={"Referer": f"http://testserver{page}"})
        assert done.headers["location"] == back
    assert "found behind the shelf" in shop.get(f"/shop/admin/products/edit?sku={SKU}").text


def test_an_editor_finds_orders_and_cancels_one(shop: TestClient, systems: assembly.Assembled) -> None:
    cart_id = add(shop).cookies["squinney-cart"]
    shop.post("/shop/cart/checkout", data={"key": "pay"})
    orders = systems.services["commerce"]["orders"]
    other = orders.place([{"sku": "x", "title": "By telephone", "price": 5, "qty": 1}], customer="ada")["_id"]
    everything = shop.get("/shop/admin/orders").text
    assert ("Burrow Bop" in everything, "By telephone" in everything) == (True, True)
    assert shop.get(f"/shop/admin/orders?find={cart_id}").headers["location"] == f"/shop/orders/{cart_id}"
    hers = shop.get("/shop/admin/orders?find=ada").text
    assert ("Burrow Bop" in hers, "By telephone" in hers) == (False, True)
    assert "Neither an order nor a customer" in shop.get("/shop/admin/orders?find=nobody").text
    assert "Thank you" not in shop.get(f"/shop/orders/{other}").text  # it is not the shopkeeper who bought
    assert "8.99 EUR will be refunded to the customer" in shop.get(f"/shop/orders/{cart_id}").text
    page = {"Referer": f"http://testserver/shop/orders/{cart_id}"}
    done = shop.post("/shop/admin/orders/cancel", data={"order_id": cart_id}, headers=page)
    assert done.headers["location"] == f"/shop/orders/{cart_id}"
    cancelled = shop.get(f"/shop/orders/{cart_id}").text
    assert ("the payment was refunded" in cancelled, "Cancel and refund" in cancelled) == (True, False)
    shop.cookies.delete("squinney")
    assert "Cancel this order" not in shop.get(f"/shop/orders/{other}").text


def test_an_editor_adds_and_removes_a_picture(shop: TestClient, systems: assembly.Assembled) -> None:
    file = io.BytesIO()
    Image.new("RGB", (700, 700), "teal").save(file, "PNG")
    sent = shop.post(
        "/shop/admin/pictures", data={"sku": SKU, "alt": "A cover"}, files={"picture": ("a.png", file.getvalue())}
    )
    assert (sent.status_code, sent.headers["location"]) == (303, f"/shop/admin/products/edit?sku={SKU}")
    page = shop.get(f"/shop/products/{SKU}").text
    (url,) = set(re.findall(r'src="(/shop/pictures/[^"]+)"', page))
    assert 'alt="A cover"' in page
    assert "640w" in page
    picture = TestClient(shop.app).get(url.replace("&amp;", "&"))  # without a session
    assert (picture.headers["content-type"], "immutable" in picture.headers["cache-control"]) == ("image/webp", True)
    assert "sandbox" in picture.headers["content-security-policy"]
    assert url.partition("&")[0] in shop.get("/shop").text
    add(shop)
    assert url.partition("&")[0] in shop.get("/shop/cart").text

    refused = shop.post("/shop/admin/pictures", data={"sku": SKU}, files={"picture": ("a.txt", b"no picture")})
    assert "must be a JPEG" in shop.get(refused.headers["location"]).text
    picture_id = url.split("/")[3].partition("?")[0]
    for _ in range(2):
        assert shop.post("/shop/admin/pictures/remove", data={"sku": SKU, "picture": picture_id}).status_code == 303
    assert "there is no such picture" in shop.get(f"/shop/admin/products/edit?sku={SKU}").text
    assert shop.get(url.replace("&amp;", "&")).status_code == 404
