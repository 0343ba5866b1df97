"""What processes know of campaigns while the primary of three goes away."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from tests.losses import step_down

from squinney import transactions
from squinney.ads import COLLECTIONS, AdNetwork, find_problems
from squinney.errors import Unavailable
from squinney.mongo import schema
from squinney.mongo.connect import client_for
from squinney.testing.replica_set import ReplicaSet

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]

MAX_SECONDS = 60
CREATIVE = {"kind": "text", "title": "Tea", "text": "", "url": "/"}


def _wait_until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + MAX_SECONDS
    while time.monotonic() < until:
        with suppress(Unavailable):
            if holds():
                return
        time.sleep(0.02)
    raise AssertionError("it does not come true")


def _make(network: AdNetwork, name: str, bid: int) -> None:
    pricing, budget = {"model": "cpm", "bid": bid}, {"total": 10_000, "currency": "EUR"}
    network.create_campaign(name, "Larch", pricing=pricing, budget=budget)
    network.place(name, "news", "top", {"unit": name, "creative": CREATIVE})


def test_changes_are_followed_and_beacons_kept_over_a_step_down(tmp_path: Path) -> None:
    """By the stream and by polling: what changes after the step-down is seen, and no answered beacon is lost."""
    with ReplicaSet.start(tmp_path) as three, client_for(three.uri, serverSelectionTimeoutMS=30_000) as client:
        db = client["ads"]
        schema.apply(db, [*transactions.COLLECTIONS, *COLLECTIONS])
        with AdNetwork(db) as network, AdNetwork(db) as streaming, AdNetwork(db, polling=True) as polling:
            _make(network, "old", 2)
            others = [streaming, polling]
            serves = [other.choose("news", "top")[0].serve_id for other in others]
            followed = [other._zones._thread for other in others]
            assert network.impression(serves[0])
            step_down(three)
            three.primary()
            _wait_until(lambda: bool(network.impressions(serves) or True))
            _wait_until(lambda: network.deactivate("old")["status"] == "ended")
            _make(network, "new", 1)
            for other in others:
                _wait_until(lambda other=other: [ad.unit for ad in other.choose("news", "top")] == ["new"])  # type: ignore[misc]
            assert [other._zones._thread for other in others] == followed, "the thread has ended and was begun anew"
            assert network.stats("old")["totals"]["impressions"] == 2
        assert not list(find_problems(db))
