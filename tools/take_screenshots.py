"""Retake the documentation's screenshots: `python tools/take_screenshots.py`.

Serves the demo data from a temporary folder and opens its pages in the Chromium on PATH.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

IMAGES = Path(__file__).parents[1] / "docs" / "images"
PICTURES = {
    "home": "/",
    "ledger": "/ledger",
    "analytics": "/analytics",
    "shop": "/shop",
    "site": "/site/blog",
    "ads": "/ads",
    "social": "/social/people/ben-okafor",
}
SIZE = (1200, 800)


@contextmanager
def served() -> Iterator[str]:
    """Serve a site with the demo data; yield the link for the first admin, which is its first line of output."""
    with tempfile.TemporaryDirectory(prefix="squinney-") as folder:
        command = [
            sys.executable,
            "-m",
            "squinney.service.commands.main",
            "--data",
            f"{folder}/data",
            "serve",
            "--port",
            "0",
        ]
        serving = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)  # noqa: S603
        try:
            assert serving.stdout
            found = re.search(r"http\S+", serving.stdout.readline())
            assert found, "the site did not start"
            yield found[0]
        finally:
            serving.terminate()
            serving.wait(30)


def become_admin(page: Page, link: str) -> None:
    """Sign up as the first admin with the link that `serve` prints."""
    page.goto(link)
    page.locator("input[name=login]").fill("ada")
    page.locator("input[name=name]").fill("Ada")
    page.locator("input[name=password]").fill("correct horse battery")
    page.locator("main form button").first.click()
    page.get_by_role("button", name="Sign out").wait_for()


def main() -> None:
    """Open each page and save a screenshot of it."""
    with served() as link, sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = chromium.new_page(viewport={"width": SIZE[0], "height": SIZE[1]})
        become_admin(page, link)
        for name, path in PICTURES.items():
            page.goto(link.partition("/welcome")[0] + path)
            page.wait_for_timeout(1_000)  # photos and charts load a little later
            page.screenshot(path=IMAGES / f"{name}.png")
        chromium.close()


if __name__ == "__main__":
    main()
