"""Checks our pages with axe-core, in light and dark mode, on desktop and phone.

`make prove` checks each page in all four variants, and other runs half of the pages in one of two.
"""

from __future__ import annotations

from importlib import resources
from typing import Any

import pytest
from fastapi import APIRouter
from playwright.sync_api import Page

from squinney.assembly import SYSTEMS
from squinney.http.routes import routes_with_paths
from squinney.service.front import admin as admin_pages
from squinney.service.site import surfaces
from tests.sizes import IN_FULL, heavy, todays

# Pages that are empty without a query, and paths that are not pages.
LEFT_OUT = {"/welcome", "/site/", "/analytics/top", "/analytics/series.csv", "/shop/stock", "/site/-/upload"}
LEFT_OUT |= {"/social/export", "/shop/admin/products/edit", "/analytics/now", "/analytics/view"}
LEFT_OUT |= {"/analytics/shared", "/analytics/shared/now", "/analytics/hosts.csv"}
MORE = ["/nowhere", "/api/docs", "/site/magazine", "/site/gallery"]


def pages_of(router: APIRouter) -> list[str]:
    """Return the paths of all pages without path parameters."""
    return [
        path
        for path, route in routes_with_paths(router.routes, within=router.prefix)
        if "GET" in (getattr(route, "methods", None) or ()) and "{" not in path and path not in LEFT_OUT
    ]


OF_SYSTEMS = [path for _, module in surfaces(SYSTEMS, "web") for path in pages_of(module.router)]
PUBLIC = ["/", *MORE[:2], *(f"/{system.path}" for system in SYSTEMS if f"/{system.path}" in OF_SYSTEMS)]
PUBLIC += ["/sign-in", "/sign-up"]
FOR_ADMINS = [*pages_of(admin_pages.router), *MORE[2:]]
OF_MEMBERS = {"/ledger": "main a[href^='/ledger/']", "/ads": "main a[href^='/ads/campaigns/']"}  # visitors see others
FOR_ADMINS += [path for path in OF_SYSTEMS if path not in PUBLIC or path in OF_MEMBERS]
# For each list, the first link of each kind is checked as an example.
LINKS = {
    "/shop": "main a[href*='/products/']",
    "/shop/admin": "main a[href*='/products/edit']",
    "/social/people": "main a[href$='/ada-brandt']",
    "/site": "main a[href^='/site/']",
    "/site/gallery": "main a[href*='/-/upload']",
    "/site/magazine": "main a[href*='/-/edit/']",
}
DESKTOP, PHONE = (1280, 900), (390, 800)
VARIANTS = [("light", DESKTOP), ("dark", PHONE), *([("dark", DESKTOP), ("light", PHONE)] if IN_FULL else [])]


@pytest.fixture(scope="session")
def axe() -> str:
    """Return the source of axe-core."""
    return (resources.files("axe_playwright_python") / "axe.min.js").read_text()


def serious(page: Page, axe: str) -> list[str]:
    """Return the violations that axe reports as serious or critical."""
    page.evaluate(axe)
    found: Any = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{page.url} {violation['id']}: {violation['nodes'][0]['html'][:200]}"
        for violation in found["violations"]
        if violation["impact"] in ("serious", "critical")
    ]


@heavy
@pytest.mark.parametrize(("scheme", "size"), VARIANTS)
def test_public_pages_have_no_serious_violations(stranger: Page, axe: str, scheme: Any, size: tuple[int, int]) -> None:
    assert _check_all(stranger, axe, PUBLIC, LINKS, scheme, size) == []


@heavy
@pytest.mark.parametrize(("scheme", "size"), VARIANTS)
def test_admin_pages_have_no_serious_violations(admin: Page, axe: str, scheme: Any, size: tuple[int, int]) -> None:
    admin.goto("/social")
    if admin.get_by_role("button", name="Join").is_visible():
        admin.get_by_role("button", name="Join").click()
    assert _check_all(admin, axe, FOR_ADMINS, {**LINKS, **OF_MEMBERS}, scheme, size) == []


def _check_all(
    page: Page, axe: str, paths: list[str], links: dict[str, str], scheme: Any, size: tuple[int, int]
) -> list[str]:
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.emulate_media(color_scheme=scheme)
    found = []
    share = paths if IN_FULL else paths[VARIANTS.index((scheme, size)) :: len(VARIANTS)]
    for path in todays(share, of=2):
        response = page.goto(path)
        assert response
        assert response.ok or path == "/nowhere", f"{path} returns {response.status}"
        found += _violations(page, axe)
        if selector := links.get(path):
            page.goto(page.locator(selector).first.get_attribute("href") or "")
            found += _violations(page, axe)
    return found


def _violations(page: Page, axe: str) -> list[str]:
    fits = page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    return serious(page, axe) + ([] if fits else [f"{page.url} is wider than the window"])
