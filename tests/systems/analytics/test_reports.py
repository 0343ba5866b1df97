"""Reports: every number equals the one counted from the events in the plainest way."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from dataclasses import astuple
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pymongo.client_session import ClientSession
from tests.systems.analytics import brute

from squinney.analytics import EventLog, Retention, forget
from squinney.analytics.reports.days import ReportDays
from squinney.analytics.reports.filters import DIMENSIONS, Filters
from squinney.analytics.reports.funnels import Funnel, FunnelStep
from squinney.analytics.reports.goals import MAX_GOALS, Conversions, Goals, Reached
from squinney.analytics.reports.ranges import Days, spans_of
from squinney.analytics.reports.reports import Report, Reports
from squinney.analytics.reports.requests import Requests, RequestsOfDay
from squinney.analytics.reports.shares import MAX_SHARES, Shares
from squinney.analytics.reports.sites import ReportSites
from squinney.analytics.reports.tally import PANELS, tally
from squinney.analytics.reports.visit_sources import own_hosts_of
from squinney.clock import utcnow
from squinney.errors import Conflict, Invalid, LimitReached, NotFound
from squinney.mongo.schema import Db

# The driver's threads use `random` while Hypothesis draws.
_BESIDE_THREADS = pytest.mark.filterwarnings("ignore:Do not use the `random` module")
SITE = "example.org"
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:143.0) Gecko/20100101 Firefox/143.0"
PHONE = (
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 Version/18.6 Mobile/15E Safari/604.1"
)
CRAWLER = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"
EVENTS = st.fixed_dictionaries(
    {
        "at": st.integers(0, 24 * 60 - 1),  # minutes
        "host": st.sampled_from(["a", "b", "c"]),
        "path": st.sampled_from(["/", "/a", "/b", "/style.css", "/robots.txt", "/gone"]),
        "status": st.sampled_from([200, 200, 200, 304, 301, 404]),
        "bytes": st.integers(0, 5),
    },
    optional={
        "user_agent": st.sampled_from([FIREFOX, PHONE, CRAWLER]),
        "referer": st.sampled_from(["https://www.google.de/", "https://news.example/x", "http://example.org/a"]),
        "query": st.sampled_from(
            ["utm_medium=email&utm_source=mail&utm_campaign=may", "q=1", "utm_source=chatgpt.com"]
        ),
        "method": st.sampled_from(["GET", "POST"]),
        "country": st.sampled_from(["DE", "IN"]),
        "seconds": st.sampled_from([0, 0.25, 2]),
    },
)
VALUES = {
    "page": ["/a", "/style.css", "/never"], "address": ["/a?q=1", "/"], "status": ["404", "200"], "entry": ["/"],
    "exit": ["/b"], "channel": ["Search", "Direct", "Email"], "referrer": ["news.example", "google.de"],
    "campaign": ["may"], "campaign_source": ["mail"], "campaign_medium": ["email"], "browser": ["Firefox", "Safari"],
    "system": ["iOS"], "device": ["desktop"], "country": ["DE"], "robot": ["Googlebot"], "reason": ["behaviour"],
}  # fmt: skip
FILTERS = st.dictionaries(st.sampled_from(DIMENSIONS), st.integers(0, 9), max_size=2).map(
    lambda chosen: {name: VALUES[name][number % len(VALUES[name])] for name, number in chosen.items()}
)


@_BESIDE_THREADS
@settings(max_examples=100, deadline=None)
@given(st.lists(EVENTS, max_size=25), FILTERS, st.sampled_from(["out", "in", "only"]))
def test_a_day_is_counted_as_by_brute_force(drawn: list[dict[str, Any]], values: dict[str, str], robots: str) -> None:
    start = datetime(2026, 5, 17, tzinfo=UTC)
    events = [{**one, "site": SITE, "time": start + timedelta(minutes=one["at"])} for one in drawn]
    events.sort(key=lambda event: event["time"])
    found = RequestsOfDay(start, own_hosts_of(SITE)).add(events)
    assert Requests.unpacked(found.packed()) == found
    filters = Filters.of(values, robots=robots)
    counted = tally(found, filters)
    expected = brute.day(events, SITE, values, filters.robots)
    assert {name: counted.totals[name] for name in expected["totals"]} == expected["totals"]
    assert {name: rows for name, rows in counted.panels.items() if rows} == expected["panels"]
    assert counted.hours["views"][:24] == [
        sum(count for at, count in expected["hours"].items() if at.hour == hour) for hour in range(24)
    ]


# Odd offsets; clocks that change at midnight, by half an hour, and back over midnight; a day that did not exist.
ZONES = [
    ("UTC", date(2026, 5, 17)),
    ("Asia/Kathmandu", date(2026, 5, 17)),
    ("Australia/Lord_Howe", date(2026, 4, 5)),
    ("Europe/Berlin", date(2026, 10, 25)),
    ("America/St_Johns", date(2010, 11, 7)),
    ("America/Sao_Paulo", date(2018, 11, 4)),
    ("Pacific/Apia", date(2011, 12, 30)),
    ("Pacific/Chatham", date(2026, 9, 27)),
    ("Pacific/Kiritimati", date(1994, 12, 31)),
    ("America/Caracas", date(2016, 5, 1)),
    ("Asia/Pyongyang", date(2015, 8, 15)),
    ("Asia/Tehran", date(2021, 9, 22)),
    ("Africa/Cairo", date(2026, 4, 24)),
    ("Africa/Casablanca", date(2026, 3, 22)),
    ("Antarctica/Troll", date(2026, 3, 29)),
]


def _log(seed: str, around: date, number: int = 400) -> list[dict[str, Any]]:
    """Return a log of five days around a date, with two sites."""
    rng = random.Random(seed)
    start = datetime(around.year, around.month, around.day, tzinfo=UTC) - timedelta(days=2)
    events = []
    for _ in range(number):
        event: dict[str, Any] = {
            "time": start + timedelta(seconds=rng.randrange(5 * 86_400)),
            "site": rng.choice([SITE, SITE, SITE, "other"]),
            "host": f"h{rng.randrange(8)}",
            "path": rng.choice(["/", "/a", "/b", "/style.css", "/x.png", "/gone"]),
            "method": "GET",
            "status": rng.choice([200, 200, 200, 404]),
            "bytes": rng.randrange(1_000),
            "user_agent": rng.choice([FIREFOX, PHONE, CRAWLER]),
        }
        for name, value in (
            ("referer", "https://t.co/x"),
            ("query", "utm_campaign=may"),
            ("seconds", 0.5),
            ("country", "NP"),
        ):
            if rng.random() < 0.2:
                event[name] = value
        events.append(event)
    return events


def _rows(report: Report) -> dict[str, dict[str, list[int]]]:
    return {
        name: {row.key: [row.visitors, row.count, row.amount] for row in panel.rows}
        for name, panel in report.panels.items()
        if panel.rows
    }


@pytest.mark.parametrize(("time_zone", "around"), ZONES, ids=[name for name, _ in ZONES])
def test_a_range_is_counted_as_by_brute_force_in_the_zone_of_the_site(
    analytics_db: Db, time_zone: str, around: date
) -> None:
    events = _log(time_zone, around)
    EventLog(analytics_db).record_many(events)
    ReportSites(analytics_db).change(SITE, time_zone=time_zone)
    ReportDays(analytics_db).update()
    reports = Reports(analytics_db)
    days = Days(around - timedelta(days=1), around + timedelta(days=1))
    whole = reports.read(SITE, days, Filters.of(robots="in"), limit=1_000)
    clicks = {PANELS[name].dimension: panel.rows[0].key for name, panel in whole.panels.items() if panel.rows}
    assert len(clicks) >= 12  # a click on the first row of every panel
    for values, robots in (
        ({}, "out"),
        ({}, "in"),
        ({}, "only"),
        ({"page": "/a"}, "out"),
        *(({dimension: key}, "in") for dimension, key in clicks.items()),
    ):
        report = reports.read(SITE, days, Filters.of(values, robots=robots), limit=1_000)
        arguments = SITE, days.first, days.last, time_zone, values, robots
        expected = brute.report(events, *arguments)
        assert report.totals == dict.fromkeys(report.totals, 0) | expected["totals"]
        assert _rows(report) == expected["panels"]
        assert [point.views for point in report.chart] == [expected["views"].get(day, 0) for day in days]
        before = days.before()
        earlier = brute.report(events, SITE, before.first, before.last, time_zone, values, robots)
        assert report.before == dict.fromkeys(report.before, 0) | earlier["totals"]
    day = reports.read(SITE, Days(around, around), Filters.of(robots="in"))
    local = [event["time"].astimezone(ZoneInfo(time_zone)) for event in events if event["site"] == SITE]
    assert sum(point.views for point in day.chart) == day.totals["views"]
    assert day.totals["requests"] == sum(at.date() == around for at in local)


@pytest.mark.parametrize(("time_zone", "around"), ZONES, ids=[name for name, _ in ZONES])
def test_addresses_are_counted_as_by_brute_force(analytics_db: Db, time_zone: str, around: date) -> None:
    events = _log(time_zone, around)
    for number, event in enumerate(events):
        if number % 7 == 0:
            del event["host"]
        if number % 11 == 0:
            event |= {"method": "POST"}
        if number % 13 == 0:
            event |= {"status": 304, "path": "/A.JPG"}
        if number % 17 == 0:
            del event["status"]
    EventLog(analytics_db).record_many(events)
    ReportSites(analytics_db).change(SITE, time_zone=time_zone)
    for days in (Days(around, around), Days(around - timedelta(days=1), around + timedelta(days=1))):
        expected = brute.hosts(events, SITE, days.first, days.last, time_zone)
        hosts = Reports(analytics_db).hosts(SITE, days)
        assert [astuple(host) for host in hosts] == expected
        assert Reports(analytics_db).hosts(SITE, days, limit=2) == hosts[:2]


def test_addresses_of_the_real_log(analytics_db: Db, real_log: Path) -> None:
    log = EventLog(analytics_db)
    log.import_file(real_log, site="semicomplete.com")
    events = [dict(event) for event in log.between(datetime(2015, 5, 1, tzinfo=UTC), datetime(2015, 6, 1, tzinfo=UTC))]
    days = Days(date(2015, 5, 18), date(2015, 5, 19))
    hosts = Reports(analytics_db).hosts("semicomplete.com", days, limit=1_000)
    expected = brute.hosts(events, "semicomplete.com", days.first, days.last, "UTC")
    assert [astuple(host) for host in hosts] == expected[:1_000]


def test_a_day_that_the_zone_has_skipped_has_no_hours() -> None:
    assert spans_of(date(2011, 12, 30), ZoneInfo("Pacific/Apia")) == []
    assert len(spans_of(date(2010, 11, 6), ZoneInfo("America/St_Johns"))) == 2  # clocks went back over midnight


def test_the_real_log(analytics_db: Db, real_log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("squinney.analytics.reports.tally.MAX_ROWS", 10_000)
    log = EventLog(analytics_db)
    log.import_file(real_log, site="semicomplete.com")
    ReportSites(analytics_db).change("semicomplete.com", time_zone="Asia/Kolkata")
    ReportDays(analytics_db).update()
    events = [dict(event) for event in log.between(datetime(2015, 5, 1, tzinfo=UTC), datetime(2015, 6, 1, tzinfo=UTC))]
    days = Days(date(2015, 5, 1), date(2015, 5, 31))
    cut = lambda rows: {key[:200]: row for key, row in rows.items()}  # noqa: E731
    for values, robots in (({}, "in"), ({"referrer": "google.com"}, "out")):
        report = Reports(analytics_db).read("semicomplete.com", days, Filters.of(values, robots=robots), limit=1_000)
        expected = brute.report(events, "semicomplete.com", days.first, days.last, "Asia/Kolkata", values, robots)
        assert report.totals == expected["totals"]
        for name in PANELS.keys() - {"large", "addresses", "robots"}:
            found = {row.key: [row.visitors, row.count, row.amount] for row in report.panels[name].rows}
            assert found == cut(expected["panels"].get(name, {}))


def _days_of(db: Db, site: str = SITE, robots: str = "in") -> dict[str, int]:
    days = Days(date(2026, 5, 1), date(2026, 5, 31))
    report = Reports(db).read(site, days, Filters.of(robots=robots))
    return {f"{point.at:%d}": point.views for point in report.chart if point.views}


def _view(day: int, **more: Any) -> dict[str, Any]:
    return {"time": datetime(2026, 5, day, 12, tzinfo=UTC), "site": SITE, "host": "h", "path": "/", **more}


def test_late_events_and_forgotten_logs_change_their_days(analytics_db: Db) -> None:
    log, days = EventLog(analytics_db), ReportDays(analytics_db)
    log.record_many([_view(17), _view(18)])
    assert days.update().days == 2
    log.record(_view(17, path="/late"))
    days.update()
    assert _days_of(analytics_db) == {"17": 2, "18": 1}
    days.update()
    assert _days_of(analytics_db) == {"17": 2, "18": 1}
    line = '203.0.113.7 - - [17/May/2026:12:05:03 +0000] "GET /a HTTP/1.1" 200 1234 "-" "curl/8.5.0"\n'
    imported = log.import_file(io.BytesIO(line.encode() * 3), site=SITE)
    days.update()
    assert _days_of(analytics_db) == {"17": 5, "18": 1}
    assert imported.source
    forget(analytics_db, imported.source["_id"])
    assert _days_of(analytics_db) == {"17": 2, "18": 1}


def test_a_day_stays_when_its_events_are_deleted(analytics_db: Db) -> None:
    log = EventLog(analytics_db)
    soon = datetime(2026, 6, 1, tzinfo=UTC)
    log.record_many([_view(17, forget_at=soon), _view(18)])
    ReportDays(analytics_db).update()
    analytics_db["analytics.events"].delete_many({"forget_at": soon})  # as MongoDB does then
    log.record_many([_view(17, path="/late"), _view(18, path="/late")])
    later = ReportDays(analytics_db, clock=lambda: soon)
    done = later.update()
    assert (done.days, done.frozen) == (1, [(SITE, date(2026, 5, 17))])
    later.rebuild()
    assert _days_of(analytics_db) == {"17": 1, "18": 2}
    with pytest.raises(Conflict, match="2026-05-17"):
        ReportSites(analytics_db, clock=lambda: soon).change(SITE, time_zone="Asia/Tokyo")


def test_days_before_the_retention_stay(analytics_db: Db) -> None:
    now = utcnow()  # MongoDB deletes by its own clock
    old, new = now - timedelta(days=20), now - timedelta(days=2)
    EventLog(analytics_db).record_many([_view(1, time=old), _view(1, time=new)])
    ReportDays(analytics_db).update()
    Retention(analytics_db).switch("ttl", keep_seconds=10 * 86_400)
    analytics_db["analytics.events"].delete_many({"to": {"$lt": new - timedelta(days=1)}})
    assert ReportDays(analytics_db).rebuild().frozen == [(SITE, old.date())]
    days = Days(old.date(), now.date())
    assert Reports(analytics_db).read(SITE, days, Filters.of(robots="in")).totals["views"] == 2


def test_own_hosts_are_no_sources(analytics_db: Db) -> None:
    events = [_view(17, referer=f"https://{host}/x") for host in ("www.example.org", "shop.example", "other.example")]
    EventLog(analytics_db).record_many([{**event, "host": f"h{n}"} for n, event in enumerate(events)])
    ReportSites(analytics_db).change(SITE, own_hosts=["https://www.shop.example/"])
    ReportDays(analytics_db).update()
    day = Days(date(2026, 5, 17), date(2026, 5, 17))
    panel = Reports(analytics_db).panel(SITE, "referrers", day, Filters.of(robots="in"))
    assert [row.key for row in panel.rows] == ["other.example"]
    with pytest.raises(Invalid, match="own_hosts"):
        ReportSites(analytics_db).change(SITE, own_hosts=["/"])


def test_rows_beyond_the_limit_are_summed(analytics_db: Db, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("squinney.analytics.reports.tally.MAX_ROWS", 2)
    EventLog(analytics_db).record_many([_view(17, path=f"/{n}", bytes=n) for n in range(5) for _ in range(6 - n)])
    ReportDays(analytics_db).update()
    day = Days(date(2026, 5, 17), date(2026, 5, 17))
    panel = Reports(analytics_db).panel(SITE, "pages", day, Filters.of(robots="in"), limit=1)
    assert [(row.key, row.count) for row in panel.rows] == [("/0", 6)]
    assert panel.others
    assert (panel.others.count, panel.others.amount) == (5 + 4 + 3 + 2, 5 + 8 + 9 + 8)


@_BESIDE_THREADS
@settings(max_examples=50, deadline=None)
@given(st.lists(EVENTS, max_size=25), st.lists(st.sampled_from(["/", "/a", "/b", "/*"]), min_size=1, max_size=5))
def test_a_funnel_is_counted_as_by_brute_force(drawn: list[dict[str, Any]], pages: list[str]) -> None:
    start = datetime(2026, 5, 17, tzinfo=UTC)
    events = [{**one, "site": SITE, "time": start + timedelta(minutes=one["at"])} for one in drawn]
    events.sort(key=lambda event: event["time"])
    found = Funnel(steps=[FunnelStep(page) for page in pages])
    found.add(RequestsOfDay(start, own_hosts_of(SITE)).add(events), Filters.of(robots="in"))
    visits = [visit for visit in brute.visits_of(events, SITE) if visit["views"]]
    depths = [_depth([event["path"] for event in visit["views"]], pages) for visit in visits]
    assert found.visits == len(visits)
    assert [step.visits for step in found.steps] == [sum(depth > n for depth in depths) for n in range(len(pages))]
    for number, step in enumerate(found.steps):
        come = {visit["visitor"] for visit, depth in zip(visits, depths, strict=True) if depth > number}
        assert step.visitors == len(come)


@_BESIDE_THREADS
@settings(max_examples=50, deadline=None)
@given(
    st.lists(EVENTS, max_size=25),
    st.lists(st.lists(st.sampled_from(["/", "/a", "/b", "/*", "/never"]), min_size=1, max_size=3), max_size=3),
    st.sampled_from(["out", "in", "only"]),
)
def test_goals_are_counted_as_by_brute_force(drawn: list[dict[str, Any]], goals: list[list[str]], robots: str) -> None:
    start = datetime(2026, 5, 17, tzinfo=UTC)
    events = [{**event, "site": SITE, "time": start + timedelta(minutes=event["at"])} for event in drawn]
    events.sort(key=lambda event: event["time"])
    conversions = Conversions(goals=[Reached("", pages) for pages in goals])
    conversions.add(RequestsOfDay(start, own_hosts_of(SITE)).add(events), Filters.of(robots=robots))
    visits = [
        visit
        for visit in brute.visits_of(events, SITE)
        if visit["views"] and (robots == "in" or bool(visit["reason"]) == (robots == "only"))
    ]
    assert conversions.visits == len(visits)
    for goal in conversions.goals:
        have = [
            visit
            for visit in visits
            if "/*" in goal.pages or {event["path"] for event in visit["views"]} & set(goal.pages)
        ]
        assert (goal.visits, goal.visitors) == (len(have), len({visit["visitor"] for visit in have}))
        assert conversions.rate(goal) == (len(have) / len(visits) if visits else 0)


def test_goals_of_sites(analytics_db: Db) -> None:
    goals = Goals(analytics_db)
    for site in (SITE, SITE + "x", "", "a"):
        goals.define(site, "$where", [f"/{site}"])
    goals.define(SITE, "$where", ["/b", "/c*"])
    goals.define(SITE, "another", ["/"])
    assert [(goal["_id"]["name"], goal["pages"]) for goal in goals.of(SITE)] == [
        ("$where", ["/b", "/c*"]),
        ("another", ["/"]),
    ]
    goals.undefine(SITE, "another")
    with pytest.raises(NotFound):
        goals.undefine(SITE, "another")
    for number in range(MAX_GOALS - 1):
        goals.define(SITE, f"{number}", ["/"])
    goals.define(SITE, "0", ["/a"])
    with pytest.raises(LimitReached):
        goals.define(SITE, "one more", ["/"])
    for name, pages in (("", ["/"]), ("x" * 101, ["/"]), ("n", []), ("n", [""]), ("n", ["/"] * 11), ("n", ["x" * 201])):
        with pytest.raises(Invalid):
            goals.define("other", name, pages)
    assert goals.of("other") == []


def test_links_to_share_a_site(analytics_db: Db) -> None:
    at = datetime(2096, 5, 17, tzinfo=UTC)  # MongoDB deletes what has expired
    shares, later = Shares(analytics_db, clock=lambda: at), Shares(analytics_db, clock=lambda: at + timedelta(days=1))
    lasting, token = shares.create(SITE, name="for ever")
    ending, soon = later.create(SITE, expires_at=at + timedelta(days=2))
    shares.create("other")
    assert (shares.site_of(token), shares.site_of(soon)) == (SITE, SITE)
    assert [share["_id"] for share in shares.of(SITE)] == [lasting["_id"], ending["_id"]]
    much_later = Shares(analytics_db, clock=lambda: at + timedelta(days=2))
    assert much_later.site_of(token) == SITE
    shares.revoke(lasting["_id"])
    for refused in (soon, token, "", "x" * 1_000):
        with pytest.raises(NotFound):
            much_later.site_of(refused)
    with pytest.raises(NotFound):
        shares.revoke(lasting["_id"])
    with pytest.raises(Invalid):
        shares.create(SITE, expires_at=at)
    for _ in range(MAX_SHARES):
        shares.create("third")
    with pytest.raises(LimitReached):
        shares.create("third")


def test_sites_are_private_or_public(analytics_db: Db) -> None:
    sites, reports = ReportSites(analytics_db), Reports(analytics_db)
    assert not sites.settings(SITE)["is_private"]
    sites.change(SITE, time_zone="Asia/Tokyo")
    sites.set_private(SITE, True)
    sites.set_private("new", True)
    assert (reports.private_sites(), sites.settings("new")["time_zone"]) == ({SITE, "new"}, "UTC")
    sites.set_private("new", False)
    assert (reports.private_sites(), sites.settings(SITE)["time_zone"]) == ({SITE}, "Asia/Tokyo")


def _depth(viewed: list[str], pages: list[str]) -> int:
    """Return the length of the longest beginning of `pages` that is a subsequence of what was viewed."""
    left = iter(viewed)
    for number, page in enumerate(pages):
        if not any(one == page or page == "/*" for one in left):
            return number
    return len(pages)


def test_a_funnel_over_days_and_who_is_there_now(analytics_db: Db) -> None:
    at = datetime(2026, 5, 18, 12, tzinfo=UTC)
    people = {"user_agent": FIREFOX, "method": "GET"}
    EventLog(analytics_db).record_many(
        _view(day, path=path, time=at + timedelta(days=day - 18, minutes=minute), host=host, **people)
        for day, minute, host, path in (
            (17, 0, "a", "/"), (17, 1, "a", "/shop/1"), (18, -2, "a", "/"), (18, -1, "b", "/shop/2"), (18, 0, "b", "/"),
        )
    )  # fmt: skip
    ReportDays(analytics_db).update()
    reports = Reports(analytics_db, clock=lambda: at)
    days = Days(date(2026, 5, 17), date(2026, 5, 18))
    found = reports.funnel(SITE, ["/", "/shop/*"], days)
    assert (found.visits, [step.visits for step in found.steps]) == (3, [3, 1])
    with pytest.raises(Invalid):
        reports.funnel(SITE, ["/"] * 6, days)
    now = reports.now(SITE)
    assert (now.visitors, now.pages) == (2, [("/", 2)])


def test_ranges() -> None:
    today = date(2026, 5, 17)
    lengths = {name: Days.of(name, today).count for name in ("today", "7d", "30d", "month", "year")}
    assert lengths == {"today": 1, "7d": 7, "30d": 30, "month": 17, "year": 137}
    assert Days.of("7d", today).before() == Days(date(2026, 5, 4), date(2026, 5, 10))
    for first, last in ((today, today - timedelta(days=1)), (date(1000, 1, 1), today), (today, date(9998, 1, 1))):
        with pytest.raises(Invalid):
            Days.between(first, last)


class _Stalling(ReportDays):
    """Does something else after it has read the events of a day, before it writes the day."""

    def __init__(self, db: Db, meanwhile: Callable[[], object]) -> None:
        super().__init__(db)
        self._meanwhile = meanwhile

    def _write(self, summary: dict[str, Any], content: bytes, session: ClientSession) -> None:
        meanwhile, self._meanwhile = self._meanwhile, lambda: None
        meanwhile()
        super()._write(summary, content, session)


def test_a_run_that_stalls_replaces_nothing(analytics_db: Db) -> None:
    log = EventLog(analytics_db)
    log.record(_view(17))

    def meanwhile() -> None:
        log.record(_view(17, path="/late"))
        ReportDays(analytics_db).update()

    assert not _Stalling(analytics_db, meanwhile).update().moved
    assert _days_of(analytics_db) == {"17": 2}


def test_settings_that_change_during_a_run(analytics_db: Db) -> None:
    EventLog(analytics_db).record(_view(17, time=datetime(2026, 5, 17, 23, tzinfo=UTC)))
    sites = ReportSites(analytics_db)
    sites.change(SITE, time_zone="Asia/Tokyo")
    _Stalling(analytics_db, lambda: sites.change(SITE, time_zone="Asia/Kathmandu")).update()
    assert sites.settings(SITE)["stale"]
    ReportDays(analytics_db).update()
    assert _days_of(analytics_db) == {"18": 1}
    assert {day["_id"]["zone"] for day in analytics_db["analytics.report_days"].find()} == {"Asia/Kathmandu"}
