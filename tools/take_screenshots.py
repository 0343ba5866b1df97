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

from playwright.sync_api import FloatRect, Page, expect, sync_playwright

IMAGES = Path(__file__).parents[1] / "docs" / "images"
PICTURES = {
    "home": "/",
    "ledger": "/ledger",
    "analytics": "/analytics?range=30d",
    "shop": "/shop",
    "site": "/site/magazine",
    "ads": "/ads",
    "social": "/social/people/grace-mwangi",
}
SIZE = (1200, 800)
HEIGHTS = {"home": 960}  # of those that say less if they are cut
PROOF_MILLISECONDS = 150_000


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
            address = re.search(r"http\S+", serving.stdout.readline())
            assert address, "the site did not start"
            yield address[0]
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


def enter_the_world(page: Page, base: str) -> str:
    """Walk to the harbour square as a new character; return the path of its page."""
    page.goto(f"{base}/game")
    page.locator("main input[name=name]").fill("Ada of the harbour")
    page.get_by_role("button", name="Begin").click()
    for command in ("take lantern", "north", "east"):
        line = page.get_by_label("Type a command")
        line.fill(command)
        line.press("Enter")
        expect(line).to_have_value("")
    return page.url.removeprefix(base)


def wait_for_pictures(page: Page) -> None:
    """Wait until all pictures are there, also those that load when one scrolls to them."""
    page.evaluate("document.querySelectorAll('img').forEach(one => { one.loading = 'eager' })")
    page.evaluate("Promise.all([...document.images].map(one => one.decode().catch(() => null)))")
    page.wait_for_timeout(500)  # live charts


def run_the_proof(page: Page, base: str) -> None:
    """Run the proof of the home page to its verdict, so that its picture shows what it shows."""
    page.goto(base)
    page.get_by_role("button", name="Start the proof").click()
    expect(page.get_by_role("status")).to_contain_text("Verdict.", timeout=PROOF_MILLISECONDS)


def take_report(page: Page) -> None:
    """Save a screenshot of the report about a refuted transfer."""
    with tempfile.TemporaryDirectory(prefix="squinney-") as folder:
        test = ["examples/transfers/test_transfers.py", "-k", "overdraw", "--squinney-report", folder]
        subprocess.run([sys.executable, "-m", "pytest", *test], cwd=IMAGES.parents[1], check=True)  # noqa: S603
        (report,) = Path(folder).iterdir()
        page.goto(report.as_uri())
        page.screenshot(path=IMAGES / "report.png")


def main() -> None:
    """Open each page and save a screenshot of it."""
    with served() as link, sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = chromium.new_page(viewport={"width": SIZE[0], "height": SIZE[1]})
        become_admin(page, link)
        base = link.partition("/welcome")[0]
        run_the_proof(page, base)
        paths = {**PICTURES, "game": enter_the_world(page, base)}
        for name, path in paths.items():
            page.goto(base + path)
            wait_for_pictures(page)
            shown: FloatRect = {"x": 0, "y": 0, "width": SIZE[0], "height": HEIGHTS.get(name, SIZE[1])}
            page.screenshot(path=IMAGES / f"{name}.png", full_page=True, clip=shown)
        take_report(page)
        chromium.close()


if __name__ == "__main__":
    main()
