"""What all pages have in common: addresses, tokens, compression, caching and what search engines read."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from html import unescape

import pytest
from starlette.testclient import TestClient

from squinney import assembly
from squinney.content import Author, Nodes
from squinney.http.access.visitor import Visitor
from squinney.http.pages import _ago

ADA: Author = {"_id": "ada", "name": "Ada"}


def test_a_page_ignores_parameters_that_it_does_not_know(site: TestClient) -> None:
    for path in ("/", "/shop", "/site", "/ledger", "/analytics", "/admin", "/prove"):
        assert site.get(f"{path}?x=1&utm_source=letter", headers={"Accept": "text/html"}).status_code == 200, path


def test_an_admin_sees_the_state_of_the_site_at_a_glance(site: TestClient, systems: assembly.Assembled) -> None:
    site.get("/shop", headers={"Accept": "text/html"})
    page = site.get("/admin", headers={"Accept": "text/html"}).text
    assert re.search(r"All \d+ are fine", page)
    assert "Nothing given up" in page
    assert "<code>GET /shop</code>" in page
    job = assembly.jobs(systems.systems)[0].name
    failed = {"name": job, "failures": 2, "runs": 2, "last": {"error": "x"}}
    systems.db["squinney.jobs"].update_one({"_id": job}, {"$set": failed}, upsert=True)
    assert job in site.get("/admin", headers={"Accept": "text/html"}).text


def test_reloading_the_target_of_a_form_leads_to_a_page(site: TestClient) -> None:
    page = site.get("/shop/cart/items", headers={"Accept": "text/html"}, follow_redirects=False)
    assert (page.status_code, page.headers["location"]) == (303, "/shop/cart")
    assert site.get("/shop/cart/items").status_code == 405, "a program is told what it did wrong"


def test_each_page_has_another_token_and_each_is_valid_for_its_visitor_only() -> None:
    ada, bob = Visitor(b"secret", "v.ada"), Visitor(b"secret", "v.bob")
    first, second = ada.csrf, ada.csrf
    assert first != second
    assert ada.is_csrf_valid(first)
    assert ada.is_csrf_valid(second)
    for wrong in (bob.csrf, "", "é", first[:-8], first[:32], "A" * 64, first + "AAAA", second[:32] + first[32:]):
        assert not ada.is_csrf_valid(wrong), wrong


def test_pages_are_compressed_and_live_events_are_not(site: TestClient) -> None:
    page = site.get("/api/docs", headers={"Accept-Encoding": "gzip"})
    assert page.headers["content-encoding"] == "gzip"
    assert int(page.headers.get("content-length", 0)) < len(page.content)
    assert "content-encoding" not in site.get("/api/docs", headers={"Accept-Encoding": "identity"}).headers


def test_search_engines_find_the_public_pages_only(site: TestClient, systems: assembly.Assembled) -> None:
    nodes: Nodes = systems.services["content"]["nodes"]
    nodes.create(None, "open", "basic-page", "Open", ADA, {"text": "text"}, published=datetime.now(UTC))
    nodes.create(None, "draft", "basic-page", "Draft", ADA, {"text": "text"})
    hidden = nodes.create(None, "hidden", "basic-page", "Hidden", ADA, {"text": "text"}, published=datetime.now(UTC))
    nodes.set_access(hidden, {"read": ["user:ada"], "edit": ["user:ada"]})
    robots = site.get("/robots.txt").text
    assert "Disallow: /admin" in robots
    assert "Sitemap: http://testserver/sitemap.xml" in robots
    listed = re.findall(r"<loc>http://testserver([^<]*)</loc>", site.get("/sitemap.xml").text)
    assert {"/", "/shop", "/site", "/site/open"} <= set(listed)
    assert not {"/site/draft", "/site/hidden"} & set(listed)


def test_a_feed_is_not_sent_again_and_its_id_is_the_same_at_every_host(
    site: TestClient, systems: assembly.Assembled
) -> None:
    nodes: Nodes = systems.services["content"]["nodes"]
    blog = nodes.create(None, "blog", "blog", "Blog", ADA, {}, published=datetime.now(UTC))
    nodes.create(blog, "one", "blog-entry", "One", ADA, {"text": "text"}, published=datetime.now(UTC))
    path = f"/site/-/feed/{blog['_id']}.atom"
    feed = site.get(path)
    modified = feed.headers["last-modified"]
    assert site.get(path, headers={"If-Modified-Since": modified}).status_code == 304
    assert site.get(path, headers={"If-Modified-Since": modified, "If-None-Match": '"other"'}).status_code == 200
    before = format_datetime(datetime.now(UTC) - timedelta(days=1), usegmt=True)
    for other in (before, "yesterday", "2026-01-01"):
        assert site.get(path, headers={"If-Modified-Since": other}).status_code == 200, other
    ids = [re.search("<atom:id>(.*?)</atom:id>", site.get(path, headers={"Host": host}).text) for host in ("a", "b")]
    assert ids[0]
    assert ids[1]
    assert ids[0][1] == ids[1][1]


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        *((5, "now"), (-5, "now"), (60, "1 minute ago"), (3_599, "59 minutes ago"), (-7_200, "in 2 hours")),
        *((86_400, "1 day ago"), (7 * 86_400, "2026-11-12")),
    ],
)
def test_times_are_shown_as_people_say_them(seconds: int, shown: str) -> None:
    now = datetime(2026, 11, 19, 12, tzinfo=UTC)
    assert _ago(now - timedelta(seconds=seconds), now) == shown


def test_the_api_page_shows_a_command_for_each_operation_and_its_body_is_accepted(site: TestClient) -> None:
    page = site.get("/api/docs", headers={"Accept": "text/html"}).text
    commands = [unescape(found) for found in re.findall(r'<pre class="code"><code>(.*?)</code>', page, re.DOTALL)]
    document = site.get("/api/openapi.json").json()
    assert len(commands) == sum(len(item) for item in document["paths"].values())
    opening = next(one for one in commands if "POST 'http://testserver/api/ledger/accounts'" in one)
    body = json.loads(opening.partition("-d '")[2].removesuffix("'"))
    opened = site.post("/api/ledger/accounts", json=body)
    assert opened.status_code == 201, (body, opened.text)


def test_a_page_names_the_versions_of_its_files_and_only_these_are_kept_for_good(site: TestClient) -> None:
    page = site.get("/", headers={"Accept": "text/html"}).text
    files = re.findall(r'(?:href|src)="(/static/[^"]+)"', page)
    assert {"/static/site.css", "/static/site.js"} <= {file.partition("?v=")[0] for file in files}
    for file in files:
        assert site.get(file).headers["cache-control"] == "public, max-age=31536000, immutable", file
        assert "immutable" not in site.get(file.partition("?")[0]).headers.get("cache-control", ""), file
    assert "immutable" not in site.get("/static/none.css?v=1").headers.get("cache-control", "")
