"""The numbers of the real log beside GoAccess, and what makes each difference."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from bench import report
from bench._analytics_imports import sample_log
from bench._analytics_page import fresh
from squinney.analytics import Days, EventLog, Filters, ReportDays, Reports
from squinney.analytics.reports.agents import agent_of
from squinney.analytics.reports.requests import is_static
from squinney.mongo.connect import Connection
from squinney.mongo.schema import Document

SITE = "goaccess"
FIRST, LAST = datetime(2015, 5, 1, tzinfo=UTC), datetime(2015, 6, 1, tzinfo=UTC)
# Their families of browsers with ours.
BROWSERS = {"Chrome": "Chrome", "Firefox": "Firefox", "MSIE": "Internet Explorer", "Safari": "Safari", "Opera": "Opera"}


def goaccess(connection: Connection, rounds: int, quick: bool) -> list[str]:
    """Compare visitors, requests, missing pages, bytes and browsers."""
    program = shutil.which("goaccess")
    if program is None:
        return ["## Beside GoAccess", "Not measured: `goaccess` is not on the PATH."]
    db = fresh(connection)
    with tempfile.TemporaryDirectory(prefix="squinney-bench-") as folder:
        path = sample_log(Path(folder), 10_000)
        theirs = _theirs(program, path)
        log = EventLog(db)
        log.import_file(path, site=SITE)
        ReportDays(db).update()
        events = list(log.between(FIRST, LAST))
        with_robots, without = (_totals(Reports(db), robots) for robots in ("in", "out"))
    general, browsers = theirs["general"], {row["data"]: row for row in theirs["browsers"]["data"]}
    missing = theirs["not_found"]["metadata"]["hits"]["total"]["value"]
    rows: list[Iterable[Any]] = [
        ("requests", general["total_requests"], with_robots["requests"], without["requests"]),
        ("bytes", general["bandwidth"], with_robots["bytes"], without["bytes"]),
        ("404", missing, with_robots["missing"], without["missing"]),
        ("visitors", general["unique_visitors"], with_robots["visitors"], without["visitors"]),
        ("visitors, counted as GoAccess does", general["unique_visitors"], _visitors(events, _is_no_client_error), ""),
        ("visitors who view a page", "", _visitors(events, _is_view), ""),
    ]
    by_browser = Counter(_family(event) for event in events)
    for name, ours in BROWSERS.items():
        rows.append((f"requests of {ours}", browsers[name]["hits"]["count"], by_browser[ours], ""))
    shown = [[f"{cell:,}" if isinstance(cell, int) else cell for cell in row] for row in rows]
    return ["## Beside GoAccess", report.table(["", "GoAccess", "with robots", "without robots"], shown)]


def _theirs(program: str, path: Path) -> Any:
    found = path.with_suffix(".json")
    options = ["--log-format=COMBINED", "--no-global-config", "--no-progress", "-o", str(found)]
    subprocess.run([program, str(path), *options], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return json.loads(found.read_text())


def _totals(reports: Reports, robots: str) -> dict[str, int]:
    days = Days(date(2015, 5, 1), date(2015, 5, 31))
    whole = reports.read(SITE, days, Filters.of(robots=robots), limit=1_000)
    missing = whole.panels["not_found"]
    return {**whole.totals, "missing": sum(row.count for row in missing.rows)}


def _visitors(events: Iterable[Document], counts: Callable[[Document], bool]) -> int:
    return len(
        {(event["time"].date(), event.get("host"), event.get("user_agent")) for event in events if counts(event)}
    )


def _is_no_client_error(event: Document) -> bool:
    return not 400 <= event["status"] < 500


def _is_view(event: Document) -> bool:
    succeeds = 200 <= event["status"] < 300 or event["status"] == 304
    return event["method"] == "GET" and succeeds and not is_static(event["path"])


def _family(event: Document) -> str:
    agent = agent_of(event.get("user_agent", ""))
    return "" if agent.robot else agent.browser
