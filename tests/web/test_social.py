"""Circles, in a browser. The journeys try the rest."""

from __future__ import annotations

from playwright.sync_api import Page, expect


def test_somebody_is_dragged_onto_another_circle(page: Page) -> None:
    page.goto("/social")
    if page.get_by_role("button", name="Join").is_visible():
        page.get_by_role("button", name="Join").click()
    for person, name, circle in (("ada-brandt", "Ada Brandt", "Tea"), ("ben-okafor", "Ben Okafor", "Cake")):
        page.goto(f"/social/people/{person}")
        page.get_by_label(f"Circle for {name}").fill(circle)
        page.get_by_role("button", name="Follow").click()
        expect(page.get_by_role("button", name=f"Take {name} out of {circle}")).to_be_visible()
    page.goto("/social/circles")
    page.locator("[data-person]", has_text="Ada Brandt").drag_to(page.locator("[data-circle=Cake]"))
    expect(page.get_by_role("button", name="Take Ada Brandt out of Cake")).to_be_visible()
