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
