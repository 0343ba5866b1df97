"""The HTTP routes of the advertising network."""

from __future__ import annotations

from starlette.testclient import TestClient

from squinney import assembly
from squinney.ads import AdNetwork

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
    assert placed.json()["review"]["state"] == "waiting"
    decision = {"site": where, "zone": "top", "unit": "u1", "review_id": placed.json()["review"]["id"]}
    assert site.post("/api/ads-review/approve", json=decision).json()["review"]["state"] == "approved"
    for _ in range(2):
        granted = site.post(
            f"/api/ads-review/campaigns/{campaign_id}/grants",
            json={"amount": 10_000},
            headers={"Idempotency-Key": campaign_id},
        )
        assert granted.json()["funded"] == 10_000, granted.text


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


def test_a_key_for_campaigns_neither_approves_nor_grants(site: TestClient, systems: assembly.Assembled) -> None:
    _, key = systems.services["identity"]["keys"].create("members", ["ads:write"])
    site.headers["Authorization"] = f"Bearer {key}"
    campaign = {"pricing": {"model": "cpm", "bid": 250}, "budget": {"total": 10_000}}
    made = site.post("/api/ads/campaigns", json={"id": "c", "advertiser": "M", **campaign}).json()
    assert (made["needs_review"], made["funded"]) == (True, 0)
    ad = {"site": "news", "zone": "top", "unit": "u", "creative": CREATIVE}
    review_id = site.post("/api/ads/campaigns/c/placements", json=ad).json()["review"]["id"]
    where = {"site": "news", "zone": "top"}
    decision = {**where, "unit": "u", "review_id": review_id}
    for path, body in (
        ("approve", decision),
        ("reject", {**decision, "reason": "no"}),
        ("campaigns/c/grants", {"amount": 1}),
    ):
        assert site.post(f"/api/ads-review/{path}", json=body).json()["code"] == "forbidden"
    assert site.get("/api/ads-review/waiting").status_code == 403
    assert site.post("/api/ads/choose", json=where).json() == []
    assert site.post("/api/ads/explain", json=where).json()[0]["left_out"] == "in review"
    assert site.get("/api/ads/campaigns/c/placements").json()[0]["review"]["state"] == "waiting"


def test_a_reviewer_lists_and_rejects_with_a_key(site: TestClient, systems: assembly.Assembled) -> None:
    network: AdNetwork = systems.services["ads"]["network"]
    network.create_campaign("c", "M", pricing={"model": "cpm", "bid": 1}, budget={"total": 5}, review=True)
    network.place("c", "news", "top", {"unit": "u", "creative": CREATIVE})
    (waiting,) = site.get("/api/ads-review/waiting").json()["items"]
    decision = {name: waiting[name] for name in ("site", "zone", "unit")} | {"review_id": waiting["review"]["id"]}
    stale = {**decision, "review_id": "another"}
    assert site.post("/api/ads-review/approve", json=stale).json()["code"] == "review-changed"
    rejected = site.post("/api/ads-review/reject", json={**decision, "reason": "It pretends to be us"}).json()
    assert (rejected["review"]["state"], rejected["review"]["reason"]) == ("rejected", "It pretends to be us")
    too_much = site.post("/api/ads-review/campaigns/c/grants", json={"amount": 6}).json()
    assert (too_much["code"], "at most 5 more" in too_much["detail"]) == ("funded-enough", True)
