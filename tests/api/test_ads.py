"""The HTTP routes of the advertising network."""

from __future__ import annotations

from starlette.testclient import TestClient

CREATIVE = {"kind": "text", "title": "<b>Boots", "text": "", "url": "https://example.com/boots"}


def _place(site: TestClient, campaign_id: str = "larch:boots", where: str = "news.example") -> None:
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
    _place(site)
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
    _place(site)
    where = {"site": "news.example", "zone": "top"}
    assert site.post("/api/ads/campaigns/larch:boots/pause").json()["status"] == "paused"
    assert site.post("/api/ads/choose", json=where).json() == []
    assert site.post("/api/ads/explain", json=where).json()[0]["left_out"] == "paused"
    assert site.post("/api/ads/campaigns/larch:boots/resume").json()["status"] == "active"
    assert site.post("/api/ads/campaigns/larch:boots/deactivate").json()["status"] == "ended"
    assert site.post("/api/ads/campaigns/larch:boots/resume").json()["code"] == "campaign-ended"
    assert site.get("/api/ads/campaigns/nobody").status_code == 404
    assert [one["id"] for one in site.get("/api/ads/campaigns").json()["items"]] == ["larch:boots"]
