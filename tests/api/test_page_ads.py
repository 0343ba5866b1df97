"""Ads on the pages of the site and the shop."""

from __future__ import annotations

import re
import threading
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.api.conftest import SECRET

from squinney import assembly
from squinney.ads import AdNetwork
from squinney.ads.choosing import unseen
from squinney.errors import Unavailable
from squinney.http.access.visitor import ANONYMOUS, Visitor
from squinney.http.site_options import SiteOptions
from squinney.service.site import create_site

HTML = {"Accept": "text/html"}
TEXT = {"kind": "text", "title": "Tea & <b>cake</b>", "text": "", "url": "/shop"}


@pytest.fixture
def network(systems: assembly.Assembled) -> AdNetwork:
    """Create a campaign with one ad per zone and a cap of two impressions per visitor and day."""
    network: AdNetwork = systems.services["ads"]["network"]
    pricing, budget = {"model": "cpm", "bid": 500}, {"total": 1_000, "currency": "EUR"}
    network.create_campaign(
        "tea", "Tea House", pricing=pricing, budget=budget, cap={"impressions": 2, "per_seconds": 86_400}
    )
    for zone in ("site", "shop"):
        network.place("tea", "squinney", zone, {"unit": "t", "creative": TEXT})
    return network


def _shown(client: TestClient, path: str = "/site") -> list[str]:
    return re.findall(r'href="/ads/click/([^"]+)"', client.get(path, headers=HTML).text)


def _set_consent(client: TestClient, allowed: str, sent_from: str = "/site?cursor=x") -> Any:
    token = ANONYMOUS + "a-visitor"
    client.cookies.set("squinney", token, domain="testserver.local", path="/")
    form = {"allowed": allowed, "csrf": Visitor(SECRET, token).csrf}
    referer = {"Referer": f"http://testserver{sent_from}"}
    return client.post("/ads-consent", data=form, headers={**HTML, **referer}, follow_redirects=False)


@pytest.mark.parametrize("path", ["/site", "/shop"])
def test_a_page_has_ads_whose_beacons_count(stranger: TestClient, network: AdNetwork, path: str) -> None:
    page = stranger.get(path, headers=HTML).text
    assert "Tea &amp; &lt;b&gt;cake" in page
    assert "<b>cake" not in page
    for beacon in (
        re.search(r'src="(/ads/seen/[^"]+)"', page),
        re.search(r'data-viewable="(/ads/viewable/[^"]+)"', page),
    ):
        assert beacon
        assert stranger.get(beacon[1]).status_code in (200, 204)
    totals = network.stats("tea")["totals"]
    assert (totals["impressions"], totals["viewable"], totals["spend_thousandths"]) == (1, 1, 500)


@pytest.mark.parametrize("path", ["/", "/sign-in", "/shop/cart", "/site/-/tags/x", "/site/no", "/shop/products/none"])
def test_other_pages_have_no_ads(stranger: TestClient, network: AdNetwork, path: str) -> None:
    assert _shown(stranger, path) == []


def test_caps_hold_with_consent_and_nothing_is_stored_without_it(
    stranger: TestClient, network: AdNetwork, systems: assembly.Assembled
) -> None:
    assert all(_shown(stranger) for _ in range(4))
    assert systems.db["ads.users"].count_documents({}) == 0
    said = _set_consent(stranger, "yes")
    assert (said.status_code, said.headers["location"]) == (303, "/site?cursor=x")
    assert [len(_shown(stranger)) for _ in range(3)] == [1, 1, 0]
    profile = systems.db["ads.users"].find_one({})
    assert "a-visitor" not in str(profile)
    assert _set_consent(stranger, "no").status_code == 303
    assert systems.db["ads.users"].count_documents({}) == 0
    assert _shown(stranger)
    assert _set_consent(stranger, "perhaps").status_code == 422


def test_ads_with_images_from_other_hosts_are_left_out(stranger: TestClient, network: AdNetwork) -> None:
    for unit, image in (("t", "https://example.com/x.png"), ("own", "/static/icon.svg")):
        creative = {"kind": "image", "image": image, "alt": "A cup", "url": "/shop"}
        network.place("tea", "squinney", "site", {"unit": unit, "creative": creative})
    page = stranger.get("/site", headers=HTML).text
    assert re.search(r'src="/static/icon.svg(\?v=\w+)?" alt="A cup"', page)
    assert "example.com" not in page


def test_a_page_is_shown_even_if_no_ad_can_be_chosen(
    stranger: TestClient, network: AdNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object, **__: object) -> None:
        raise Unavailable("MongoDB cannot be reached")

    monkeypatch.setattr(network, "choose", away)
    page = stranger.get("/site", headers=HTML)
    assert page.status_code == 200
    assert "/ads/click/" not in page.text


def test_words_of_the_page_choose_the_ad(stranger: TestClient, systems: assembly.Assembled, network: AdNetwork) -> None:
    network.place("tea", "squinney", "shop", {"unit": "jazz", "creative": {**TEXT, "title": "J"}, "keywords": ["Jazz"]})
    product = {"title": "An album", "type": "Audio Album", "details": {"genre": ["Jazz"]}}
    pricing = {"list": 100, "retail": 100, "currency": "EUR"}
    systems.services["commerce"]["catalog"].add({"_id": "a1", **product, "pricing": pricing})
    page = stranger.get("/shop/products/a1", headers=HTML).text
    assert page.index("<strong>J</strong>") < page.index("<strong>Tea")


def test_closing_stops_the_thread_and_returns_unused_budget(systems: assembly.Assembled, network: AdNetwork) -> None:
    with TestClient(create_site(systems, options=SiteOptions(secret=SECRET))) as client:
        (serve_id,) = _shown(client)
    thread = network._zones._thread._thread
    assert thread is not None
    assert thread.is_alive()
    systems.close()
    assert not thread.is_alive()
    assert thread not in threading.enumerate()
    assert network.money(["tea"])["tea"]["leased"] == 500
    assert network.impression(serve_id)  # another process may still count it
    assert network.money(["tea"])["tea"]["leased"] == 0


def test_clicks_of_one_visitor_count_once_with_and_without_cookies(stranger: TestClient, network: AdNetwork) -> None:
    for number in range(20):
        if number % 2:
            stranger.cookies.clear()
        else:
            stranger.cookies.set("squinney", f"{ANONYMOUS}made-up-{number}", domain="testserver.local", path="/")
        (serve_id,) = _shown(stranger)
        clicked = stranger.get(f"/ads/click/{serve_id}", follow_redirects=False)
        assert (clicked.status_code, clicked.headers["location"]) == (303, "/shop")
    assert network.stats("tea")["totals"]["clicks"] == 1
    (serve_id,) = _shown(stranger)
    stranger.get(f"/ads/click/{serve_id}", headers={"User-Agent": "another"}, follow_redirects=False)
    assert network.stats("tea")["totals"]["clicks"] == 1, "the cookie is the same"
    stranger.cookies.clear()
    (serve_id,) = _shown(stranger)
    stranger.cookies.clear()
    stranger.get(f"/ads/click/{serve_id}", headers={"User-Agent": "a third"}, follow_redirects=False)
    assert network.stats("tea")["totals"]["clicks"] == 2


def test_made_up_browsers_of_one_network_click_an_ad_a_few_times(
    systems: assembly.Assembled, network: AdNetwork
) -> None:
    site = create_site(systems, options=SiteOptions(secret=SECRET))
    for number in range(12):
        client = TestClient(site, client=(f"2001:db8::{number}", 1), headers={"User-Agent": f"browser {number}"})
        (serve_id,) = _shown(client)
        client.cookies.clear()
        assert client.get(f"/ads/click/{serve_id}", follow_redirects=False).status_code == 303
    assert 2 <= network.stats("tea")["totals"]["clicks"] <= 5


def test_a_visitor_who_never_loads_ads_gets_none_in_the_end(
    systems: assembly.Assembled, network: AdNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unseen, "FORGOTTEN_SECONDS", 1e9)
    site = create_site(systems, options=SiteOptions(secret=SECRET))
    flood, other = (TestClient(site, client=(address, 1)) for address in ("192.0.2.1", "192.0.2.2"))
    network._unseen.add("192.0.2.1", 98, network._clock().timestamp())
    pages = [_shown(flood) for _ in range(5)]
    assert [len(serves) for serves in pages] == [1, 1, 0, 0, 0]
    assert len(_shown(other)) == 1
    assert flood.get(f"/ads/seen/{pages[0][0]}").status_code == 200
    assert len(_shown(flood)) == 1


@pytest.mark.parametrize(
    "sent_from", ["//evil.example", "/\\evil.example", "//evil.example?next=/site", "/sign-in?next=//evil.example"]
)
def test_no_redirect_follows_the_referer_to_another_site(stranger: TestClient, sent_from: str) -> None:
    response = _set_consent(stranger, "yes", sent_from)
    assert (response.status_code, response.headers["location"]) == (303, "/")


def test_no_page_links_to_the_site_that_its_own_address_names(stranger: TestClient) -> None:
    page = stranger.get("http://testserver//evil.example/x", headers=HTML)
    assert page.status_code == 404
    assert "evil.example" not in page.text
