"""OpenRTB 2.6 bid requests: banner, app, deal and video; privacy flags, block lists and invalid values."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from starlette.testclient import TestClient

from squinney import assembly
from squinney.ads import AdNetwork

TEXT = {"kind": "text", "title": "<b>Boots", "text": "", "url": "https://www.example.com/boots"}
PICTURE = {"kind": "image", "image": "/static/icon.svg", "alt": "A boot", "url": "/shop", "width": 300, "height": 250}
BANNER: dict[str, Any] = {
    "id": "80ce30c5",
    "at": 1,
    "tmax": 120,
    "cur": ["EUR"],
    "imp": [
        {
            "id": "1",
            "tagid": "top",
            "bidfloor": 0.03,
            "bidfloorcur": "EUR",
            "banner": {"w": 300, "h": 250, "pos": 0, "format": [{"w": 728, "h": 90}]},
        }
    ],
    "site": {
        "id": "102855",
        "domain": "www.foobar.com",
        "cat": ["IAB3-1"],
        "page": "http://www.foobar.com/1234.html",
        "publisher": {"id": "8953", "domain": "foobar.com"},
        "content": {"title": "Hills", "kwarray": ["hiking", "Tea"]},
    },
    "device": {"ua": "x", "ip": "192.0.2.1", "sua": {"mobile": 0}},
    "user": {"id": "55816b39", "data": [{"id": "6", "segment": [{"id": "1"}]}]},
    "source": {"fd": 1, "schain": {"complete": 1, "nodes": [], "ver": "1.0"}},
    "ext": {"any": {"thing": []}},
}


def _request(**changes: Any) -> dict[str, Any]:
    """Return `BANNER` with some fields changed. Names are paths: `imp__0__tagid`."""
    request = copy.deepcopy(BANNER)
    for path, value in changes.items():
        *above, last = (int(part) if part.isdigit() else part for part in path.split("__"))
        target: Any = request
        for part in above:
            target = target[part] if isinstance(part, int) else target.setdefault(part, {})
        target[last] = value
    return request


@pytest.fixture
def network(systems: assembly.Assembled) -> AdNetwork:
    found: AdNetwork = systems.services["ads"]["network"]
    return found


def _place(
    network: AdNetwork, creative: dict[str, Any], name: str = "boots", site: str = "102855", **budget: Any
) -> None:
    network.create_campaign(
        name,
        "Larch",
        pricing={"model": "cpm", "bid": 250},
        budget={"total": 10_000, "currency": "EUR", **budget},
        cap={"impressions": 50, "per_seconds": 60},
    )
    network.place(name, site, "top", {"unit": name, "creative": creative})


def _bid(site: TestClient, request: dict[str, Any]) -> dict[str, Any]:
    response = site.post("/api/ads/openrtb2", json=request)
    assert response.status_code == 200, response.text
    assert response.headers["x-openrtb-version"] == "2.6"
    (seat,) = response.json()["seatbid"]
    (bid,) = seat["bid"]
    assert isinstance(bid, dict)
    return bid


def test_a_banner_gets_a_complete_bid(site: TestClient, network: AdNetwork) -> None:
    _place(network, TEXT)
    response = site.post("/api/ads/openrtb2", json=BANNER).json()
    assert (response["id"], response["cur"], response["seatbid"][0]["seat"]) == (BANNER["id"], "EUR", "squinney")
    bid = response["seatbid"][0]["bid"][0]
    assert isinstance(bid["price"], float)
    said = {name: bid[name] for name in ("impid", "price", "adomain", "cid", "crid", "w", "h", "mtype", "exp")}
    assert said == {
        "impid": "1",
        "price": 2.5,
        "adomain": ["www.example.com"],
        "cid": "boots",
        "crid": "boots",
        "w": 728,
        "h": 90,
        "mtype": 1,
        "exp": 600,
    }
    assert "&lt;b&gt;Boots" in bid["adm"]
    assert "<b>" not in bid["adm"]
    assert site.get(bid["burl"]).status_code == 200
    assert network.stats("boots")["totals"]["impressions"] == 1


def test_a_relative_image_gets_an_absolute_address(site: TestClient, network: AdNetwork) -> None:
    _place(network, PICTURE)
    bid = _bid(site, BANNER)
    assert 'src="http://testserver/static/icon.svg"' in bid["adm"]
    assert (bid["w"], bid["h"], bid["adomain"]) == (300, 250, ["testserver"])


@pytest.mark.parametrize(("currency", "price"), [("EUR", 2.5), ("JPY", 250.0), ("KWD", 0.25)])
def test_a_price_has_the_decimals_of_its_currency(
    site: TestClient, network: AdNetwork, currency: str, price: float
) -> None:
    _place(network, TEXT, currency=currency)
    assert _bid(site, _request(cur=[currency], imp__0__bidfloor=0))["price"] == price


@pytest.mark.parametrize(
    "change",
    [
        {"site": None, "app": {"id": "102855", "name": "Weather", "bundle": "12345", "ver": "1.0.2"}},
        {"site": None, "app": {"bundle": "102855"}},
        {"site": {"domain": "102855", "id": None}},
        {"site__keywords": "x," * 5_000},
        {"user": None},
        {"user__id": "x" * 4_000},
        {"imp__0__video": {"mimes": ["video/mp4"]}},
        {"imp": [{"id": str(number), "tagid": "top" if not number else "none", "banner": {}} for number in range(60)]},
        {"imp__0__banner__format": [{"w": 1, "h": number} for number in range(500)]},
        {"imp__0__pmp": {"private_auction": 0, "deals": [{"id": "d"}]}},
        {"regs__gdpr": None},
        {"badv": ["ford.com", "ample.com"]},
        {"wseat": ["squinney", "512"]},
    ],
)
def test_other_requests_of_the_specification_get_a_bid(
    site: TestClient, network: AdNetwork, change: dict[str, Any]
) -> None:
    _place(network, TEXT)
    assert _bid(site, _request(**change))["cid"] == "boots"


@pytest.mark.parametrize(
    "change",
    [
        {"imp__0__banner": None, "imp__0__video": {"mimes": ["video/mp4"], "companionad": [{"w": 300, "h": 250}]}},
        {"imp__0__banner": None, "imp__0__native": {"request": "{}"}},
        {"imp__0__tagid": "nowhere"},
        {"imp__0__tagid": None},
        {"imp__0__bidfloor": 2.51},
        {"imp__0__bidfloorcur": "USD"},
        {"imp__0__pmp": {"private_auction": 1, "deals": [{"id": "AB-Agency1-0001", "bidfloor": 2.5}]}},
        {"imp__0__banner__btype": [1]},
        {"cur": ["USD"]},
        {"site": None},
        {"site": None, "dooh": {"id": "102855"}},
        {"test": 1},
        {"badv": ["Example.com"]},
        {"wseat": ["512"]},
        {"bseat": ["squinney"]},
        {"acat": ["IAB1"]},
    ],
)
def test_no_bid_is_204(site: TestClient, network: AdNetwork, change: dict[str, Any]) -> None:
    _place(network, TEXT)
    response = site.post("/api/ads/openrtb2", json=_request(**change))
    assert (response.status_code, response.content) == (204, b"")


@pytest.mark.parametrize(
    ("change", "is_secure"),
    [
        ({}, True),
        ({"image": "http://example.com/x.png"}, False),
        ({"url": "http://example.com/boots"}, False),
        ({"url": "https://example.com/boots", "image": "https://example.com/x.png"}, True),
    ],
)
def test_a_secure_placement_gets_https_only(
    site: TestClient, network: AdNetwork, change: dict[str, str], is_secure: bool
) -> None:
    _place(network, {**PICTURE, **change})
    assert _bid(site, BANNER)
    secure = _request(imp__0__secure=1)
    assert site.post("/api/ads/openrtb2", json=secure).status_code == 204, "the network's own address is not secure"
    found = site.post("https://testserver/api/ads/openrtb2", json=secure)
    assert found.status_code == (200 if is_secure else 204)


@pytest.mark.parametrize(
    ("declared", "change", "gets_bid"),
    [
        ({"cat": ["IAB7-39"]}, {"bcat": ["IAB25", "IAB26"]}, True),
        ({"cat": ["IAB7-39"]}, {"bcat": ["IAB7-39"]}, False),
        ({"cat": ["IAB7-39"]}, {"bcat": ["iab7"]}, False),
        ({"cat": ["IAB7-39"]}, {"bcat": ["IAB7-3"]}, True),
        ({"cat": ["IAB7-39"]}, {"bcat": ["537"], "cattax": 7}, False),
        ({"cat": []}, {"bcat": ["IAB25"]}, False),
        ({}, {"bcat": ["IAB25"]}, False),
        ({}, {"bcat": []}, True),
        ({"attr": [1, 6]}, {"imp__0__banner__battr": [3]}, True),
        ({"attr": [1, 6]}, {"imp__0__banner__battr": [3, 6]}, False),
        ({"attr": []}, {"imp__0__banner__battr": [3]}, True),
        ({}, {"imp__0__banner__battr": [3]}, False),
        ({"adomain": ["larch.example"]}, {"badv": ["larch.example"]}, False),
        ({"adomain": ["shop.larch.example"]}, {"badv": ["LARCH.example"]}, False),
        ({"adomain": ["larch.example"]}, {"badv": ["example.com"]}, False),  # the destination
        ({"adomain": ["larch.example"]}, {"badv": ["arch.example"]}, True),
        *(
            ({"url": f"https://{written}/"}, {"badv": ["Bücher.example"]}, False)
            for written in ("bücher.example.", "xn--bcher-kva.example", "BÜCHER%2eexample:443", "bücher。example")
        ),
    ],
)
def test_block_lists_are_respected_and_undeclared_creatives_get_no_bid(
    site: TestClient, network: AdNetwork, declared: dict[str, Any], change: dict[str, Any], gets_bid: bool
) -> None:
    _place(network, {**TEXT, **declared})
    found = site.post("/api/ads/openrtb2", json=_request(**change))
    assert found.status_code == (200 if gets_bid else 204)


def test_a_bid_names_what_the_creative_declares(site: TestClient, network: AdNetwork) -> None:
    declared = {"cat": ["IAB18-4"], "attr": [1], "adomain": ["larch.example"]}
    _place(network, {**TEXT, **declared})
    bid = _bid(site, BANNER)
    assert {name: bid[name] for name in declared} == declared


@pytest.mark.parametrize(
    "change",
    [
        {"regs__coppa": 1},
        {"regs__gdpr": 1},
        {"regs__ext": {"gdpr": 1}},
        {"regs__us_privacy": "1YYN"},
        {"regs__gpp": "DBA", "regs__gpp_sid": [7]},
        {"device__lmt": 1},
        {"device__dnt": 1},
    ],
)
def test_users_without_consent_are_not_remembered(
    site: TestClient, network: AdNetwork, systems: assembly.Assembled, change: dict[str, Any]
) -> None:
    _place(network, TEXT)
    assert _bid(site, _request(**change))
    assert systems.db["ads.users"].count_documents({}) == 0
    assert _bid(site, BANNER)
    assert systems.db["ads.users"].count_documents({"_id": "55816b39"}) == 1


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"id": None}, "id"),
        ({"id": 5}, "id"),
        ({"imp": []}, "imp"),
        ({"imp": [{}]}, "imp.0.id"),
        ({"imp": "x"}, "imp"),
        ({"imp__0__bidfloor": -1}, "imp.0.bidfloor"),
        ({"imp__0__banner": {"w": "wide"}}, "imp.0.banner.w"),
        ({"site": 5}, "site"),
    ],
)
def test_an_invalid_bid_request_is_400_with_a_reason(site: TestClient, change: dict[str, Any], field: str) -> None:
    refused = site.post("/api/ads/openrtb2", json=_request(**change))
    assert refused.status_code == 400
    assert refused.json()["detail"].startswith(f"{field}: ")


@pytest.mark.parametrize("body", [b"{", b"[]", b"", b"5", b"\xff"])
def test_a_body_that_is_not_an_object_is_400(site: TestClient, body: bytes) -> None:
    refused = site.post("/api/ads/openrtb2", content=body, headers={"Content-Type": "application/json"})
    assert refused.status_code == 400, refused.text
