"""Views of this site's pages become events and hits of this site, without anybody's address."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from starlette.testclient import TestClient
from tests.api.conftest import SECRET
from tests.systems.analytics.conftest import stored_events

from squinney import assembly
from squinney.clock import utcnow
from squinney.http.site_options import SiteOptions
from squinney.identity import Person
from squinney.mongo.schema import Document
from squinney.service.links.page_views import ROBOTS, SITE, PageView, PageViews
from squinney.service.site import create_site

BROWSER = {"user-agent": "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0", "accept": "text/html"}


@pytest.fixture
def views(systems: assembly.Assembled) -> Iterator[PageViews]:
    views = PageViews(systems, keep_days=30)
    yield views
    views.close()


@pytest.fixture
def visitor(systems: assembly.Assembled, views: PageViews) -> Iterator[TestClient]:
    """A visitor of a site that counts its views."""
    app = create_site(systems, options=SiteOptions(secret=SECRET), page_views=views)
    with TestClient(app, headers=BROWSER, client=("203.0.113.77", 1)) as client:
        yield client


def events(systems: assembly.Assembled) -> list[Document]:
    return sorted(stored_events(systems.db), key=lambda event: event["time"])


def pages(systems: assembly.Assembled, site: str = SITE) -> dict[str, int]:
    counted = systems.db["analytics.hits_daily"].find({"metadata.site": site})
    return {one["metadata"]["page"]: one["total"] for one in counted}


def test_a_view_is_an_event_and_a_hit_and_moves_the_chart(
    visitor: TestClient, systems: assembly.Assembled, views: PageViews
) -> None:
    visitor.get("/shop?utm_source=secret", headers={"referer": "https://news.example/today?user=7"})
    visitor.get("/shop")
    views.flush()
    first, second = events(systems)
    assert (first["site"], first["path"], first["status"], first["method"]) == (SITE, "/shop", 200, "GET")
    assert first["bytes"] > 1_000
    assert first["referer"] == "https://news.example/today"
    assert first["host"] == second["host"]
    assert first["forget_at"] - first["time"] == timedelta(days=30)
    assert "robot" not in first
    assert pages(systems) == {"/shop": 2}
    shown = visitor.get("/analytics/hits").text
    assert "last hour, by minute, all pages: 2 in all" in shown
    assert f"hits of all pages of {SITE} in 7 days</dt><dd>2<" in shown
    one = visitor.get("/analytics/hits?page=/nothing").text
    assert f"hits of /nothing of {SITE} in 7 days</dt><dd>0<" in one  # the headline is of what the charts show


def test_nobodys_address_is_stored(visitor: TestClient, systems: assembly.Assembled, views: PageViews) -> None:
    visitor.get("/")
    views.flush()
    stored = [document for name in systems.db.list_collection_names() for document in systems.db[name].find()]
    assert "203.0.113.77" not in str(stored)


def test_a_visitor_is_another_one_the_next_day_and_on_another_address(systems: assembly.Assembled) -> None:
    ids = systems.services["analytics"]["visitor_ids"]
    now = utcnow().replace(hour=12)
    today = ids.id_of("203.0.113.7", "x", now)
    assert type(ids)(systems.db).id_of("203.0.113.7", "x", now) == today  # in another process
    others = {ids.id_of("203.0.113.8", "x", now), ids.id_of("203.0.113.7", "x", now + timedelta(days=1))}
    assert len({today, *others}) == 3
    days = systems.db["analytics.visitor_salts"].find()
    assert {(one["delete_at"] - timedelta(days=2)).strftime("%Y-%m-%d") for one in days} == {
        f"{now:%Y-%m-%d}",
        f"{now + timedelta(days=1):%Y-%m-%d}",
    }


def test_mongodb_deletes_salts_and_events_by_itself(systems: assembly.Assembled) -> None:
    for name, field in (("analytics.visitor_salts", "delete_at"), ("analytics.events", "forget_at")):
        index = systems.db[name].index_information()[f"{field}_1"]
        assert index["expireAfterSeconds"] == 0


def test_robots_are_marked_and_counted_apart(
    visitor: TestClient, systems: assembly.Assembled, views: PageViews
) -> None:
    visitor.get("/", headers={"user-agent": "Googlebot/2.1"})
    views.flush()
    assert [(one["site"], one["robot"]) for one in events(systems)] == [(SITE, True)]
    assert (pages(systems), pages(systems, ROBOTS)) == ({}, {"/": 1})


def test_what_is_no_whole_page_is_no_view(visitor: TestClient, systems: assembly.Assembled, views: PageViews) -> None:
    for path in ("/analytics/charts/minute", "/analytics/top", "/healthz", "/static/site.css", "/analytics/charts/day"):
        visitor.get(path)
    visitor.head("/shop")
    views.flush()
    assert events(systems) == []


def test_a_missing_page_is_an_event_without_a_counter(
    visitor: TestClient, systems: assembly.Assembled, views: PageViews
) -> None:
    visitor.get("/nowhere")
    views.flush()
    assert [(one["path"], one["status"]) for one in events(systems)] == [("/nowhere", 404)]
    assert pages(systems) == {}


def test_paths_of_private_pages_are_not_recorded(
    visitor: TestClient, systems: assembly.Assembled, views: PageViews
) -> None:
    identity = systems.services["identity"]
    person: Person = identity["people"].sign_up("ed", "correct horse battery", role="editor")
    visitor.cookies.set("squinney", f"s.{identity['sessions'].start(person)}")
    nodes = systems.services["content"]["nodes"]
    author = {"_id": person["_id"], "name": "Ed"}
    for name in ("an-open-page", "a-hidden-page"):
        node = nodes.create(None, name, "basic-page", "A page", author, {"text": "x"}, published=utcnow())
    nodes.set_access(node, {"read": [f"user:{person['_id']}"], "edit": []})
    for path in ("/site/an-open-page", "/site/a-hidden-page"):
        assert visitor.get(path).status_code == 200
    views.flush()
    assert pages(systems) == {"/site/an-open-page": 1, "/site/{path:path}": 1}


def test_views_wait_in_a_bounded_list(systems: assembly.Assembled, views: PageViews) -> None:
    views.close()
    for number in range(6_000):
        views.record(PageView(f"/{number}", utcnow(), 200, 1, "203.0.113.7", "x"))
    views._hits.record = lambda *hit: None  # type: ignore[method-assign]  # they are closed
    views.flush()
    assert len(events(systems)) == 5_000


def test_a_page_behind_a_cache_reports_its_own_view(
    visitor: TestClient, systems: assembly.Assembled, views: PageViews
) -> None:
    asked = {"page": "/cached?utm_source=letter&id=7", "referrer": "https://news.example/today?user=7"}
    answer = visitor.get("/analytics/view", params=asked)
    assert (answer.status_code, answer.content) == (204, b"")
    for foreign in ("https://other.example/", "//other.example/", "relative"):
        assert visitor.get("/analytics/view", params={"page": foreign}).status_code == 204
    assert visitor.get("/analytics/view", params=asked, headers={"sec-fetch-site": "cross-site"}).status_code == 204
    visitor.get("/shop?utm_campaign=may&token=secret")
    views.flush()
    reported, seen = events(systems)
    assert (reported["path"], reported["query"]) == ("/cached", "utm_source=letter")
    assert (reported["referer"], reported["host"]) == ("https://news.example/today", seen["host"])
    assert seen["query"] == "utm_campaign=may"
    assert pages(systems) == {"/shop": 1}  # anybody can report any page, which makes no counter
    script = visitor.get("/static/analytics/tracker.js")
    assert len(script.content) < 2_000
    assert 'credentials: "omit"' in script.text  # so the browser neither sends a cookie nor takes one
