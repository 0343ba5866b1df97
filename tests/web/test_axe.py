"""axe-core over our pages: light and dark, desktop and phone; each page in one of two looks, by `make prove` in all."""

from __future__ import annotations

from importlib import resources
from typing import Any

import pytest
from fastapi import APIRouter
from playwright.sync_api import Page
from tests.sizes import IN_FULL, heavy

from squinney.assembly import SYSTEMS
from squinney.http.routes import routes_with_paths
from squinney.service import admin as admin_pages
from squinney.service.site import surfaces

# Pages that show nothing without something in their query, and what is no page.
LEFT_OUT = {"/welcome", "/site/", "/analytics/top", "/analytics/series.csv", "/shop/stock", "/site/-/upload"}
LEFT_OUT |= {"/social/export", "/shop/admin/products/edit"}
FURTHER = ["/nowhere", "/api/docs", "/site/blog", "/site/gallery"]


def pages_of(router: APIRouter) -> list[str]:
    """Every page that needs nothing in its path, of every system."""
    return [
        path
        for path, route in routes_with_paths(router.routes, within=router.prefix)
        if "GET" in (getattr(route, "methods", None) or ()) and "{" not in path and path not in LEFT_OUT
    ]


OF_SYSTEMS = [path for _, module in surfaces(SYSTEMS, "web") for path in pages_of(module.router)]
PUBLIC = ["/", *FURTHER[:2], *(f"/{system.path}" for system in SYSTEMS if f"/{system.path}" in OF_SYSTEMS)]
PUBLIC += ["/sign-in", "/sign-up"]
for members_only in ("/ledger", "/ads"):  # strangers are led to sign in
    PUBLIC.remove(members_only)
FOR_ADMINS = [*pages_of(admin_pages.router), *FURTHER[2:]]
FOR_ADMINS += [path for path in OF_SYSTEMS if path not in PUBLIC]
# Where a list leads: the first link of a kind stands for all of them.
LEADING_ON = {
    "/ledger": "main a[href^='/ledger/']",
    "/ads": "main a[href^='/ads/campaigns/']",
    "/shop": "main a[href*='/products/']",
    "/shop/admin": "main a[href*='/products/edit']",
    "/social/people": "main a[href$='/ada-brandt']",
    "/site": "main a[href^='/site/']",
    "/site/gallery": "main a[href*='/-/upload']",
    "/site/blog": "main a[href*='/-/edit/']",
}
DESKTOP, PHONE = (1280, 900), (390, 800)
LOOKS = [("light", DESKTOP), ("dark", PHONE), *([("dark", DESKTOP), ("light", PHONE)] if IN_FULL else [])]


@pytest.fixture(scope="session")
def axe() -> str:
    """Its source, from the package that brings it."""
    return (resources.files("axe_playwright_python") / "axe.min.js").read_text()


def serious(page: Page, axe: str) -> list[str]:
    """What axe finds that is serious or worse."""
    page.evaluate(axe)
    found: Any = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{page.url} {violation['id']}: {violation['nodes'][0]['html'][:200]}"
        for violation in found["violations"]
        if violation["impact"] in ("serious", "critical")
    ]


@heavy
@pytest.mark.parametrize(("scheme", "size"), LOOKS)
def test_nothing_serious_is_wrong_with_public_pages(
    stranger: Page, axe: str, scheme: Any, size: tuple[int, int]
) -> None:
    assert _walk(stranger, axe, PUBLIC, scheme, size) == []


@heavy
@pytest.mark.parametrize(("scheme", "size"), LOOKS)
def test_nothing_serious_is_wrong_with_the_admins_pages(
    admin: Page, axe: str, scheme: Any, size: tuple[int, int]
) -> None:
    admin.goto("/social")
    if admin.get_by_role("button", name="Join").is_visible():
        admin.get_by_role("button", name="Join").click()
    assert _walk(admin, axe, FOR_ADMINS, scheme, size) == []


def _walk(page: Page, axe: str, paths: list[str], scheme: Any, size: tuple[int, int]) -> list[str]:
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.emulate_media(color_scheme=scheme)
    found = []
    for path in paths if IN_FULL else paths[LOOKS.index((scheme, size)) :: len(LOOKS)]:
        answer = page.goto(path)
        assert answer
        assert answer.ok or path == "/nowhere", f"{path} answers {answer.status}"
        found += _faults(page, axe)
        if selector := LEADING_ON.get(path):
            page.goto(page.locator(selector).first.get_attribute("href") or "")
            found += _faults(page, axe)
    return found


def _faults(page: Page, axe: str) -> list[str]:
    fits = page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    return serious(page, axe) + ([] if fits else [f"{page.url} is wider than the window"])
