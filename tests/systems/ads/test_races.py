"""Several networks, as of different processes, at the same time."""

from __future__ import annotations

from collections.abc import Callable

from tests.racing import at_once
from tests.systems.ads.conftest import Turned

from squinney.ads import AdNetwork, find_problems
from squinney.mongo.schema import Db


def test_budget_cap_and_counts_hold_in_concurrent_processes(
    network: AdNetwork, campaign: Callable[..., str], ads_db: Db, clock: Turned
) -> None:
    campaign("small", bid=500, total=20)  # forty impressions
    campaign("capped", bid=400, cap={"impressions": 3, "per_seconds": 60})
    others = [AdNetwork(ads_db, secret=b"test", clock=clock) for _ in range(4)]

    def serve(number: int) -> list[tuple[str, str]]:
        found = [one for _ in range(15) for one in others[number].choose("news", "top", user="ann", count=2)]
        return [(one.campaign_id, one.serve_id) for one in found]

    served = [one for batch in at_once(4, serve) for one in batch]
    ids = [serve_id for _, serve_id in served]
    firsts = at_once(4, lambda number: others[number].impressions(ids))
    assert all(sum(first) == 1 for first in zip(*firsts, strict=True))
    assert sum(name == "capped" for name, _ in served) == 3
    assert network.money(["small"])["small"]["spent"] <= 20_000
    assert sum(network.stats(name)["totals"]["impressions"] for name in ("small", "capped")) == len(set(ids))
    for other in others:
        other.close()
    assert not list(find_problems(ads_db))
