"""The advertising network from the command line."""

from __future__ import annotations

import json

from tests.cli.conftest import Squinney

from squinney.mongo.schema import Db


def test_a_campaign_is_made_placed_simulated_and_shown(squinney: Squinney, ready_db: Db) -> None:
    made = squinney("ads", "campaign", "boots", "Larch", "--bid", "200", "--total", "10", "--cap", "20")
    assert (made.returncode, made.stdout.strip()) == (0, "boots is active, with 0.10 EUR"), made.stderr
    placed = squinney("ads", "place", "boots", "news", "top", "u1", "--url", "/shop", "--title", "Boots")
    assert placed.returncode == 0, placed.stderr
    done = squinney("ads", "simulate", "news", "top", "--visits", "200", "--click-rate", "0.1", "--seed", "1", "--json")
    assert json.loads(done.stdout)["campaigns"] == [{"campaign_id": "boots", "served": 50, "spent": 10, "total": 10}]
    told = squinney("ads", "stats", "boots", "--json")
    assert json.loads(told.stdout)["totals"]["impressions"] == 50
    assert squinney("ads", "stats", "nothing").returncode == 3


def test_an_ad_is_reviewed_and_funded(squinney: Squinney, ready_db: Db) -> None:
    made = squinney("ads", "campaign", "boots", "Larch", "--bid", "200", "--total", "10", "--review")
    assert made.stdout.strip() == "boots is active, with 0.00 EUR", made.stderr
    squinney("ads", "place", "boots", "news", "top", "u1", "--url", "/shop", "--title", "Boots")
    waiting = json.loads(squinney("ads", "review", "--json").stdout)["items"]
    assert [one["creative"]["title"] for one in waiting] == ["Boots"]
    assert "/shop" in squinney("ads", "review").stdout
    stale = squinney("ads", "approve", "news", "top", "u1", "another")
    assert (stale.returncode, "changed after it was read" in stale.stderr) == (5, True), stale.stderr
    approved = squinney("ads", "approve", "news", "top", "u1", waiting[0]["review"]["id"])
    assert approved.stdout.strip() == "u1 is approved", approved.stderr
    for _ in range(2):
        funded = squinney("ads", "fund", "boots", "4", "--key", "k")
        assert funded.stdout.strip() == "boots is funded with 0.04 EUR", funded.stderr
    done = squinney("ads", "simulate", "news", "top", "--visits", "50", "--click-rate", "0", "--json")
    assert json.loads(done.stdout)["campaigns"][0]["spent"] == 4
    rejected = squinney("ads", "reject", "news", "top", "u1", "--reason", "no")
    assert rejected.stdout.strip() == "u1 is rejected", rejected.stderr
