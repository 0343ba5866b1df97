"""Campaigns, and ads on pages, in a browser."""

from __future__ import annotations

import secrets
import subprocess

from playwright.sync_api import Page, expect

from tests.serving import Serving
from tests.web.conftest import SQUINNEY


def _make(page: Page, name: str, *, bid: str = "2.50", zone: str = "site", title: str = "Tea for two") -> None:
    """Create a campaign with one ad."""
    page.goto("/ads")
    page.get_by_label("Name").fill(name)
    page.get_by_label("Advertiser").fill("Tea House")
    page.get_by_label("Bid in EUR").fill(bid)
    page.get_by_label("Budget in EUR").fill("100000")
    page.get_by_role("button", name="Create campaign").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(name)
    page.get_by_label("Zone", exact=True).fill(zone)
    page.get_by_label("Unit").fill(f"{name}/1")
    page.get_by_label("Title", exact=True).fill(title)
    page.get_by_label("URL").fill("/shop")
    page.get_by_role("button", name="Put ad into zone").click()
    expect(page.get_by_text("The ad was put into the zone.")).to_be_visible()


def _make_and_run(page: Page, name: str, **options: str) -> None:
    """Create a campaign with one ad, fund it, approve the ad, and show the campaign: what an admin may do."""
    _make(page, name, **options)
    page.get_by_label("Amount in EUR").fill("100000")
    page.get_by_label("Pay from").select_option(label="no account: grant it")
    page.get_by_role("button", name="Fund campaign").click()
    expect(page.get_by_text("The campaign is funded.")).to_be_visible()
    page.goto("/ads/review")
    page.get_by_role("button", name=f"Approve {name}/1", exact=True).click()
    expect(page.get_by_text("The ad is approved.")).to_be_visible()
    page.goto(f"/ads/campaigns/{name}")


def test_a_campaign_is_made_placed_and_explained(admin: Page) -> None:
    _make(admin, "browser:tea", zone="corner")
    expect(admin.get_by_text("Tea for two")).to_be_visible()
    admin.goto("/ads/why?zone=corner")
    expect(admin.get_by_role("row", name="browser:tea/1")).to_be_visible()


def test_charts_update_while_traffic_is_simulated(admin: Page, serving: Serving) -> None:
    name = f"moving:{secrets.token_hex(4)}"
    _make_and_run(admin, name, zone=name)
    before = admin.locator(".charts").inner_html()
    run = ["ads", "simulate", "squinney", name, "--visits", "200", "--click-rate", "0.1", "--seed", "1"]
    done = subprocess.run([*SQUINNEY, "--data", str(serving.data), *run], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    expect(admin.locator(".figures")).to_contain_text("200")  # without a reload
    assert admin.locator(".charts").inner_html() != before


def test_ads_remember_a_visitor_only_with_consent(stranger: Page) -> None:
    stranger.goto("/site")
    expect(stranger.get_by_text("These ads know nothing about you.")).to_be_visible()
    stranger.get_by_role("button", name="Let them remember").click()
    expect(stranger.get_by_text("These ads remember")).to_be_visible()
    stranger.get_by_role("button", name="Delete this, and stop remembering").click()
    expect(stranger.get_by_text("These ads know nothing about you.")).to_be_visible()


def test_a_member_sees_and_changes_their_own_campaigns_only(page: Page) -> None:
    name = f"own:{secrets.token_hex(4)}"
    _make(page, name, zone="corner")
    page.get_by_role("button", name="Pause campaign").click()
    expect(page.get_by_role("button", name="Resume campaign")).to_be_visible()
    page.goto("/ads")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text(name)
    refused = page.goto("/ads/campaigns/fiddle:fridays")
    assert refused is not None
    assert refused.status == 404
