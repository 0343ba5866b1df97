"""Review and payment: ads that editors approve, and budgets that are paid."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.racing import at_once
from tests.systems.ads.conftest import CREATIVE, Turned

from squinney.ads import (
    AdNetwork,
    CampaignEnded,
    FundedEnough,
    ReviewChanged,
    UnknownAd,
    UnknownCampaign,
    find_problems,
)
from squinney.ads.choosing import zones
from squinney.errors import Invalid
from squinney.mongo.schema import Db
from squinney.transactions import KeyReused

SECONDS = 60  # the longest wait for another process; it usually takes a fraction of one


@pytest.fixture
def member(network: AdNetwork) -> str:
    """A campaign of a member, with one ad: neither reviewed nor funded."""
    pricing, budget = {"model": "cpm", "bid": 900_000}, {"total": 10_000, "currency": "EUR"}
    network.create_campaign("m", "Mallory", pricing=pricing, budget=budget, owner="mallory", review=True)
    network.place("m", "news", "top", {"unit": "u", "creative": CREATIVE}, review=True)
    return "m"


@pytest.fixture(params=[False, True], ids=["streaming", "polling"])
def other(ads_db: Db, clock: Turned, request: pytest.FixtureRequest) -> Iterator[AdNetwork]:
    """The network of another process, which has read the zone."""
    with AdNetwork(ads_db, secret=b"test", clock=clock, polling=request.param) as other:
        other.choose("news", "top")
        yield other


def _reasons(network: AdNetwork) -> dict[str, str]:
    return {one.unit: one.left_out for one in network.explain("news", "top")}


def _review_id(network: AdNetwork, unit: str = "u") -> str:
    return next(ad["review"]["id"] for ad in network.in_review().items if ad["_id"]["ad_unit"] == unit)


def _approve(network: AdNetwork) -> None:
    network.approve("news", "top", "u", review_id=_review_id(network), by="ed")


def _soon(check: Callable[[], Any]) -> None:
    until = time.monotonic() + SECONDS
    while not check():
        assert time.monotonic() < until, "the other process has not noticed the change"
        time.sleep(0.02)


def test_an_ad_runs_only_after_it_is_approved_and_funded(network: AdNetwork, member: str, other: AdNetwork) -> None:
    for each in (network, other):
        assert each.choose("news", "top") == []
        assert _reasons(each) == {"u": "in review"}
    _approve(network)
    _soon(lambda: _reasons(other) == {"u": "not funded"})
    assert network.choose("news", "top") == other.choose("news", "top") == []
    assert network.get(member)["status"] == "active"  # not ended for want of money
    network.fund(member, 10_000, key="k")
    _soon(lambda: other.choose("news", "top"))
    assert network.choose("news", "top")
    network.reject("news", "top", "u", "It claims to be our sign-in page", by="ed")
    _soon(lambda: _reasons(other) == {"u": "rejected"})
    assert network.choose("news", "top") == other.choose("news", "top") == []
    (ad,) = network.placements(member)
    assert (ad["review"]["reason"], ad["review"]["by"]) == ("It claims to be our sign-in page", "ed")


def test_what_the_library_creates_is_approved_and_funded(network: AdNetwork, campaign: Callable[..., str]) -> None:
    campaign("a")
    assert [one.unit for one in network.choose("news", "top")] == ["a"]
    assert network.in_review().items == []
    with pytest.raises(FundedEnough):
        network.fund("a", 1)


@pytest.mark.parametrize("change", [{"title": "Your session has expired"}, {"url": "https://evil.example"}])
def test_a_changed_creative_or_destination_is_reviewed_again(
    network: AdNetwork, member: str, change: dict[str, str]
) -> None:
    _approve(network)
    network.fund(member, 10_000)
    (serve,) = network.choose("news", "top")
    network.place(member, "news", "top", {"unit": "u", "creative": CREATIVE, "keywords": ["tea"]}, review=True)
    assert network.choose("news", "top"), "keywords need no review"
    network.place(member, "news", "top", {"unit": "u", "creative": {**CREATIVE, **change}}, review=True)
    assert (network.choose("news", "top"), _reasons(network)) == ([], {"u": "in review"})
    assert network.click(serve.serve_id).url == CREATIVE["url"], "a click leads to the approved destination"
    network.place(member, "news", "top", {"unit": "u", "creative": {**CREATIVE, "title": "x", **change}}, review=True)
    assert network.click(serve.serve_id).url == CREATIVE["url"], "also after a second change"
    network.reject("news", "top", "u", "no")
    assert network.click(serve.serve_id).url == "/"
    network.place(member, "news", "top", {"unit": "u", "creative": {**CREATIVE, "title": "x", **change}}, review=True)
    assert _reasons(network) == {"u": "rejected"}, "the same creative stays rejected"


def test_an_ad_in_a_campaign_that_needs_review_is_always_reviewed(network: AdNetwork, member: str) -> None:
    network.place(member, "news", "top", {"unit": "v", "creative": CREATIVE})
    assert _reasons(network)["v"] == "in review"


def test_an_approval_is_for_the_creative_that_was_read(network: AdNetwork, member: str) -> None:
    read = _review_id(network)
    network.place(member, "news", "top", {"unit": "u", "creative": {**CREATIVE, "url": "https://evil.example"}})
    with pytest.raises(ReviewChanged):
        network.approve("news", "top", "u", review_id=read)
    assert _reasons(network) == {"u": "in review"}
    with pytest.raises(UnknownAd):
        network.approve("news", "top", "none", review_id=read)
    with pytest.raises(Invalid):
        network.reject("news", "top", "u", "")


def test_an_ad_without_a_review_is_approved_until_a_member_changes_it(
    network: AdNetwork, campaign: Callable[..., str], ads_db: Db
) -> None:
    campaign("a")
    assert "review" not in ads_db["ads.placements"].find_one({})  # as older versions stored it
    network.place("a", "news", "top", {"unit": "a", "creative": CREATIVE, "active": True}, review=True)
    assert _reasons(network) == {"a": ""}
    network.place("a", "news", "top", {"unit": "a", "creative": {**CREATIVE, "title": "New"}}, review=True)
    assert _reasons(network) == {"a": "in review"}


def test_a_rejected_ad_leaves_a_large_zone_without_a_new_order(
    network: AdNetwork, campaign: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zones, "LARGE", 1)
    campaign("a", bid=2)
    campaign("b", bid=1)
    assert [one.unit for one in network.choose("news", "top")] == ["a"]
    network._zones.get("news", "top").reorder_after = float("inf")
    network.reject("news", "top", "a", "no")
    assert [one.unit for one in network.choose("news", "top")] == ["b"]


def test_a_campaign_spends_what_it_is_funded_with(network: AdNetwork, member: str, ads_db: Db, clock: Turned) -> None:
    _approve(network)
    network.fund(member, 1_800)  # two impressions at 9 EUR
    shown = [one for _ in range(5) for one in network.choose("news", "top")]
    assert len(shown) == 2
    network.impressions([one.serve_id for one in shown])
    assert network.choose("news", "top") == []
    assert _reasons(network) == {"u": "not funded"}
    with AdNetwork(ads_db, secret=b"test", clock=clock) as other:
        assert other.choose("news", "top") == []  # it asks the budget
    assert network.get(member)["status"] == "active"
    assert network.fund(member, 900)["funded"] == 2_700
    assert len(network.choose("news", "top")) == 1
    assert network.money([member])[member]["spent"] == 1_800_000
    assert not list(find_problems(ads_db))


def test_a_funding_counts_once_per_key_and_never_exceeds_the_total(network: AdNetwork, member: str, ads_db: Db) -> None:
    for _ in range(2):
        assert network.fund(member, 4_000, key="k", by="root")["funded"] == 4_000
    with pytest.raises(KeyReused):
        network.fund(member, 4_001, key="k")

    def fund(number: int) -> int:
        try:
            network.fund(member, 2_000)
        except FundedEnough:
            return 0
        return 1

    assert sum(at_once(6, fund)) == 3
    assert network.get(member)["funded"] == 10_000
    assert [item["amount"] for item in network.fundings(member).items] == [4_000, 2_000, 2_000, 2_000]
    assert network.money([member])[member]["total"] == 10_000_000
    with pytest.raises(UnknownCampaign):
        network.fund("none", 1)
    with pytest.raises(Invalid):
        network.fund(member, 0)
    network.deactivate(member)
    with pytest.raises(CampaignEnded):
        network.fund(member, 1)
    assert not list(find_problems(ads_db))
