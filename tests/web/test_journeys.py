"""What a newcomer does in the town, in a few minutes, trying the site as its people. Each journey crosses systems.

Half of the days they run on a desktop, and the other half on a phone; `make prove` runs both.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.serving import Serving
from tests.sizes import todays
from tests.systems.content.pictures import jpeg
from tests.web.conftest import PATIENCE_MS

SCREENS = {"desktop": (1280, 900), "phone": (390, 800)}
WAYS_TO_THE_PARTS = {
    "great wick": ["n", "n", "e", "e", "take great wick"],
    "great lens": ["w", "w", "n", "w", "take great lens from padded crate"],
    "can of lamp oil": ["e", "s", "s", "s", "w", "w", "w", "d", "take can of lamp oil", "u", "u", "u"],
}
VIEWS = "/analytics/hits?site=squinney&page=/shop/products/lp-salt-machine"
TryAs = Callable[[str], Page]


@pytest.fixture(params=todays(list(SCREENS), of=2))
def try_as(request: pytest.FixtureRequest, browser: Browser, serving: Serving) -> Iterator[TryAs]:
    """Return a function that opens a browser and tries the site as somebody. Pages must fit and raise no error."""
    width, height = SCREENS[request.param]
    errors: list[str] = []
    contexts = []

    def open_as(label: str) -> Page:
        context = browser.new_context(base_url=serving.url, viewport={"width": width, "height": height})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto("/sign-in")
        page.locator("main").get_by_role("button", name=label).click()
        expect(page.get_by_text("You are trying the site as")).to_be_visible()
        return page

    yield open_as
    wide = [page.url for context in contexts for page in context.pages if not _fits(page)]
    for context in contexts:
        context.close()
    assert errors == []
    assert wide == []


def _fits(page: Page) -> Any:
    return page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def _money(text: str) -> int:
    return int(re.sub(r"\D", "", text))


def _total(page: Page) -> int:
    return _money(page.locator(".figures dd").first.inner_text())


def _reload_until(page: Page, address: str, shows: Callable[[Page], bool]) -> None:
    """Open an address again and again until it shows what another system causes a moment later."""
    until = time.monotonic() + PATIENCE_MS / 1_000
    page.goto(address)
    while not shows(page):
        assert time.monotonic() < until, f"{address} does not show it"
        page.wait_for_timeout(300)
        page.goto(address)


def test_an_order_is_paid_from_an_account_and_counted(try_as: TryAs, stranger: Page) -> None:
    page = try_as("Ada, member")
    stranger.goto(VIEWS)
    views = _total(stranger)
    page.goto("/ledger")
    before = _total(page)
    page.goto("/shop/products/lp-salt-machine")
    page.get_by_role("button", name="Add to cart").click()
    price = _total(page)
    page.get_by_role("button", name=re.compile("from my account")).click()
    expect(page.get_by_role("heading", name="Thank you")).to_be_visible()
    for happened in ("goods reserved", "paid from an account", "placed"):
        expect(page.locator(".timeline")).to_contain_text(happened)
    order = page.url
    page.get_by_role("link", name=re.compile("the line of the statement")).click()
    line = page.locator("tr:target")
    expect(line).to_contain_text("Record and film shop")
    assert _total(page) == before - price
    line.get_by_role("link", name=re.compile("^order ")).click()
    expect(page).to_have_url(order)
    # The shop has the other half of the transfer, and the chart the view of the page.
    stranger.goto("/ledger")
    expect(stranger.locator("tbody tr").first).to_contain_text(f"order {order.rpartition('/')[2][:8]}")
    _reload_until(stranger, VIEWS, lambda shown: _total(shown) > views)
    page.get_by_text("Cancel this order").click()
    page.get_by_role("button", name="Cancel and refund").click()
    expect(page.get_by_role("link", name=re.compile("^Refunded"))).to_be_visible()
    page.goto("/ledger")
    assert _total(page) == before


def test_an_entry_with_a_picture_and_a_product_is_commented_by_another(try_as: TryAs, tmp_path: Path) -> None:
    photo, slug = tmp_path / "boat.jpg", f"p{secrets.token_hex(4)}"
    photo.write_bytes(jpeg("blue", (300, 200)))
    editor = try_as("June, editor")
    editor.goto("/site/magazine")
    editor.get_by_role("link", name="New entry").click()
    editor.get_by_label("Title", exact=True).fill("A boat")
    editor.get_by_label("Address").fill(slug)
    editor.get_by_label("Insert a picture").set_input_files(photo)
    expect(editor.get_by_text("boat.jpg is in the text.")).to_be_visible()
    text = editor.get_by_label("Text")
    text.press("Control+End")
    text.press_sequentially("Listen to [Phosphor](/shop/products/lp-phosphor).")
    expect(editor.locator("#preview img")).to_be_visible()
    editor.get_by_label("Publish").select_option("now")
    editor.get_by_role("button", name="Create").click()
    editor.wait_for_url(f"**/{slug}")

    page = try_as("Ada, member")
    page.goto(f"/site/magazine/{slug}")
    assert page.locator(".prose img").evaluate("image => image.decode().then(() => image.naturalWidth)") == 300
    page.get_by_label("Your comment").fill("Which boat?")
    page.get_by_role("button", name="Post comment").click()
    expect(page.locator(".comment")).to_contain_text("Which boat?")
    page.get_by_role("list", name="Products in this text").get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Phosphor")
    page.goto("/site/-/new")
    expect(page.get_by_text("you may not write here")).to_be_visible()
    editor.reload()
    expect(editor.locator(".comment")).to_contain_text("Which boat?")


def test_an_ad_is_paid_reviewed_served_and_booked(try_as: TryAs) -> None:
    name = f"ada:{secrets.token_hex(4)}"
    page = try_as("Ada, member")
    page.goto("/ads")
    for label, value in (
        ("Name", name),
        ("Advertiser", "Ada's looms"),
        ("Bid in EUR", "500"),  # higher than all others
        ("Budget in EUR", "50"),
    ):
        page.get_by_label(label).first.fill(value)
    page.get_by_role("button", name="Create campaign").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(name)
    page.get_by_label("Amount in EUR").fill("50")
    page.get_by_role("button", name="Fund campaign").click()
    expect(page.get_by_text("The campaign is funded.")).to_be_visible()
    for label, value in (("Zone", "site"), ("Unit", f"{name}/1"), ("Title", name), ("URL", "/shop")):
        page.get_by_label(label, exact=label in ("Zone", "Title")).fill(value)
    page.get_by_role("button", name="Put ad into zone").click()
    expect(page.get_by_text("The ad was put into the zone.")).to_be_visible()

    editor = try_as("June, editor")
    editor.goto("/site")
    expect(editor.get_by_role("link", name=name)).to_have_count(0)
    editor.goto("/ads/review")
    editor.get_by_role("button", name=f"Approve {name}/1", exact=True).click()
    expect(editor.get_by_text("The ad is approved.")).to_be_visible()
    with editor.expect_response("**/ads/viewable/*"):
        _reload_until(editor, "/site", lambda shown: shown.get_by_role("link", name=name).count() == 1)
        editor.get_by_role("link", name=name).scroll_into_view_if_needed()
    link = editor.get_by_role("link", name=name)
    target = link.get_attribute("href")
    assert target
    link.click()
    expect(editor.get_by_role("heading", name="Shop", exact=True)).to_be_visible()
    editor.goto(target)  # a second time, as from the browser's history

    page.goto("/ledger")
    page.get_by_role("link", name="The whole statement").click()
    expect(page.locator("tbody tr").first).to_contain_text("-50.00 EUR")
    page.locator("tbody tr").first.get_by_role("link").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(name)
    for figure, value in (("impressions", "1"), ("viewable", "100%"), ("clicks", "1")):
        expect(page.locator(f".figures div:has(dt:text-is('{figure}')) dd")).to_have_text(value)
    page.get_by_role("button", name="Pause campaign").click()
    expect(page.get_by_role("button", name="Resume campaign")).to_be_visible()


def test_a_post_to_a_circle_arrives_and_is_gone_again(try_as: TryAs) -> None:
    page, other = try_as("June, editor"), try_as("Ada, member")
    circle, text = f"Tea {secrets.token_hex(2)}", f"The kettle is on {secrets.token_hex(4)}"
    page.goto("/social/people/ada-brandt")
    page.get_by_label("Circle for Ada Brandt").fill(circle)
    page.get_by_role("button", name=re.compile("Follow|Add")).first.click()
    expect(page.get_by_role("button", name=f"Take Ada Brandt out of {circle}")).to_be_visible()
    other.goto("/social")
    page.goto("/social")
    page.get_by_label("What is new?").fill(text)
    page.get_by_label("For").select_option(circle)
    page.get_by_role("button", name="Post").click()
    expect(other.get_by_text(text)).to_be_visible()
    other.get_by_placeholder("Write a comment").first.fill("On my way")
    other.get_by_role("button", name="Comment").first.click()
    page.goto("/social/notices")
    expect(page.get_by_text("On my way").first).to_be_visible()
    page.goto("/social/people/ada-brandt")
    page.get_by_role("button", name=f"Take Ada Brandt out of {circle}").click()
    expect(other.get_by_text(text)).to_be_hidden()


def test_following_somebody_brings_what_they_wrote_before(try_as: TryAs) -> None:
    page = try_as("Lena, admin")
    page.goto("/social/people/ivan-petrov")
    written = page.locator(".posts .said").first.inner_text()
    page.get_by_label("Circle for Ivan Petrov").fill("Bees")
    page.get_by_role("button", name="Follow").click()
    _reload_until(page, "/social", lambda shown: shown.locator(".posts").get_by_text(written).count() == 1)
    page.goto("/social/people/ivan-petrov")
    page.get_by_role("button", name="Take Ivan Petrov out of Bees").click()
    expect(page.get_by_role("button", name="Follow")).to_be_visible()
    page.goto("/social")
    expect(page.locator(".posts").get_by_text(written)).to_have_count(0)


@pytest.mark.parametrize("try_as", todays(list(SCREENS), of=2)[:1], indirect=True)  # there is one lens
def test_the_lighthouse_is_lit_again(try_as: TryAs) -> None:
    page = try_as("Ada, member")
    page.goto("/game")
    page.get_by_label("Name").fill(f"Ada {secrets.token_hex(3)}")
    page.get_by_role("button", name="Begin").click()
    line = page.get_by_label("Type a command")
    walk = [command for way in WAYS_TO_THE_PARTS.values() for command in way]
    for command in (*walk, *(f"put {part} in great lamp" for part in WAYS_TO_THE_PARTS)):
        line.fill(command)
        line.press("Enter")
        expect(line).to_have_value("")
    expect(page.get_by_role("log")).to_contain_text("The lighthouse burns again")
    page.goto("/game")
    expect(page.locator("main")).not_to_contain_text("0 of 3 are in it")
