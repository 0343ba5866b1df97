"""Behind every page of the site with its demo data: never more than the page itself shows its viewer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from squinney.service.behind.shown import CUT, PageText

LINK = re.compile(r'href="(/[^"#]*)"')
NOT_PAGES = ("/static", "/api", "/behind", "/prove/", "/sign-", "/site/-/", "/shop/pictures", "/social/photos", "/ads/")
NUMBER = re.compile(r"[\d,.]+")
MAX_LIKE = 2  # pages of one kind
VALUE = re.compile(r"<dd>(.*?)</dd>", re.DOTALL)
COLLECTION = re.compile(r"\b(?:identity|squinney)\.\w+")


def kind_of(path: str) -> str:
    """Return the same text for pages of one kind, such as two products."""
    parts = path.partition("?")[0].split("/")
    return "/".join(parts[:3] if len(parts) > 3 else parts[:2]) + ("?" if "?" in path else "")


def walk(page: Page) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of some pages of each kind that a visitor reaches by links."""
    waiting, seen, kinds = ["/"], {"/"}, dict[str, int]()
    while waiting:
        path = waiting.pop(0)
        answer = page.request.get(path)
        if answer.status != 200 or "text/html" not in answer.headers["content-type"]:
            continue
        html = answer.text()
        yield path, html
        for found in map(unescape, LINK.findall(html)):
            if found not in seen and not found.startswith(NOT_PAGES) and kinds.get(kind_of(found), 0) < MAX_LIKE:
                seen.add(found)
                kinds[kind_of(found)] = kinds.get(kind_of(found), 0) + 1
                waiting.append(found)


@pytest.mark.parametrize("who", ["visitor", "Ada, member"])
def test_behind_no_page_is_more_than_the_page_shows(who: str, stranger: Page) -> None:
    page = stranger
    if who != "visitor":
        page.goto("/sign-in")
        page.locator("main").get_by_role("button", name=who).click()
        expect(page.get_by_text("You are trying the site as")).to_be_visible()
    walked, shown = 0, 0
    secrets = [cookie["value"] for cookie in page.context.cookies()]
    for path, html in walk(page):
        behind = page.request.get(f"/behind?page={quote(path)}").text()
        drawer = behind.partition('<div id="behind">')[2].partition("<footer")[0]
        assert "Commands sent to MongoDB" in drawer, path
        assert not COLLECTION.search(drawer.partition("Documents on the page")[2]), path
        assert "identity." not in drawer, path
        assert not any(secret and secret in drawer for secret in secrets), path
        before, after = PageText(html), PageText(page.request.get(path).text())
        for values in VALUE.findall(drawer):
            for value in unescape(values).split(" · "):
                text = value.removesuffix(CUT)
                if path.startswith("/analytics") and NUMBER.fullmatch(text):
                    continue  # each look is a view of a page, which the chart counts
                assert text in before or text in after, (path, value)
                shown += 1
        walked += 1
    assert walked >= 15
    assert shown >= 50


def test_an_action_is_shown_behind_the_page_that_it_leads_to(stranger: Page) -> None:
    stranger.goto("/shop")
    stranger.locator("h2 a[href^='/shop/products/']").first.click()
    stranger.get_by_role("link", name="Behind this page").click()
    drawer = stranger.get_by_role("complementary", name="Behind this page")
    expect(drawer).to_contain_text("commerce.products")
    expect(drawer).not_to_contain_text("What you did")
    stranger.get_by_role("button", name=re.compile("cart", re.IGNORECASE)).first.click()
    expect(drawer).to_contain_text("What you did")
    expect(drawer.locator("table").first).to_contain_text("commerce.stock")
    drawer.get_by_role("button", name="Close").click()
    expect(drawer).to_be_hidden()
    stranger.reload()
    expect(stranger.get_by_role("link", name="Behind this page")).to_be_visible()
    expect(drawer).to_be_hidden()
