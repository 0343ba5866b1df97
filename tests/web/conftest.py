"""Pages in a real browser, served by a real `squinney serve`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright
from tests.serving import Serving

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test here needs the browser."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A headless Chromium; without one the tests are skipped, unless SQUINNEY_REQUIRE says that they must run."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        if "browser" in os.environ.get("SQUINNEY_REQUIRE", ""):
            pytest.fail("browser tests must run, but there is no chromium on PATH")
        pytest.skip("browser: not run (no chromium on PATH)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """The site, with its demo data."""
    with Serving(tmp_path_factory.mktemp("web") / "data") as serving:
        yield serving


@pytest.fixture
def page(browser: Browser, serving: Serving) -> Iterator[Page]:
    """A fresh visitor, on whose pages no script may fail and no policy may be broken."""
    context = browser.new_context(base_url=serving.url)
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text) if _is_complaint(message.text) else None)
    page.set_default_timeout(15_000)
    yield page
    context.close()
    assert complaints == []


def _is_complaint(text: str) -> bool:
    return "Content Security Policy" in text or "Uncaught" in text
