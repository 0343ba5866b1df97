"""The world, in two browsers."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from importlib import resources

import pytest
from playwright.sync_api import Browser, Page, expect
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.serving import Serving
from tests.web.conftest import sign_up
from tests.web.test_axe import serious


@pytest.fixture
def neighbour(browser: Browser, serving: Serving) -> Iterator[Page]:
    """Return a page of another member, on a phone."""
    context = browser.new_context(base_url=serving.url, viewport={"width": 390, "height": 800})
    page = context.new_page()
    page.set_default_timeout(15_000)
    sign_up(page, f"member-{secrets.token_hex(6)}")
    yield page
    context.close()


def enter(page: Page, name: str) -> None:
    page.goto("/game")
    page.get_by_label("Name").fill(name)
    page.get_by_role("button", name="Begin").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("The jetty")
    expect(page.get_by_text("live", exact=True)).to_be_visible()


def test_when_one_takes_the_lantern_the_other_sees_it_disappear(page: Page, neighbour: Page) -> None:
    mine, other = f"Ann {secrets.token_hex(3)}", f"Bob {secrets.token_hex(3)}"
    enter(page, mine)
    enter(neighbour, other)
    expect(page.locator(".people")).to_contain_text(other)
    lantern = neighbour.locator(".lying", has_text="ship's lantern")
    expect(lantern).to_have_count(1)
    page.locator(".lying", has_text="ship's lantern").get_by_role("button", name="Take").click()
    expect(lantern).to_have_count(0)
    expect(neighbour.get_by_role("log")).to_contain_text(f"{mine} takes ship's lantern")
    neighbour.get_by_label("Say something").fill("that was mine")
    neighbour.get_by_role("button", name="Say").click()
    expect(page.get_by_role("log")).to_contain_text("that was mine")
    # Walk to the shop to buy a hat.
    page.get_by_role("button", name="north").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Harbour square")
    expect(neighbour.locator("#room-name")).to_have_text("The jetty")
    expect(neighbour.get_by_role("log")).to_contain_text(f"{mine} leaves north")
    page.get_by_role("button", name="west").click()
    gold = int(page.locator("#gold").inner_text())
    page.locator(".lying", has_text="rope gloves").get_by_role("button", name="Buy").click()
    expect(page.locator("#gold")).to_have_text(str(gold - 9))
    carried = page.locator(".self .things")
    carried.get_by_text("rope gloves").click()
    carried.get_by_role("button", name="Wear").click()
    expect(page.locator(".worn")).to_contain_text("+1 rope gloves")
    carried.get_by_text("ship's lantern").click()
    carried.get_by_role("button", name="Sell for 7 gold").click()
    expect(page.locator("#gold")).to_have_text(str(gold - 9 + 7))
    # An error message stays visible at the bottom of a small page.
    page.set_viewport_size({"width": 390, "height": 500})
    page.locator(".lying", has_text="tinderbox").get_by_label("How many").fill("10")
    page.locator(".lying", has_text="tinderbox").get_by_role("button", name="Buy").click()
    expect(page.get_by_role("alert")).to_contain_text(f"has {gold - 2} gold, not 60")
    page.mouse.wheel(0, 900)
    expect(page.get_by_role("alert")).to_be_in_viewport()
    expect(page.locator("svg.game-map rect")).to_have_count(3)
    assert neighbour.evaluate("document.documentElement.scrollWidth <= innerWidth")
    axe = (resources.files("axe_playwright_python") / "axe.min.js").read_text()
    assert serious(page, axe) == []
    assert serious(neighbour, axe) == []


@pytest.mark.parametrize("width", [1280, 390], ids=["desktop", "phone"])
def test_a_weapon_and_a_hat_are_bought_used_and_sold(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    enter(page, f"Fay {secrets.token_hex(3)}")
    page.get_by_role("button", name="north").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Harbour square")  # the jetty has an exit to the west too
    page.get_by_role("button", name="west").click()
    gold, worn, carried = page.locator("#gold"), page.locator(".worn"), page.locator(".self .things > li")
    hook, hat = carried.filter(has_text="boat hook"), carried.filter(has_text="oilskin hat")
    for name, left in (("+2 boat hook", "18"), ("+1 oilskin hat", "7")):
        page.locator(".lying", has_text=name).get_by_role("button", name="Buy").click()
        expect(gold).to_have_text(left)
    hook.locator("summary").click()
    hook.get_by_role("button", name="Wield").click()
    expect(worn.locator("div", has_text="both hands")).to_contain_text("+2 boat hook")
    expect(worn).not_to_contain_text("right hand")
    hat.locator("summary").click()
    hat.get_by_role("button", name="Wear").click()
    expect(worn.locator("div", has_text="head")).to_contain_text("+1 oilskin hat")
    expect(page.get_by_role("log")).to_contain_text("puts on +1 oilskin hat")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    # Go back to the shop for the next item.
    hook.get_by_role("button", name="Put away").click()
    hook.get_by_role("button", name="Sell for 10 gold").click()
    expect(gold).to_have_text("17")
    hat.get_by_role("button", name="Take off").click()
    hat.get_by_role("button", name="Sell for 5 gold").click()
    expect(gold).to_have_text("22")
    expect(worn).not_to_contain_text("+")


def test_text_typed_during_a_request_is_kept(page: Page) -> None:
    enter(page, f"Eve {secrets.token_hex(3)}")
    words, held = page.get_by_label("Say something"), []
    page.route("**/say", lambda route: held.append(route))
    words.fill("the first words")
    with page.expect_request("**/say"):
        page.get_by_role("button", name="Say").click()
    words.fill("two")
    held[0].continue_()
    expect(page.get_by_role("log")).to_contain_text("the first words")
    expect(words).to_have_value("two")


def test_the_game_works_without_javascript(browser: Browser, serving: Serving) -> None:
    context = browser.new_context(base_url=serving.url, java_script_enabled=False)
    page = context.new_page()
    sign_up(page, f"member-{secrets.token_hex(6)}")
    page.goto("/game")
    page.get_by_label("Name").fill(f"Cid {secrets.token_hex(3)}")
    page.get_by_role("button", name="Begin").click()
    page.get_by_role("button", name="east").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Net shed")
    context.close()


def test_a_client_that_floods_is_disconnected_and_the_others_still_receive_events(page: Page, serving: Serving) -> None:
    enter(page, f"Dan {secrets.token_hex(3)}")
    character = page.url.rpartition("/")[2]
    cookie = "; ".join(f"{one['name']}={one['value']}" for one in page.context.cookies())
    address = f"{serving.url.replace('http', 'ws')}/game/ws?character={character}"
    for message in ("x" * 100_000, "x" * 1_000, b"\0" * 1_000):
        with connect(address, additional_headers={"Cookie": cookie}) as bad:
            assert "hello" in bad.recv(timeout=120)
            bad.send(message)
            with pytest.raises(ConnectionClosed):
                bad.recv(timeout=120)
    page.get_by_label("Say something").fill("still here")
    page.get_by_role("button", name="Say").click()
    expect(page.get_by_role("log")).to_contain_text("still here")
    expect(page.get_by_text("live", exact=True)).to_be_visible()
