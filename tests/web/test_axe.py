"""axe-core over our pages: light and dark, desktop and phone.

It is used where `npm install axe-core` put it (`node_modules/` here, or the folder that SQUINNEY_AXE names), and is no
part of this repository.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

ROOT = Path(__file__).parents[2]
PUBLIC = ["/", "/ledger", "/sign-in", "/sign-up", "/nowhere", "/api/docs"]
FOR_ADMINS = ["/account", "/admin", "/admin/jobs", "/admin/keys", "/admin/people", "/admin/problems"]
SIZES = [(1280, 900), (390, 800)]


@pytest.fixture(scope="session")
def axe() -> str:
    """Its source."""
    file = Path(os.environ.get("SQUINNEY_AXE", ROOT / "node_modules")) / "axe-core" / "axe.min.js"
    if not file.exists():
        pytest.skip("axe: not run (npm install axe-core)")
    return file.read_text()


def serious(page: Page, axe: str) -> list[str]:
    """What axe finds that is serious or worse."""
    page.evaluate(axe)
    found: Any = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{page.url} {violation['id']}: {violation['nodes'][0]['html'][:200]}"
        for violation in found["violations"]
        if violation["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES, ids=["desktop", "phone"])
def test_nothing_serious_is_wrong_with_public_pages(
    stranger: Page, axe: str, scheme: Any, size: tuple[int, int]
) -> None:
    assert _walk(stranger, axe, PUBLIC, scheme, size) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES, ids=["desktop", "phone"])
def test_nothing_serious_is_wrong_with_the_admins_pages(
    admin: Page, axe: str, scheme: Any, size: tuple[int, int]
) -> None:
    assert _walk(admin, axe, FOR_ADMINS, scheme, size) == []


def _walk(page: Page, axe: str, paths: list[str], scheme: Any, size: tuple[int, int]) -> list[str]:
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.emulate_media(color_scheme=scheme)
    found = []
    for path in paths:
        page.goto(path)
        found += serious(page, axe)
        fits = page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        found += [] if fits else [f"{path} is wider than the window"]
    return found
