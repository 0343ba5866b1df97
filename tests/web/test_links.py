"""What one system shows in the next, tried as somebody of the town."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect


def test_ada_buys_from_her_account_and_order_and_statement_lead_to_each_other(stranger: Page) -> None:
    page = stranger
    page.goto("/sign-in")
    page.locator("main").get_by_role("button", name="Ada, member").click()
    expect(page.get_by_text("You are trying the site as")).to_contain_text("Ada")
    page.goto("/shop")
    page.locator("main h2 a[href*='/shop/products/']").first.click()
    page.get_by_role("button", name=re.compile("cart", re.IGNORECASE)).first.click()
    page.get_by_role("button", name=re.compile("from my account")).click()
    expect(page.get_by_role("heading", name="Timeline")).to_be_visible()
    order = page.url
    page.get_by_role("link", name=re.compile("the line of the statement")).click()
    expect(page.locator("tr:target")).to_be_visible()
    page.locator("tr:target").get_by_role("link", name=re.compile("^order ")).click()
    expect(page).to_have_url(order)
    page.get_by_text("Cancel this order").click()
    page.get_by_role("button", name="Cancel and refund").click()
    expect(page.get_by_role("link", name=re.compile("^Refunded"))).to_be_visible()
