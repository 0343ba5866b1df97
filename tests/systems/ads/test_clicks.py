"""Clicks: repeated ones of a visitor, those at the end of a budget, and the leases that pay for them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from tests.racing import at_once
from tests.systems.ads.conftest import CREATIVE, Turned

from squinney.ads import AdNetwork, find_problems
from squinney.ads.charging.budgets import return_lapsed
from squinney.errors import Invalid
from squinney.mongo.deadlines import operation
from squinney.mongo.schema import Db

Make = Callable[..., str]


def _serves(network: AdNetwork, count: int) -> list[str]:
    return [network.choose("news", "top")[0].serve_id for _ in range(count)]


def test_repeated_clicks_of_a_visitor_on_an_ad_count_once(network: AdNetwork, campaign: Make, clock: Turned) -> None:
    campaign("a", model="cpc", bid=100)
    serves = _serves(network, 8)
    firsts = [network.click(serve, visitor="ann").first for serve in serves[:4]]
    assert firsts == [True, False, False, False]
    assert network.click(serves[1], visitor="ann").url == CREATIVE["url"], "it still leads to the advertiser"
    assert not network.click(serves[1]).first, "nor does it count later, without the visitor"
    assert network.click(serves[4], visitor=["bob", "192.0.2.1"]).first
    assert not network.click(serves[5], visitor=["a new cookie", "192.0.2.1"]).first
    clock.turn(minutes=11)
    assert network.click(serves[6], visitor="ann").first
    assert network.click(serves[7]).first, "an unknown visitor"
    totals = network.stats("a")["totals"]
    assert (totals["clicks"], totals["impressions"], totals["spend"]) == (4, 8, 400)
    for wrong in ("", ["x"] * 6, ["x" * 3_000]):
        with pytest.raises(Invalid):
            network.click(serves[0], visitor=wrong)


def test_one_visitor_may_click_different_ads(network: AdNetwork, campaign: Make) -> None:
    for name in ("a", "b"):
        campaign(name, model="cpc", bid=100)
    serves = network.choose("news", "top", count=2)
    assert [network.click(serve.serve_id, visitor="ann").first for serve in serves] == [True, True]


def test_clicks_of_a_visitor_in_several_processes_at_the_same_time_count_once(
    network: AdNetwork, campaign: Make, ads_db: Db, clock: Turned
) -> None:
    campaign("a", model="cpc", bid=100)
    serves = _serves(network, 8)
    others = [AdNetwork(ads_db, secret=b"test", clock=clock) for _ in range(4)]
    firsts = at_once(8, lambda number: others[number % 4].click(serves[number], visitor="ann").first)
    assert sum(firsts) == 1
    assert network.stats("a")["totals"]["clicks"] == 1
    for other in others:
        other.close()
    assert not list(find_problems(ads_db))


def test_no_stored_document_names_a_visitor(network: AdNetwork, campaign: Make, ads_db: Db) -> None:
    campaign("a", model="cpc", bid=100)
    network.click(_serves(network, 1)[0], visitor="192.0.2.1")
    assert all("192.0.2.1" not in str(one) for name in ads_db.list_collection_names() for one in ads_db[name].find())


def test_every_click_of_a_small_budget_is_paid(network: AdNetwork, campaign: Make, ads_db: Db, clock: Turned) -> None:
    campaign("a", model="cpc", bid=100, total=1_000)  # ten clicks
    others = [AdNetwork(ads_db, secret=b"test", clock=clock) for _ in range(4)]

    def serve(number: int) -> list[str]:
        return [one.serve_id for _ in range(100) for one in others[number].choose("news", "top")]

    serves = [one for found in at_once(4, serve) for one in found]
    assert 0 < len(serves) <= 10
    at_once(4, lambda number: [others[number].click(serve) for serve in serves[number::4]])
    totals = network.stats("a")["totals"]
    assert (totals["clicks"], totals["spend"]) == (len(serves), 100 * len(serves)), "no click is free"
    for other in others:
        other.close()
    assert not list(find_problems(ads_db))


def test_the_money_of_serves_that_are_not_clicked_returns(
    network: AdNetwork, campaign: Make, ads_db: Db, clock: Turned
) -> None:
    campaign("a", model="cpc", bid=100, total=200)
    assert len(_serves(network, 2)) == 2
    assert network.choose("news", "top") == []
    clock.turn(minutes=4)
    return_lapsed(ads_db, clock.now + timedelta(seconds=1))
    with AdNetwork(ads_db, secret=b"test", clock=clock) as other:
        assert other.choose("news", "top")


def test_closing_without_time_leaves_the_leases_to_the_job(network: AdNetwork, campaign: Make, ads_db: Db) -> None:
    for name in ("a", "b", "c"):
        campaign(name)
    assert len(network.choose("news", "top", count=3)) == 3
    with operation(0.001):
        network.close()
    assert ads_db["ads.leases"].count_documents({"amount": {"$gt": 250}}) > 0
