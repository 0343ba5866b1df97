"""The advertising network over HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

CREATIVE = {"kind": "text", "title": "<b>Boots", "text": "", "url": "https://example.com/boots"}
REQUEST = {
    "id": "r1",
    "imp": [
        {"id": "1", "banner": {"format": [{"w": 300, "h": 250}]}, "tagid": "top", "bidfloor": 1.0, "bidfloorcur": "EUR"}
    ],
    "site": {"domain": "news.example", "keywords": "hiking,tea", "publisher": {"id": "unknown to us"}},
    "device": {"ua": "x", "ip": "192.0.2.1"},
    "user": {"id": "u"},
    "cur": ["EUR"],
    "at": 1,
    "tmax": 120,
}


def _placed(site: TestClient, campaign_id: str = "larch:boots", where: str = "news.example") -> None:
    campaign = {
        "id": campaign_id,
        "advertiser": "Larch",
        "pricing": {"model": "cpm", "bid": 250},
        "budget": {"total": 10_000, "daily": 500},
        "cap": {"impressions": 5, "per_seconds": 3600},
    }
    made = site.post("/api/ads/campaigns", json=campaign)
    assert made.status_code == 201, made.text
    ad = {"site": where, "zone": "top", "unit": "u1", "creative": CREATIVE}
    placed = site.post(f"/api/ads/campaigns/{campaign_id}/placements", json=ad)
    assert (placed.status_code, placed.json()["ecpm"]) == (200, 250_000), placed.text


def test_an_ad_is_chosen_seen_clicked_and_counted(site: TestClient) -> None:
    _placed(site)
    serves = site.post("/api/ads/choose", json={"site": "news.example", "zone": "top", "user": "ann"}).json()
    serve_id = serves[0]["serve_id"]
    assert site.post("/api/ads/impressions", json={"serve_ids": [serve_id, "forged"]}).json() == {
        "first": [True, False]
    }
    assert site.post("/api/ads/clicks", json={"serve_id": serve_id}).json() == {"url": CREATIVE["url"], "first": True}
    assert site.post("/api/ads/conversions", json={"serve_id": serve_id, "value": 5}).json() == {"first": True}
    assert site.post("/api/ads/clicks", json={"serve_id": "forged"}).json()["code"] == "bad-serve"
    totals = site.get("/api/ads/campaigns/larch:boots/stats").json()["totals"]
    assert (totals["impressions"], totals["clicks"], totals["spend_thousandths"]) == (1, 1, 250)
    assert site.delete("/api/ads/users/ann").json() == {"first": True}


def test_a_campaign_is_paused_resumed_ended_and_explained(site: TestClient) -> None:
    _placed(site)
    where = {"site": "news.example", "zone": "top"}
    assert site.post("/api/ads/campaigns/larch:boots/pause").json()["status"] == "paused"
    assert site.post("/api/ads/choose", json=where).json() == []
    assert site.post("/api/ads/explain", json=where).json()[0]["left_out"] == "paused"
    assert site.post("/api/ads/campaigns/larch:boots/resume").json()["status"] == "active"
    assert site.post("/api/ads/campaigns/larch:boots/deactivate").json()["status"] == "ended"
    assert site.post("/api/ads/campaigns/larch:boots/resume").json()["code"] == "campaign-ended"
    assert site.get("/api/ads/campaigns/nobody").status_code == 404
    assert [one["id"] for one in site.get("/api/ads/campaigns").json()["items"]] == ["larch:boots"]


def test_a_bid_request_is_answered_with_a_bid(site: TestClient) -> None:
    _placed(site)
    answer = site.post("/api/ads/openrtb2", json=REQUEST)
    assert answer.status_code == 200, answer.text
    response = answer.json()
    bid = response["seatbid"][0]["bid"][0]
    assert (response["id"], response["cur"]) == ("r1", "EUR")
    assert (bid["impid"], bid["price"], bid["cid"], bid["adomain"]) == ("1", 2.5, "larch:boots", ["example.com"])
    assert "&lt;b&gt;Boots" in bid["adm"]
    assert "<b>" not in bid["adm"]


@pytest.mark.parametrize(
    "change",
    [
        {"imp": [{"id": "1", "video": {}, "tagid": "top"}]},
        {"imp": [{"id": "1", "banner": {}, "tagid": "nowhere"}]},
        {"imp": [{"id": "1", "banner": {}, "tagid": "top", "bidfloor": 2.51, "bidfloorcur": "EUR"}]},
        {"cur": ["USD"]},
        {"site": None},
    ],
)
def test_no_bid_is_204(site: TestClient, change: dict[str, Any]) -> None:
    _placed(site)
    assert site.post("/api/ads/openrtb2", json={**REQUEST, **change}).status_code == 204


@pytest.mark.parametrize("change", [{"id": None}, {"imp": []}, {"imp": [{}]}, {"imp": "x"}, {"site": 5}])
def test_what_is_no_bid_request_is_400_with_a_reason(site: TestClient, change: dict[str, Any]) -> None:
    refused = site.post("/api/ads/openrtb2", json={**REQUEST, **change})
    assert refused.status_code == 400
    assert refused.json()["detail"].startswith(next(iter(change)))
