"""Analytics over HTTP, and its pages."""

from __future__ import annotations

import html
import io
import re
from datetime import timedelta
from typing import Any

import pytest
from starlette.testclient import TestClient

from squinney import assembly
from squinney.analytics import EventLog, Hits, Rollups, feed_hits, page_bytes, verify
from squinney.clock import utcnow
from squinney.mongo.deadlines import seconds_left

DAY = {"start": "2026-03-29T00:00:00+01:00", "end": "2026-03-30T00:00:00+02:00"}
EVENT = {"time": "2026-03-29T12:00:00+02:00", "host": "h", "path": "/<b>", "status": 200, "bytes": 10}


def test_events_come_back(site: TestClient) -> None:
    stored = site.post("/api/analytics/events", json={"events": [EVENT, {**EVENT, "$x": 1}, {**EVENT, "tenant": "a"}]})
    assert stored.status_code == 201
    assert stored.json()["stored"] == 2
    assert [failure["index"] for failure in stored.json()["failures"]] == [1]
    page = site.get("/api/analytics/events", params={**DAY, "path": "/<b>"}).json()
    assert [event["time"] for event in page["items"]] == ["2026-03-29T10:00:00Z"] * 2
    assert page["next"] is None
    assert site.get("/api/analytics/events/by-status", params=DAY).json() == {"200": 2}
    (row,) = site.get("/api/analytics/events/by-day-and-path", params=DAY).json()["items"]
    assert (row["path"], row["count"]) == ("/<b>", 2)


def test_days_and_paths_come_in_pages_however_long_a_path_is(site: TestClient) -> None:
    paths = ["", "/a", "/" + "\U0001f43f" * 5_000, "/" + "\U0001f43f" * 6_000, "/\uffff"]
    times = ["2026-03-29T12:00:00Z", "2026-03-29T23:59:59Z", "2027-03-29T00:00:00Z"]
    events = [{"time": time, "path": path} for time in times for path in paths] + [{"time": times[0]}]
    assert site.post("/api/analytics/events", json={"events": events}).json()["stored"] == 16
    asked = {"start": "1000-01-01T00:00:00Z", "end": "9990-01-01T00:00:00Z", "limit": 3}
    rows: list[Any] = []
    while True:
        page = site.get("/api/analytics/events/by-day-and-path", params=asked).json()
        assert len(page["items"]) <= 3
        rows += [(row["day"][:10], row["path"], row["count"]) for row in page["items"]]
        if page["next"] is None:
            break
        asked["cursor"] = page["next"]
    long = "/" + "\U0001f43f" * 511
    expected = {"2026-03-29": [3, 2, 2, 4], "2027-03-29": [1, 1, 1, 2]}
    assert rows == [
        (day, path, count)
        for day, counts in expected.items()
        for path, count in zip(["", "/a", "/\uffff", long], counts, strict=True)
    ]


def test_a_number_that_is_not_finite_is_reported_and_breaks_no_reader(site: TestClient) -> None:
    body = f'{{"events": [{{"time": "{EVENT["time"]}", "seconds": 1e999}}, {{"time": "{EVENT["time"]}"}}]}}'
    stored = site.post("/api/analytics/events", content=body, headers={"content-type": "application/json"})
    assert stored.json() == {"stored": 1, "failures": [{"index": 0, "reason": "seconds must be a finite number"}]}
    assert len(site.get("/api/analytics/events", params=DAY).json()["items"]) == 1


def test_hits_are_counted_and_read_as_series(site: TestClient) -> None:
    hits = [{"site": "s", "page": "/p", "at": "2026-03-29T00:30:00+01:00", "count": 3}]
    assert site.post("/api/analytics/hits", json={"hits": hits}).json() == {"hits": 3}
    asked = {**DAY, "site": "s", "page": "/p", "by": "hour", "time_zone": "Europe/Berlin"}
    hours = site.get("/api/analytics/series", params=asked).json()
    assert len(hours) == 23
    assert hours[0] == {"at": "2026-03-29T00:00:00+01:00", "hits": 3}
    csv = site.get("/api/analytics/series.csv", params=asked)
    assert csv.headers["content-type"].startswith("text/csv")
    assert csv.text.splitlines()[:2] == ["at,hits", "2026-03-29T00:00:00+01:00,3"]
    whole = {"start": "2026-03-28T00:00:00Z", "end": "2026-03-30T00:00:00Z", "site": "s"}
    assert site.get("/api/analytics/top", params=whole).json() == [{"page": "/p", "hits": 3}]


def test_a_key_stores_and_counts_once(site: TestClient) -> None:
    once = {"Idempotency-Key": "k"}
    events, hit = {"events": [EVENT, {**EVENT, "$x": 1}]}, {"site": "s", "page": "/p", "at": EVENT["time"], "count": 3}
    stored = [site.post("/api/analytics/events", json=events, headers=once) for _ in range(2)]
    counted = [site.post("/api/analytics/hits", json={"hits": [hit]}, headers=once) for _ in range(2)]
    assert [(response.status_code, response.json()["stored"]) for response in stored] == [(201, 1)] * 2
    assert [(response.status_code, response.json()) for response in counted] == [(201, {"hits": 3})] * 2
    assert len(site.get("/api/analytics/events", params=DAY).json()["items"]) == 1
    whole = {"start": "2026-03-28T00:00:00Z", "end": "2026-03-30T00:00:00Z", "site": "s"}
    assert site.get("/api/analytics/top", params=whole).json() == [{"page": "/p", "hits": 3}]
    other = site.post("/api/analytics/hits", json={"hits": [{**hit, "count": 4}]}, headers=once)
    assert (other.status_code, other.json()["code"]) == (409, "key-reused")


def test_imports_rejects_and_roll_ups(site: TestClient, systems: assembly.Assembled) -> None:
    line = '203.0.113.7 - - [29/Mar/2026:12:00:00 +0000] "GET /p HTTP/1.1" 200 70 "-" "-"\n'
    EventLog(systems.db).import_file(io.BytesIO(f"{line}bad <script>\n{line}worse\n".encode()))
    Rollups(systems.db, key="path", value="bytes", time="time").run()
    (source,) = site.get("/api/analytics/imports").json()["items"]
    assert (source["stored"], source["rejected"]) == (2, 2)
    rejects = site.get(f"/api/analytics/imports/{source['id']}/rejects", params={"limit": 1}).json()
    more = site.get(f"/api/analytics/imports/{source['id']}/rejects", params={"cursor": rejects["next"]}).json()
    assert [row["line_number"] for row in rejects["items"] + more["items"]] == [2, 4]
    (day,) = site.get(
        "/api/analytics/rollups/daily", params={**DAY, "key": "/p", "start": "2026-03-28T00:00:00Z"}
    ).json()
    assert (day["total"], day["count"], day["mean"]) == (140, 2, 70)
    unknown = site.get("/api/analytics/imports/0000000000000000/rejects")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "unknown-source")
    page = site.get(f"/analytics/imports/{source['id']}")
    assert "bad &lt;script&gt;" in page.text
    site.cookies.clear()
    refused = site.get(f"/analytics/imports/{source['id']}", headers={"Accept": "text/html"}, follow_redirects=False)
    assert (refused.status_code, refused.headers["location"][:8]) == (303, "/sign-in")


def test_one_sites_page_shows_no_bytes_of_another(site: TestClient, systems: assembly.Assembled) -> None:
    for name, size in (("ours.example", 70), ("theirs.example", 4_000), ("", 9)):
        line = f'203.0.113.7 - - [29/Mar/2026:12:00:00 +0000] "GET /p HTTP/1.1" 200 {size} "-" "{name}"\n'
        EventLog(systems.db).import_file(io.BytesIO(line.encode()), site=name)
    page_bytes(systems.db).run()

    def shown(name: str) -> list[str]:
        asked = {"site": name, "page": "/p", "days": 1, "until": "2026-03-29T13:00:00Z"}
        return re.findall(r"(\S+) bytes in (\d+) requests", site.get("/analytics/hits", params=asked).text)

    assert (shown("ours.example"), shown("theirs.example")) == ([("70", "1")], [("4k", "1")])
    assert (shown(""), shown("nobody.example")) == ([("9", "1")], [])
    assert list(verify(systems.db)) == []


@pytest.mark.parametrize(
    ("path", "parameters", "said"),
    [
        ("series", {**DAY, "by": "century"}, "by"),
        ("series", {**DAY, "time_zone": "Mars"}, "no time zone"),
        ("series", {"start": "2026-03-29T00:00:00", "end": DAY["end"]}, "timezone"),
        ("series", {"start": DAY["end"], "end": DAY["start"]}, "start must not be after end"),
        ("series", {"start": "1900-01-01T00:00:00Z", "end": DAY["end"], "by": "minute"}, "at most"),
        ("top", {"start": "2026-03-29T00:00:01Z", "end": DAY["end"]}, "whole hours"),
        ("rollups/hundredly", {**DAY, "key": "/"}, "level must be one of"),
        ("events", {**DAY, "path": "/", "host": "h"}, "not both"),
        ("events", {**DAY, "limit": 0}, "limit"),
        ("events/by-day-and-path", {**DAY, "cursor": "nonsense"}, "cursor"),
        ("imports", {"cursor": "nonsense"}, "cursor"),
    ],
)
def test_a_bad_request_gives_one_problem(site: TestClient, path: str, parameters: dict[str, Any], said: str) -> None:
    response = site.get(f"/api/analytics/{path}", params=parameters)
    assert response.status_code == 422, response.text
    assert said in response.json()["detail"]


def test_the_page_shows_everything_and_its_charts_are_updated(site: TestClient, systems: assembly.Assembled) -> None:
    hits = systems.services["analytics"]["hits"]
    hits.record("s", "/<b>", utcnow(), 3)
    page = site.get("/analytics/hits", headers={"accept": "text/html"})
    assert page.status_code == 200
    for title in ("last hour, by minute", "last day, by hour", "last 30 days", "last 12 months", "Top pages", "Status"):
        assert title in page.text
    assert "<b>" not in page.text
    assert page.text.count("<svg") == 4
    before = site.get("/analytics/charts/minute", params={"site": "s", "page": "/<b>"})
    assert before.headers["cache-control"] == "no-store"
    assert ": 3 in all" in before.text
    hits.record("s", "/<b>", utcnow(), 4)
    assert ": 7 in all" in site.get("/analytics/charts/minute", params={"site": "s", "page": "/<b>"}).text
    assert "/&lt;b&gt;" in site.get("/analytics/top", params={"site": "s"}).text


@pytest.mark.parametrize("until", ["2026-11-16T09:30:00Z", "2027-03-01T00:00:00Z", "2027-03-31T23:59:59Z"])
@pytest.mark.parametrize("time_zone", ["UTC", "Asia/Kolkata", "America/New_York"])
def test_each_chart_has_as_many_bars_as_it_says(site: TestClient, until: str, time_zone: str) -> None:
    asked = {"site": "s", "page": "/", "until": until, "time_zone": time_zone}
    charts = {unit: site.get(f"/analytics/charts/{unit}", params=asked).text for unit in ("minute", "hour", "month")}
    bars = {unit: chart.count('class="bar"') for unit, chart in charts.items()}
    assert bars == {"minute": 60, "hour": 24, "month": 12}


@pytest.mark.parametrize("until", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
def test_the_first_and_last_years_are_accepted(site: TestClient, until: str) -> None:
    assert site.get("/analytics/hits", params={"until": until, "days": 3_660}).status_code == 422
    asked = {"start": until, "end": until.replace("01T", "02T").replace("59Z", "59.9Z"), "page": "/"}
    for path in ("series", "series.csv", "events", "events/by-day-and-path", "events/by-status", "rollups/daily?key=a"):
        assert site.get(f"/api/analytics/{path}", params=asked).status_code in (200, 422), path


def test_a_page_without_a_name_can_be_chosen(site: TestClient, systems: assembly.Assembled) -> None:
    hits = systems.services["analytics"]["hits"]
    hits.record("s", "", utcnow(), 2)
    hits.record("s", "/p", utcnow(), 3)
    assert "last hour, by minute, all pages: 5 in all" in site.get("/analytics/hits", params={"site": "s"}).text
    link = re.search(r'href="([^"]+)">\(empty\)', site.get("/analytics/top", params={"site": "s"}).text)
    assert link is not None
    assert "last hour, by minute, the page without a name: 2 in all" in site.get(html.unescape(link[1])).text


def test_a_site_without_hits_stays_chosen(site: TestClient, systems: assembly.Assembled) -> None:
    systems.services["analytics"]["hits"].record("s", "/", utcnow())
    assert '<option value="t" selected>t</option>' in site.get("/analytics/hits", params={"site": "t"}).text
    assert '<option value="s" selected>s</option>' in site.get("/analytics/hits").text


def test_an_old_log_is_found_from_the_page(site: TestClient, systems: assembly.Assembled) -> None:
    line = '203.0.113.7 - - [17/May/2015:12:00:00 +0000] "GET /p HTTP/1.1" 200 70 "-" "-"\n'
    imported = EventLog(systems.db).import_file(io.BytesIO(line.encode()), site="old")
    feed_hits(systems.db, imported.source["_id"])
    page = site.get("/analytics/hits")
    assert "2015-05-18" in page.text
    then = site.get("/analytics/hits", params={"site": "old", "until": "2015-05-18T00:00:00Z"})
    assert "/p, by" not in then.text
    assert "last day, by hour, all pages: 1 in all" in then.text
    assert "data-live" not in then.text


def test_csv_from_the_page(site: TestClient, systems: assembly.Assembled) -> None:
    now = utcnow()
    systems.services["analytics"]["hits"].record("s", "/p", now)
    bounds = {"start": (now - timedelta(days=1)).isoformat(), "end": (now + timedelta(hours=1)).isoformat()}
    text = site.get("/analytics/series.csv", params={"site": "s", "page": "/p", "by": "day", **bounds}).text
    assert text.startswith("at,hits\r\n")
    assert ",1\r\n" in text


@pytest.mark.parametrize(
    ("path", "body", "where", "method"),
    [
        ("events", {"events": [{"time": "2026-01-01T00:00:00Z", "host": "h"}]}, EventLog, "record_many"),
        ("hits", {"hits": [{"site": "s", "page": "/", "at": "2026-01-01T00:00:00Z"}]}, Hits, "record_many"),
    ],
)
def test_recording_waits_only_ten_seconds_for_an_unreachable_mongodb(
    site: TestClient, monkeypatch: pytest.MonkeyPatch, path: str, body: Any, where: type, method: str
) -> None:
    left = []
    record = getattr(where, method)

    def recorded(self: Any, *args: Any, **kwargs: Any) -> Any:
        left.append(seconds_left())
        return record(self, *args, **kwargs)

    monkeypatch.setattr(where, method, recorded)
    assert site.post(f"/api/analytics/{path}", json=body).status_code == 201
    assert [seconds <= 10 for seconds in left] == [True]
