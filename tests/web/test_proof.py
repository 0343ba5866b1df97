"""The proof, in a browser: what a newcomer sees first."""

from __future__ import annotations

import re

from playwright.sync_api import Browser, Page, expect

from tests.serving import Serving

VERDICT_MILLISECONDS = 90_000


def test_a_visitor_kills_workers_and_sees_what_each_lane_loses(
    stranger: Page, browser: Browser, serving: Serving
) -> None:
    stranger.goto("/")
    by_hand, guarded = (stranger.get_by_role("region", name=name) for name in ("By hand", "Guarded steps"))
    expect(by_hand.locator("pre")).to_contain_text('accounts.update_one({"_id": dst}')
    stranger.get_by_role("button", name="Start the proof").click()
    expect(stranger.get_by_role("status")).to_contain_text("Stage 1 of 3: calm")
    stranger.get_by_role("button", name="Kill now").click()
    expect(guarded.get_by_role("heading")).to_contain_text(re.compile(r"[1-9]\d* kill"))

    # Somebody without JavaScript comes and watches the same proof; the page reloads itself.
    context = browser.new_context(base_url=serving.url, java_script_enabled=False)
    second = context.new_page()
    second.goto("/prove")
    expect(second.get_by_role("button", name="Kill now")).to_be_visible()
    expect(second.get_by_role("button", name="Start the proof")).to_be_hidden()
    expect(second.get_by_role("status")).to_contain_text("Verdict.", timeout=VERDICT_MILLISECONDS)
    expect(second.get_by_role("region", name="By hand").locator(".light.broken")).not_to_have_count(0)
    expect(second.get_by_role("region", name="Guarded steps").locator(".light.held")).to_have_count(2)
    expect(second.get_by_role("img", name=re.compile("worker 1: .* killed"))).to_have_count(2)
    context.close()

    expect(stranger.get_by_role("status")).to_contain_text("Verdict.")
    expect(by_hand.locator(".light.broken")).not_to_have_count(0)
    expect(guarded.locator(".sum")).to_have_text("10,000.00 EUR")
    expect(stranger.get_by_role("button", name="Start the proof")).to_be_visible()


def test_a_schedule_is_played_forward_and_back(stranger: Page) -> None:
    stranger.goto("/prove/schedule?schedule=a+b3+a2&step=5")
    diagram, documents = stranger.locator(".sequence"), stranger.get_by_role("region", name="Documents")
    expect(diagram.locator(".arrow")).to_have_count(5)
    expect(documents.locator(".changed")).to_have_text(re.compile("ada.*-40.*was balance 30"))
    stranger.get_by_role("link", name="Next").click()
    expect(diagram.locator(".arrow")).to_have_count(6)
    expect(documents).to_contain_text("Refuted.")
    assert stranger.url.endswith("step=6")
    stranger.keyboard.press("ArrowLeft")
    expect(diagram.locator(".arrow")).to_have_count(5)
    expect(stranger.locator("#test")).to_contain_text('replay="a b3 a2"')


def test_a_system_is_proven_on_the_page(stranger: Page) -> None:
    stranger.goto("/prove")
    stranger.get_by_role("button", name="Ledger").click()
    expect(stranger.get_by_role("region", name="Ledger")).to_be_visible()
    expect(stranger.get_by_role("status")).to_contain_text("all 5 promises hold", timeout=VERDICT_MILLISECONDS)
    expect(stranger.locator(".light.held")).to_have_count(5)
