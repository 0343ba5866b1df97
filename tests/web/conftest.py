"""Fixtures: pages in a real browser, served by a real `squinney serve`."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from squinney.testing.plugin import run_folder
from tests.serving import Serving

PASSWORD = "correct horse battery"
PATIENCE_MS = 60_000  # the machine may be busy
expect.set_options(timeout=PATIENCE_MS)
SQUINNEY = [sys.executable, "-m", "squinney.service.commands.main"]
# The last option of this name counts, so it repeats what Playwright needs.
PLAYWRIGHTS = ("DestroyProfileOnBrowserClose", "HttpsUpgrades", "MediaRouter", "PaintHolding", "OptimizationHints")
MENUS = ("PreloadTopChromeWebUI", "WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "SpareRendererForSitePerProcess")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    # Without them, opening a page takes half the processor time: a headless browser also draws its own menus.
    "--disable-features=" + ",".join((*PLAYWRIGHTS, *MENUS)),
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test in this folder as a browser test."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


# Package scope, not session: Playwright occupies the thread's event loop while it runs, and other tests need their own.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Start a headless Chromium. Without one, the tests are skipped, or fail if SQUINNEY_REQUIRE contains `browser`."""
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
def serving() -> Iterator[Serving]:
    """Start the site with its demo data. It has its own MongoDB, because a busy disk would delay every page."""
    with Serving(run_folder() / f"web-{os.getpid()}", SQUINNEY_PROOF_SECONDS="10") as serving:
        yield serving


@pytest.fixture
def stranger(browser: Browser, serving: Serving) -> Iterator[Page]:
    """Return a page of a new visitor. The test fails on script errors and content-security violations."""
    context = browser.new_context(base_url=serving.url)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if _is_error(message.text) else None)
    page.set_default_timeout(PATIENCE_MS)
    yield page
    context.close()
    assert errors == []


@pytest.fixture
def page(stranger: Page) -> Page:
    """Return a page of a new visitor who is signed in as a new member."""
    send_form(stranger, "/sign-up", login=f"member-{secrets.token_hex(6)}", name="Member of the test")
    return stranger


@pytest.fixture(scope="session")
def boss(serving: Serving) -> str:
    """Create an admin and return the login."""
    added = subprocess.run(
        [*SQUINNEY, "--data", str(serving.data), "users", "add", "boss", "--role", "admin", "--password", PASSWORD],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert added.returncode == 0, added.stderr
    return "boss"


@pytest.fixture
def admin(stranger: Page, boss: str) -> Page:
    """Return a page of a visitor who is signed in as the admin."""
    send_form(stranger, "/sign-in", login=boss)
    return stranger


def send_form(page: Page, path: str, **fields: str) -> None:
    """Sign in or up without drawing the pages: the browser has the cookie afterwards."""
    shown = page.request.get(path).text()
    token = re.search(r'name="csrf" value="([^"]+)"', shown)
    assert token
    answer = page.request.post(path, form={"csrf": token[1], "password": PASSWORD, **fields})
    assert answer.ok, answer.text()


def sign_up(page: Page, login: str) -> None:
    """Sign up with the form."""
    page.goto("/sign-up")
    page.get_by_label("Login").fill(login)
    page.locator("input[name=name]").fill("Member of the test")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign up").click()
    page.get_by_role("button", name="Sign out").wait_for()


def sign_in(page: Page, login: str) -> None:
    """Sign in as the admin with the form."""
    page.goto("/sign-in")
    page.get_by_label("Login").fill(login)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("link", name="Admin").wait_for()


def _is_error(text: str) -> bool:
    return "Content Security Policy" in text or "Uncaught" in text
