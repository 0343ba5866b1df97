"""The social network, in two browsers."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.serving import Serving
from tests.web.conftest import sign_up


@pytest.fixture
def other(browser: Browser, serving: Serving) -> Iterator[Page]:
    """Return a page of another member, in a separate browser context."""
    context = browser.new_context(base_url=serving.url)
    page = context.new_page()
    page.set_default_timeout(15_000)
    sign_up(page, f"other-{secrets.token_hex(6)}")
    yield page
    context.close()


def _join(page: Page, name: str) -> str:
    """Join, set the name, and return the handle."""
    page.goto("/social")
    page.get_by_role("button", name="Join").click()
    page.goto("/social/me")
    page.get_by_label("Name").fill(name)
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Saved.")).to_be_visible()
    return page.locator("main strong").first.inner_text().removeprefix("@")


def test_a_post_appears_and_disappears_without_a_reload(page: Page, other: Page) -> None:
    _join(page, "Writer")
    handle = _join(other, "Reader")
    page.goto(f"/social/people/{handle}")
    page.get_by_label("Circle for Reader").fill("Tea")
    page.get_by_role("button", name="Follow").click()
    expect(page.get_by_role("button", name="Take Reader out of Tea")).to_be_visible()
    page.goto("/social/people/ada-brandt")
    page.get_by_label("Circle for Ada Brandt").fill("Cake")
    page.get_by_role("button", name="Follow").click()
    page.goto("/social/circles")
    page.locator("[data-person]", has_text="Reader").drag_to(page.locator("[data-circle=Cake]"))
    expect(page.get_by_role("button", name="Take Reader out of Cake")).to_be_visible()
    other.goto("/social")
    page.goto("/social")
    page.get_by_label("What is new?").fill("The kettle is on")
    page.get_by_label("For").select_option("Tea")
    page.get_by_role("button", name="Post").click()
    expect(other.get_by_text("The kettle is on")).to_be_visible()
    other.get_by_placeholder("Write a comment").first.fill("On my way")
    other.get_by_role("button", name="Comment").first.click()
    page.goto("/social/notices")
    expect(page.get_by_text("On my way")).to_be_visible()
    page.goto(f"/social/people/{handle}")
    page.get_by_role("button", name="Take Reader out of Tea").click()
    expect(other.get_by_text("The kettle is on")).to_be_hidden()
