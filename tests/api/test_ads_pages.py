"""The pages, beacons and clicks of the advertising network."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from starlette.testclient import TestClient
from tests.api.conftest import SECRET

from squinney import assembly
from squinney.ads import AdNetwork
from squinney.ads.surface import web
from squinney.http.access.visitor import SIGNED_IN, Visitor
from squinney.http.site_options import SiteOptions
from squinney.service.site import create_site

HTML = {"Accept": "text/html"}


def _network(systems: assembly.Assembled) -> AdNetwork:
    return systems.services["ads"]["network"]


def _made(site: TestClient) -> None:
    form = {"name": "larch:boots", "advertiser": "Larch", "model": "cpm", "bid": "2.50", "total": "100", "daily": ""}
    made = site.post("/ads/campaigns", data=form, headers=HTML, follow_redirects=False)
    assert made.headers["location"] == "/ads/campaigns/larch:boots"
    ad = {"site": "news", "zone": "top", "unit": "u", "title": "<script>x</script>", "url": "https://example.com/"}
    placed = site.post("/ads/place/larch:boots", data=ad, headers=HTML)
    assert placed.status_code == 200, placed.text
    assert "&lt;script&gt;x" in placed.text
    assert "<script>x" not in placed.text
    assert "in review" in placed.text
    _run(site, "larch:boots", "100")


def _run(site: TestClient, campaign_id: str, amount: str) -> None:
    """Approve the ads that wait, and grant money, as an admin does."""
    queue = site.get("/ads/review", headers=HTML).text
    fields = ("site", "zone", "unit", "review_id")
    values = [re.findall(rf'name="{name}" value="([^"]*)"', queue) for name in fields]
    for found in set(zip(*values, strict=True)):
        decided = site.post("/ads/review/approve", data=dict(zip(fields, found, strict=True)), headers=HTML)
        assert "The ad is approved." in decided.text
    funded = site.post(f"/ads/fund/{campaign_id}", data={"amount": amount, "key": campaign_id}, headers=HTML)
    assert "The campaign is funded." in funded.text


def test_a_campaign_is_made_placed_paused_and_shown(site: TestClient) -> None:
    _made(site)
    assert "larch:boots" in site.get("/ads", headers=HTML).text
    assert "Resume campaign" in site.post("/ads/status/larch:boots", data={"status": "paused"}, headers=HTML).text
    assert "paused" in site.get("/ads/why?site=news&zone=top", headers=HTML).text
    assert site.post("/ads/status/larch:boots", data={"status": "odd"}, headers=HTML).status_code == 422
    again = {"name": "larch:boots", "advertiser": "L", "model": "cpm", "bid": "x", "total": "1"}
    refused = site.post("/ads/campaigns", data=again, headers=HTML)
    assert "bid must be an amount such as 12.50" in refused.text


def test_a_beacon_and_a_click_count_once_and_redirect_only_to_the_creative(
    site: TestClient, systems: assembly.Assembled
) -> None:
    _made(site)
    serve_id = _network(systems).choose("news", "top")[0].serve_id
    for _ in range(2):
        assert site.get(f"/ads/seen/{serve_id}").headers["content-type"] == "image/gif"
        clicked = site.get(f"/ads/click/{serve_id}", follow_redirects=False)
        assert (clicked.status_code, clicked.headers["location"]) == (303, "https://example.com/")
    totals = _network(systems).stats("larch:boots")["totals"]
    assert (totals["impressions"], totals["clicks"]) == (1, 1)
    assert site.get("/ads/click/forged", follow_redirects=False).status_code == 403
    elsewhere = site.get(f"/ads/click/{serve_id}?url=https://evil.example", follow_redirects=False)
    assert elsewhere.headers["location"] == "https://example.com/"


def test_members_see_their_own_campaigns_only(site: TestClient, systems: assembly.Assembled) -> None:
    _made(site)
    systems.db["identity.people"].update_one({"_id": "admin"}, {"$set": {"role": "member"}})
    systems.db["ads.campaigns"].update_one({"_id": "larch:boots"}, {"$set": {"owner": "another"}})
    services = systems.services["identity"]
    token = SIGNED_IN + services["sessions"].start(systems.db["identity.people"].find_one({"_id": "admin"}))
    site.cookies.set("squinney", token)
    site.headers["X-CSRF-Token"] = Visitor(SECRET, token).csrf
    assert "larch:boots" not in site.get("/ads", headers=HTML).text
    assert site.get("/ads/campaigns/larch:boots", headers=HTML).status_code == 404
    ad = {"site": "news", "zone": "top", "unit": "u", "title": "t", "url": "/", "active": "no"}
    for path, form in (("status", {"status": "ended"}), ("place", ad), ("active", ad)):
        assert site.post(f"/ads/{path}/larch:boots", data=form, headers=HTML).status_code == 404
    assert site.get("/ads/why", headers=HTML).status_code == 403


def test_the_console_shows_today_and_click_rates(site: TestClient, systems: assembly.Assembled) -> None:
    form = {"name": "a", "advertiser": "Larch", "model": "cpm", "bid": "1000", "total": "100", "daily": "24"}
    site.post("/ads/campaigns", data=form, headers=HTML)
    ad = {"site": "news", "zone": "top", "unit": "u", "title": "t", "url": "https://example.com/"}
    site.post("/ads/place/a", data=ad, headers=HTML)
    _run(site, "a", "100")
    network = _network(systems)
    network.click(network.choose("news", "top")[0].serve_id)
    page = site.get("/ads/campaigns/a", headers=HTML).text
    assert "Today 1.00 EUR of 24.00 EUR is spent; paced evenly, up to " in page
    assert page.count("100.00%") == 2  # for the campaign and for its zone
    assert "Spend in EUR" in page


def test_the_form_accepts_caps_days_and_targeting(site: TestClient, systems: assembly.Assembled) -> None:
    form = {"name": "a", "advertiser": "Larch", "model": "cpc", "bid": "0.30", "total": "100", "pacing": "asap"}
    more = {"cap": "3", "cap_hours": "12", "starts": "2026-03-01", "ends": "2030-03-31", "keywords": "Tea, cake,"}
    made = site.post("/ads/campaigns", data={**form, **more, "sites": "squinney, news"}, headers=HTML)
    assert made.status_code == 200
    for said in (
        "at most 3 impressions for one visitor in ",
        "Only with the keywords tea, cake.",
        "Only on squinney, news",
    ):
        assert said in made.text
    found = _network(systems).get("a")
    assert (found["starts_at"], found["ends_at"]) == (
        datetime(2026, 3, 1, tzinfo=UTC),
        datetime(2030, 4, 1, tzinfo=UTC),
    )
    assert found["budget"]["pacing"] == "asap"
    for name, wrong in (("cap", "x"), ("cap", "101"), ("cap_hours", "0"), ("starts", "soon"), ("ends", "9999-12-31")):
        refused = site.post("/ads/campaigns", data={**form, **more, "name": "b", name: wrong}, headers=HTML)
        assert refused.status_code == 422, (name, wrong)
        assert 'value="Tea, cake,"' in refused.text  # the typed text is kept
    assert [one["_id"] for one in _network(systems).all().items] == ["a"]


def test_an_ad_is_deactivated_and_activated_again(site: TestClient, systems: assembly.Assembled) -> None:
    _made(site)
    ad = {"site": "news", "zone": "top", "unit": "u"}
    assert "not active" in site.post("/ads/active/larch:boots", data={**ad, "active": "no"}, headers=HTML).text
    assert _network(systems).choose("news", "top") == []
    site.post("/ads/active/larch:boots", data={**ad, "active": "yes"}, headers=HTML)
    assert [one.unit for one in _network(systems).choose("news", "top")] == ["u"]
    unknown = {**ad, "unit": "other", "active": "yes"}
    assert site.post("/ads/active/larch:boots", data=unknown, headers=HTML).status_code == 404


def test_an_image_ad_is_placed_and_the_form_keeps_its_values(site: TestClient, systems: assembly.Assembled) -> None:
    _made(site)
    ad = {"site": "news", "zone": "top", "unit": "p", "title": "A boot", "image": "/static/icon.svg", "url": "/shop"}
    assert 'value="A boot"' in site.post("/ads/place/larch:boots", data={**ad, "weight": "0"}, headers=HTML).text
    site.post("/ads/place/larch:boots", data=ad, headers=HTML)
    creative = next(one for one in _network(systems).placements("larch:boots") if one["_id"]["ad_unit"] == "p")[
        "creative"
    ]
    assert creative == {"kind": "image", "image": "/static/icon.svg", "alt": "A boot", "url": "/shop"}


def test_a_members_campaign_has_a_bounded_number_of_ads(
    site: TestClient, systems: assembly.Assembled, monkeypatch: pytest.MonkeyPatch
) -> None:
    _made(site)
    monkeypatch.setattr(web, "MAX_OWN_ADS", 1)
    monkeypatch.setattr(web, "is_admin", lambda request: False)
    ad = {"site": "news", "zone": "top", "unit": "u", "title": "New", "url": "/shop"}
    assert site.post("/ads/place/larch:boots", data=ad, headers=HTML).status_code == 200  # the ad exists already
    refused = site.post("/ads/place/larch:boots", data={**ad, "unit": "u2"}, headers=HTML)
    assert "at most 1 ads" in refused.text
    assert len(_network(systems).placements("larch:boots")) == 1


def test_the_console_shows_hits_of_caps(site: TestClient, systems: assembly.Assembled) -> None:
    network = _network(systems)
    cap = {"impressions": 1, "per_seconds": 3_600}
    network.create_campaign("a", "L", pricing={"model": "cpm", "bid": 1}, budget={"total": 10}, cap=cap)
    network.place("a", "news", "top", {"unit": "u", "creative": {"kind": "text", "title": "t", "url": "/"}})
    for _ in range(8):
        network.choose("news", "top", user="ann")
    network.close()
    page = site.get("/ads/campaigns/a", headers=HTML).text
    assert "<dt>cap hits in 30 days</dt><dd>7</dd>" in page
    assert 'data-label="cap hits">7<' in page
    assert site.get("/api/ads/campaigns/a/stats").json()["totals"]["capped"] == 7


def test_a_member_has_a_bounded_number_of_campaigns(
    site: TestClient, systems: assembly.Assembled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "MAX_OWN", 1)
    monkeypatch.setattr(web, "is_admin", lambda request: False)
    _made(site)
    form = {"name": "second", "advertiser": "Larch", "model": "cpm", "bid": "1", "total": "1"}
    refused = site.post("/ads/campaigns", data=form, headers=HTML)
    assert "at most 1 campaigns" in refused.text
    assert [one["_id"] for one in _network(systems).all().items] == ["larch:boots"]


def test_requests_from_one_address_are_limited_without_affecting_others(systems: assembly.Assembled) -> None:
    limited = create_site(
        systems, options=SiteOptions(secret=SECRET, rate_per_address=1e-9)
    )  # one request, and then none for a long time

    def status(address: str, path: str) -> int:
        return TestClient(limited, client=(address, 1)).get(path, follow_redirects=False).status_code

    assert status("192.0.2.1", "/site") == 200
    for path in ("/ads/seen/forged", "/ads/viewable/forged", "/ads/click/forged", "/site"):
        assert status("192.0.2.1", path) == 429
    assert status("192.0.2.2", "/site") == 200
    assert status("192.0.2.3", "/ads/seen/forged") == 403


@pytest.mark.parametrize(
    "url",
    ["javascript:alert(1)", "//evil.example", "/\\evil.example", "data:text/html,x", "https:/\t/x", "https://", ""],
)
def test_an_ad_cannot_link_to_a_script(site: TestClient, url: str) -> None:
    _made(site)
    ad = {"site": "news", "zone": "top", "unit": "u2", "title": "x", "url": url}
    refused = site.post("/ads/place/larch:boots", data=ad, headers=HTML)
    assert refused.status_code == 422
