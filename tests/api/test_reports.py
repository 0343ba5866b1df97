"""Reports over HTTP, and their pages."""

from __future__ import annotations

import csv
import html
import io
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from starlette.testclient import TestClient

from squinney import assembly
from squinney.analytics import EventLog, ReportDays
from squinney.clock import utcnow
from squinney.mongo.schema import Db

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:143.0) Gecko/20100101 Firefox/143.0"
CHROME = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/141.0 Safari/537.36"
ROBOT = "Mozilla/5.0 (compatible; Searchbot/2.1; +https://search.example/bot)"
NOON = datetime(2026, 5, 17, 12, tzinfo=UTC)
ASKED = {"site": "s", "from": "2026-05-17", "to": "2026-05-17"}


@pytest.fixture
def reported(systems: assembly.Assembled) -> Db:
    """A site with two visitors and a robot on one day."""
    events = [
        {"host": "a", "user_agent": FIREFOX, "path": "/<b>", "referer": "https://news.example/"},
        {"host": "a", "user_agent": FIREFOX, "path": "/b"},
        {"host": "b", "user_agent": CHROME, "path": "/b", "query": "utm_campaign==HYPERLINK(1)"},
        {"host": "r", "user_agent": ROBOT, "path": "/b"},
        {"host": "a", "user_agent": FIREFOX, "path": "/gone", "status": 404},
    ]
    log: EventLog = systems.services["analytics"]["events"]
    log.record_many(
        {"time": NOON + timedelta(minutes=n), "site": "s", "method": "GET", "status": 200, "bytes": 10, **event}
        for n, event in enumerate(events)
    )
    ReportDays(systems.db).update()
    return systems.db


@pytest.mark.usefixtures("reported")
def test_the_report_over_http(site: TestClient) -> None:
    report = site.get("/api/analytics/report", params=ASKED).json()
    assert {name: report["totals"][name] for name in ("visitors", "visits", "views", "bounces")} == {
        "visitors": 2, "visits": 2, "views": 3, "bounces": 1,
    }  # fmt: skip
    assert (report["unit"], sum(point["views"] for point in report["chart"]), len(report["chart"])) == ("hour", 3, 24)
    assert [row["key"] for row in report["panels"]["robots"]["rows"]] == ["Searchbot"]
    with_robots = site.get("/api/analytics/report", params={**ASKED, "robots": "in"}).json()
    assert with_robots["totals"]["views"] == 4
    chosen = {**ASKED, "filter": ["page=/b", "browser=Chrome"]}
    (row,) = site.get("/api/analytics/report/entries", params=chosen).json()["rows"]
    assert row == {"key": "/b", "visitors": 1, "count": 1, "amount": 1}
    refused = site.get("/api/analytics/report", params={**ASKED, "filter": "colour=red"})
    assert (refused.status_code, "colour is not one of" in refused.text) == (422, True)
    assert site.get("/api/analytics/report/none", params=ASKED).status_code == 422
    assert site.get("/api/analytics/report", params={**ASKED, "to": "2026-05-16"}).status_code == 422


@pytest.mark.usefixtures("reported")
@pytest.mark.parametrize("path", ["/api/analytics/report/{}.csv", "/analytics/panels/{}.csv"])
def test_a_panel_as_csv_has_no_formulas(site: TestClient, path: str) -> None:
    found = list(csv.reader(io.StringIO(site.get(path.format("campaigns"), params=ASKED).text)))
    assert found == [["campaign", "visitors", "visits", "views"], ["'=HYPERLINK(1)", "1", "1", "1"]]


def _numbers(page: str) -> dict[str, str]:
    return {
        name.strip(): value.strip()
        for name, value in re.findall(r"<dt>(?:<a[^>]*>)?([^<]+)(?:</a>)?</dt>\s*<dd>([^<]+)", page)
    }


@pytest.mark.usefixtures("reported")
def test_each_row_of_the_page_filters_all_panels(site: TestClient) -> None:
    page = site.get("/analytics", params=ASKED).text
    assert _numbers(page)["visitors"] == "2"
    assert "<b>" not in page
    link = re.search(r'href="([^"]+)" title="[^"]*">news.example<', page)
    assert link
    filtered = site.get(html.unescape(link[1])).text
    assert (_numbers(filtered)["visitors"], "Chrome" in filtered) == ("1", False)
    back = re.search(r'class="tag" href="([^"]+)"', filtered)
    assert back
    assert _numbers(site.get(html.unescape(back[1])).text)["visitors"] == "2"
    switched = re.search(r'href="([^"]+)">with robots<', page)
    assert switched
    assert _numbers(site.get(html.unescape(switched[1])).text)["visitors"] == "3"


@pytest.mark.usefixtures("reported")
def test_an_empty_range_leads_to_the_last_numbers(site: TestClient) -> None:
    page = site.get("/analytics", params={"site": "s", "range": "7d"}).text
    link = re.search(r'href="([^"]+)">show that week<', page)
    assert link
    assert _numbers(site.get(html.unescape(link[1])).text)["page views"] == "3"


def test_a_page_refuses_what_is_no_range(site: TestClient) -> None:
    for asked in ({"from": "2026-13-01"}, {"range": "never"}, {"robots": "perhaps"}, {"status": "x"}):
        assert site.get("/analytics", params=asked).status_code == 422
    more: Any = site.get("/analytics/panels/none", params=ASKED)
    assert more.status_code == 422


@pytest.mark.usefixtures("reported")
def test_a_funnel_and_who_is_there_now(site: TestClient, systems: assembly.Assembled) -> None:
    steps = {"step": ["/<b>", "/b", "/never"]}
    funnel = site.get("/api/analytics/funnel", params={**ASKED, **steps}).json()
    assert [step["visits"] for step in funnel["steps"]] == [1, 1, 0]
    page = site.get("/analytics/funnel", params={**ASKED, **steps}).text
    assert ("50.0%" in page, "<b>" in page) == (True, False)
    assert site.get("/analytics/funnel", params=ASKED).status_code == 200
    assert site.get("/api/analytics/funnel", params={**ASKED, "step": ["/"] * 6}).status_code == 422
    view = {"time": utcnow(), "site": "s", "host": "now", "user_agent": FIREFOX, "path": "/now", "status": 200}
    systems.services["analytics"]["events"].record(view)
    assert site.get("/api/analytics/now", params={"site": "s"}).json() == {
        "visitors": 1, "pages": [{"page": "/now", "visitors": 1}],
    }  # fmt: skip
    assert "<strong>1</strong> person" in site.get("/analytics/now", params={"site": "s"}).text


@pytest.mark.usefixtures("reported")
def test_addresses_are_for_editors(site: TestClient, systems: assembly.Assembled) -> None:
    first = site.get("/api/analytics/hosts", params=ASKED).json()[0]
    assert first == {"host": "a", "requests": 3, "views": 2, "bytes": 30, "last_seen": "2026-05-17T12:04:00Z"}
    for path in ("/analytics/hosts.csv", "/api/analytics/hosts.csv"):
        rows = list(csv.reader(io.StringIO(site.get(path, params=ASKED).text)))
        assert rows[:2] == [
            ["host", "requests", "views", "bytes", "last_seen"],
            ["a", "3", "2", "30", "2026-05-17T12:04:00+00:00"],
        ]
    assert '<td class="path">a</td>' in site.get("/analytics/hosts", params=ASKED).text
    assert "/analytics/hosts?" in site.get("/analytics", params=ASKED).text
    systems.db["identity.people"].update_one({"_id": "admin"}, {"$set": {"role": "member"}})
    for path in ("/analytics/hosts", "/analytics/hosts.csv"):
        assert site.get(path, params=ASKED).status_code == 403
    assert "/analytics/hosts?" not in site.get("/analytics", params=ASKED).text


@pytest.mark.usefixtures("reported")
def test_goals_over_http(site: TestClient) -> None:
    put = site.put("/api/analytics/goals/saw/b", params={"site": "s"}, json={"pages": ["/b", "/never*"]})
    assert put.json() == {"site": "s", "name": "saw/b", "pages": ["/b", "/never*"]}
    site.put("/api/analytics/goals/lost", params={"site": "s"}, json={"pages": ["/gone"]})
    conversions = site.get("/api/analytics/goals", params=ASKED).json()
    assert [(goal["name"], goal["visits"], goal["rate"]) for goal in conversions["goals"]] == [
        ("lost", 0, 0.0), ("saw/b", 2, 1.0),
    ]  # fmt: skip
    firefox = site.get("/api/analytics/goals", params={**ASKED, "filter": "browser=Firefox"}).json()
    assert (firefox["visits"], firefox["goals"][1]["visits"]) == (1, 1)
    assert site.put("/api/analytics/goals/x", json={"pages": []}).status_code == 422
    assert site.delete("/api/analytics/goals/lost", params={"site": "s"}).status_code == 204
    assert site.delete("/api/analytics/goals/lost", params={"site": "s"}).status_code == 404


@pytest.mark.usefixtures("reported")
def test_goals_are_defined_by_editors(site: TestClient, systems: assembly.Assembled) -> None:
    form = {"name": "<b>", "pages": "/b\r\n\r\n /shop/* "}
    page = site.post("/analytics/goals", params=ASKED, data=form).text
    assert ("&lt;b&gt;" in page, "/b, /shop/*" in page, "100.0%" in page, "<b>" in page) == (True, True, True, False)
    systems.db["identity.people"].update_one({"_id": "admin"}, {"$set": {"role": "member"}})
    assert site.post("/analytics/goals", params=ASKED, data=form).status_code == 403
    assert site.post("/analytics/goals/remove", params=ASKED, data={"name": "<b>"}).status_code == 403
    page = site.get("/analytics/goals", params=ASKED).text
    assert ("100.0%" in page, "Define a goal" in page) == (True, False)
    systems.db["identity.people"].update_one({"_id": "admin"}, {"$set": {"role": "editor"}})
    assert "no goals yet" in site.post("/analytics/goals/remove", params=ASKED, data={"name": "<b>"}).text


LINE = b'203.0.113.7 - - [17/May/2026:12:05:03 +0000] "GET /a HTTP/1.1" 200 1234 "-" "curl/8.5.0"\n'
JSON = {"Accept": "application/json"}
PAGES_OF_SITES = (
    "/analytics?", "/analytics/now?", "/analytics/panels/pages?", "/analytics/panels/pages.csv?", "/analytics/funnel?",
    "/analytics/goals?", "/analytics/hits?", "/analytics/charts/day?", "/analytics/top?",
    "/analytics/series.csv?by=day&start=2026-05-17T00:00:00Z&end=2026-05-18T00:00:00Z&",
)  # fmt: skip


@pytest.mark.usefixtures("reported")
def test_a_private_site_is_for_editors(site: TestClient, systems: assembly.Assembled) -> None:
    analytics, view = systems.services["analytics"], {"host": "b", "user_agent": CHROME, "path": "/", "status": 200}
    analytics["events"].record({**view, "time": NOON, "site": "t"})
    analytics["events"].import_file(io.BytesIO(LINE), source="log-of-s", site="s")
    analytics["hits"].record_many([("s", "/", NOON, 1), ("t", "/", NOON, 1)])
    ReportDays(systems.db).update()
    site.post("/analytics/shares/privacy", params=ASKED, data={"is_private": "true"})
    for page in PAGES_OF_SITES:
        assert site.get(f"{page}site=s", headers=JSON).status_code == 200, page
    assert "log-of-s" in site.get("/analytics/hits?site=t").text
    site.cookies.clear()
    for page in PAGES_OF_SITES:
        assert site.get(f"{page}site=s", headers=JSON).status_code == 403, page
        assert site.get(f"{page}site=t", headers=JSON).status_code == 200, page
    for page in ("/analytics?site=t", "/analytics/hits?site=t"):
        text = site.get(page).text
        assert ('<option value="s"' in text, "log-of-s" in text) == (False, False)
    assert site.get("/analytics", headers=JSON).status_code == 200  # the first site that is public


@pytest.mark.usefixtures("reported")
def test_a_link_shows_its_site_and_nothing_else(site: TestClient, systems: assembly.Assembled) -> None:
    page = site.post("/analytics/shares", params=ASKED, data={"name": "For <Ann>", "days": "7"}).text
    made = re.search(r"/analytics/shared\?token=([\w-]{43})<", page)
    assert made
    assert "For &lt;Ann&gt;" in page
    token = made[1]
    stored = systems.db["analytics.shares"].find_one({}) or {}
    assert token not in str(stored)
    site.post("/analytics/shares/privacy", params=ASKED, data={"is_private": "true"})
    site.cookies.clear()
    shown = site.get("/analytics/shared", params={**ASKED, "site": "t", "token": token}).text
    assert _numbers(shown)["visitors"] == "2"
    links = {html.unescape(link) for link in re.findall(r'(?:href|action|data-now)="(/analytics[?/][^"]*)"', shown)}
    assert len(links) > 20
    for link in links:
        assert link.startswith("/analytics/shared"), link
        assert site.get(link if "?" in link else f"{link}?token={token}").status_code == 200, link
    assert site.get("/analytics", params=ASKED, headers=JSON).status_code == 403
    assert site.post("/analytics/shared", params={"token": token}).status_code in (403, 405)
    for wrong in ("", token[:-1], token + "x", stored["_id"]):
        for path in ("", "/now", "/panels/pages", "/panels/pages.csv"):
            refused = site.get(f"/analytics/shared{path}", params={**ASKED, "token": wrong}, headers=JSON)
            assert refused.status_code == 404, (path, wrong)
    systems.services["analytics"]["shares"].revoke(stored["_id"])
    assert site.get("/analytics/shared", params={"token": token}, headers=JSON).status_code == 404


@pytest.mark.usefixtures("reported")
def test_links_are_made_by_editors(site: TestClient, systems: assembly.Assembled) -> None:
    site.post("/analytics/shares", params=ASKED, data={"name": "Ann", "days": "0"})
    (share,) = systems.services["analytics"]["shares"].of("s")
    assert (share["created_by"], "expires_at" in share) == ("admin", False)
    revoked = site.post("/analytics/shares/revoke", params=ASKED, data={"share": share["_id"]})
    assert "There are no links." in revoked.text
    systems.db["identity.people"].update_one({"_id": "admin"}, {"$set": {"role": "member"}})
    assert site.get("/analytics/shares", params=ASKED).status_code == 403
    for path, form in (("", {"name": "x"}), ("/revoke", {"share": "x"}), ("/privacy", {"is_private": "true"})):
        assert site.post(f"/analytics/shares{path}", params=ASKED, data=form).status_code == 403
