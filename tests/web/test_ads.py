"""An advertiser at work, in a browser."""

from __future__ import annotations

from playwright.sync_api import Page, expect


def test_a_campaign_is_made_placed_and_explained(admin: Page) -> None:
    admin.goto("/ads")
    admin.get_by_label("Name").fill("browser:tea")
    admin.get_by_label("Advertiser").fill("Tea House")
    admin.get_by_label("Bid in EUR").fill("2.50")
    admin.get_by_label("Budget in EUR").fill("100")
    admin.get_by_role("button", name="Make it").click()
    expect(admin.get_by_role("heading", level=1)).to_contain_text("browser:tea")
    admin.get_by_label("Unit").fill("tea-1")
    admin.get_by_label("Title").fill("Tea for two")
    admin.get_by_label("Address").fill("/site")
    admin.get_by_role("button", name="Put it there").click()
    expect(admin.get_by_text("Tea for two")).to_be_visible()
    admin.goto("/ads/why")
    expect(admin.get_by_role("row", name="tea-1")).to_be_visible()
