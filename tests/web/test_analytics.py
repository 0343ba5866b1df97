"""The charts in a browser while a log is being followed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.serving import Serving


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the data folder of the embedded MongoDB that `serve` and `follow` share."""
    return tmp_path_factory.mktemp("analytics") / "data"


@pytest.fixture(scope="module")
def serving(data: Path) -> Iterator[Serving]:
    """Start the site with its demo data."""
    with Serving(data) as serving:
        yield serving


@pytest.fixture
def followed(serving: Serving, data: Path, tmp_path: Path) -> Iterator[Path]:
    """Return a log that `squinney analytics follow --hits` follows."""
    path = tmp_path / "access.log"
    path.touch()
    follow = ["analytics", "follow", str(path), "--site", "live", "--hits", "--poll", "0.1"]
    environment = {name: value for name, value in os.environ.items() if name != "MONGODB_URI"}
    process = subprocess.Popen(
        [sys.executable, "-m", "squinney.service.commands.main", "--data", str(data), *follow],
        env=environment,
        stdout=subprocess.DEVNULL,
    )
    yield path
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 0


def visit(path: Path, page: str, times: int) -> None:
    """Append lines to the log, as a web server does."""
    now = f"{datetime.now(UTC):%d/%b/%Y:%H:%M:%S} +0000"
    with path.open("a") as file:
        file.write(f'203.0.113.7 - - [{now}] "GET {page} HTTP/1.1" 200 512 "-" "test"\n' * times)


def test_the_chart_updates_while_a_log_is_followed(page: Page, followed: Path) -> None:
    page.goto("/analytics/hits?site=live&page=/moving")
    chart = page.locator("[data-chart=minute] svg")
    expect(chart).to_have_attribute("aria-label", re.compile(": 0 in all"))
    visit(followed, "/moving", 3)
    expect(chart).to_have_attribute("aria-label", re.compile(": 3 in all"))
    visit(followed, "/moving", 4)
    expect(chart).to_have_attribute("aria-label", re.compile(": 7 in all"))
    expect(page.locator("[data-top]")).to_contain_text("/moving")


def in_all(page: Page) -> int:
    """Return the sum that the chart of the last hour says."""
    label = page.locator("[data-chart=minute] svg").get_attribute("aria-label") or ""
    return int(re.findall(r": ([\d,]+) in all", label)[0].replace(",", ""))


def test_the_chart_of_this_site_moves_while_somebody_clicks(page: Page) -> None:
    page.goto("/analytics/hits")
    before = in_all(page)
    other = page.context.new_page()
    other.goto("/shop")
    other.locator("main h2 a[href*='/shop/products/']").first.click()
    expect(page.locator("[data-chart=minute] svg")).not_to_have_attribute(
        "aria-label", re.compile(f": {before} in all")
    )
    assert in_all(page) > before
    page.goto(f"/analytics/hits?page={urlsplit(other.url).path}")
    expect(page.locator("[data-chart=minute] svg")).to_have_attribute("aria-label", re.compile(": [1-9][0-9]* in all"))


def visitors(page: Page) -> str:
    """Return the first number at the head of the report."""
    return page.locator(".headlines dd").first.inner_text().split()[0]


def test_every_panel_follows_a_click(page: Page) -> None:
    page.goto("/analytics")
    page.get_by_role("link", name="30 days").click()
    everybody = visitors(page)
    page.get_by_role("link", name="news.example").click()
    expect(page.locator(".filters")).to_contain_text("referrer: news.example")
    assert visitors(page) != everybody
    expect(page.locator("[aria-labelledby=panel-channels] tbody tr")).to_have_count(1)
    page.get_by_role("link", name="Remove the filter referrer news.example").click()
    assert visitors(page) == everybody
    page.get_by_role("link", name="with robots", exact=True).click()
    assert visitors(page) != everybody
    expect(page.locator("[data-now]")).to_contain_text("in the last five minutes")


def test_a_person_chooses_a_page_and_downloads_its_numbers(page: Page) -> None:
    page.goto("/analytics/hits?site=squinney")
    page.locator("[data-top] a", has_text="/game").click()
    expect(page.get_by_label("Page")).to_have_value("/game")
    expect(page.locator("[data-chart=day] svg")).to_have_attribute("aria-label", re.compile(r": [1-9][\d,]* in all"))
    with page.expect_download() as download:
        page.locator(".panel", has_text="Last 30 days").get_by_role("link", name="CSV").click()
    assert download.value.suggested_filename == "hits-by-day.csv"
    assert Path(download.value.path()).read_text().count("\n") == 31
    if where := os.environ.get("SQUINNEY_SCREENSHOTS"):
        page.screenshot(path=f"{where}/analytics.png", full_page=True)
