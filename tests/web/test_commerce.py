"""Tests of the shop in a browser."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect


def test_a_visitor_buys_a_product(page: Page) -> None:
    page.goto("/shop")
    page.get_by_role("link", name="Music", exact=True).click()
    expect(page.get_by_role("navigation", name="Breadcrumb")).to_contain_text("Shop / Music")
    page.get_by_role("link", name="Jazz", exact=True).first.click()
    expect(page.get_by_role("navigation", name="Breadcrumb")).to_contain_text("Shop / Music / Jazz")
    page.goto("/shop")
    page.get_by_label("Search").fill("prairie")
    page.get_by_role("button", name="Find").click()
    expect(page.locator(".card")).to_have_count(3)
    page.get_by_role("link", name="Audio Album").click()
    page.get_by_role("link", name="Prairie Fire").click()
    expect(page.locator(".details")).to_contain_text("Dust & Thunder")
    page.get_by_label("Quantity").fill("2")
    page.get_by_role("button", name="Add to cart").click()
    expect(page.get_by_role("heading", name="Cart")).to_be_visible()
    page.get_by_label("Quantity of Prairie Fire").fill("3")
    page.get_by_role("button", name="Set").click()
    expect(page.locator(".figures dd")).to_have_text("35.97 EUR")
    page.get_by_label("Test card").select_option("declined")
    page.get_by_role("button", name="Pay now").click()
    expect(page.get_by_role("alert")).to_contain_text("set to decline")
    page.get_by_role("button", name="Pay now").click()
    expect(page.get_by_role("heading", name="Thank you")).to_be_visible()
    expect(page.locator("tbody")).to_contain_text("Prairie Fire")
    expect(page.get_by_role("status")).to_contain_text("placed")
    page.goto("/shop/cart")
    expect(page.locator("main")).to_contain_text("nothing in your cart")


def test_out_of_stock_is_shown_at_once(page: Page) -> None:
    page.goto("/shop/products/film-seeds-of-doubt")
    expect(page.get_by_role("status")).to_have_text("Out of stock")
    expect(page.get_by_role("button", name="Add to cart")).to_be_disabled()
    page.goto("/shop/products/lp-burrow-bop")
    other = page.context.new_page()
    other.goto("/shop/products/lp-burrow-bop")
    other.get_by_role("button", name="Add to cart").click()
    expect(other.get_by_role("heading", name="Cart")).to_be_visible()
    expect(page.get_by_role("status")).to_have_text("Out of stock")
    expect(page.get_by_role("button", name="Add to cart")).to_be_disabled()
    other.get_by_label("Quantity of Burrow Bop").fill("2")
    other.get_by_role("button", name="Set").click()
    expect(other.get_by_role("alert")).to_contain_text("none are available")
    other.get_by_label("Quantity of Burrow Bop").fill("0")
    other.get_by_role("button", name="Set").click()
    expect(page.get_by_role("status")).to_have_text("1 available")


def test_the_list_is_sorted(page: Page) -> None:
    page.goto("/shop?type=Film")
    page.get_by_label("Order").select_option("newest")
    page.get_by_role("button", name="Sort").click()
    expect(page.locator(".card h2").first).to_have_text("Shelf Life")


def test_a_category_shows_everything_below_it(page: Page) -> None:
    page.goto("/shop?category=music")
    expect(page.locator(".listing")).to_contain_text("48 products")
    page.get_by_role("link", name="Audio Album").click()
    expect(page.locator(".card")).to_have_count(24)
    page.get_by_label("Order").select_option("-price")
    page.get_by_role("button", name="Sort").click()
    expect(page.locator(".card h2").first).to_have_text("Sodium")
    expect(page.locator(".card")).to_have_count(24)


def test_pages_fit_on_a_phone(page: Page) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto("/shop/products/lp-blue-tuesday")
    page.get_by_role("button", name="Add to cart").click()
    sums = page.locator(".stack td[data-label=sum]")
    expect(sums).to_have_text("10.99 EUR")
    for path in ("/shop", "/shop/cart", "/shop/products/film-the-long-winter-sleep"):
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, path
    page.goto("/shop/cart")
    box = sums.bounding_box()
    assert box
    assert box["x"] + box["width"] <= 360


def test_an_editor_moves_a_category(admin: Page) -> None:
    page = admin
    page.goto("/shop/admin")
    form = page.locator("#move")
    form.get_by_label("Category").fill("noir")
    form.get_by_label("Under").fill("silent")
    form.get_by_role("button", name="Move").click()
    expect(page.locator("li[data-slug=silent] li[data-slug=noir]")).to_be_visible()
    page.locator("li[data-slug=noir] > .node").drag_to(page.locator("li[data-slug=films] > .node"))
    expect(page.locator("li[data-slug=films] > ul > li[data-slug=noir]")).to_be_visible()
    form.get_by_label("Category").fill("films")
    form.get_by_label("Under").fill("noir")
    form.get_by_role("button", name="Move").click()
    expect(page.get_by_role("alert")).to_contain_text(re.compile("under itself|cannot"))


def test_an_editor_adds_a_product_receives_it_and_cancels_its_order(admin: Page) -> None:
    page = admin
    page.goto("/shop/admin")
    page.set_viewport_size({"width": 390, "height": 844})
    page.get_by_role("link", name="Add a product").click()
    form = page.locator("form.panel").first
    for name, text in {"sku": "mug", "title": "Mug", "type": "Mug", "price": "12,5", "details": "colour: blue"}.items():
        form.locator(f"[name={name}]").fill(text)
    form.get_by_role("button", name="Add product").click()
    expect(page.get_by_role("alert")).to_contain_text("such as 12.50")
    page.locator("[name=price]").fill("12.50")
    page.get_by_role("button", name="Add product").click()
    page.get_by_label("Units").fill("3")
    page.get_by_label("Reason").fill("delivery 17")
    page.get_by_role("button", name="Change stock").click()
    expect(page.get_by_text("delivery 17")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_role("link", name="view in the shop").click()
    page.get_by_role("button", name="Add to cart").click()
    page.get_by_role("button", name="Pay now").click()
    page.goto("/shop/admin/orders")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_role("link", name="Mug").first.click()
    page.get_by_text("Cancel this order").click()
    page.get_by_role("button", name="Cancel and refund").click()
    expect(page.locator("main")).to_contain_text("the payment was refunded")
    page.goto("/shop/admin/products/edit?sku=mug")
    expect(page.locator(".figures dd").first).to_have_text("3")


def test_only_editors_see_the_admin_pages(stranger: Page) -> None:
    stranger.goto("/shop/admin")
    expect(stranger).to_have_url(re.compile("/sign-in"))
