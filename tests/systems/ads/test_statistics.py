"""Every figure equals what was really sent, as the tests count it."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any

import pytest
from tests.systems.ads.conftest import CREATIVE, Turned

from squinney.ads import AdNetwork, ServeExpired, find_problems
from squinney.ads.charging import settling
from squinney.ads.documents import COUNTED
from squinney.ads.tokens import Tokens
from squinney.mongo.schema import Db
from squinney.transactions import Busy

PRICES = {"by view": {"model": "cpm", "bid": 700}, "by click": {"model": "cpc", "bid": 3}}
ZONES = ("top", "side.$1", "☂")
KINDS = ("impressions", "viewable", "clicks", "conversions")


def _send(network: AdNetwork, kind: str, serve_id: str) -> None:
    sent: dict[str, Any] = {
        "impressions": network.impression,
        "viewable": network.viewable,
        "clicks": network.click,
        "conversions": lambda one: network.conversion(one, 5),
    }
    sent[kind](serve_id)


@pytest.mark.parametrize("seed", range(2))
def test_each_count_equals_the_beacons_sent(network: AdNetwork, clock: Turned, ads_db: Db, seed: int) -> None:
    """Beacons are repeated, late and in random order, for several zones and days."""
    chance = random.Random(seed)
    for name, pricing in PRICES.items():
        network.create_campaign(name, "Larch", pricing=pricing, budget={"total": 100_000, "currency": "EUR"})
        for zone in ZONES:
            network.place(name, "news", zone, {"unit": name, "creative": CREATIVE})
    counted: dict[tuple[Any, ...], set[tuple[str, str]]] = {}
    open_serves: list[Any] = []
    for _ in range(60):
        zone = chance.choice(ZONES)
        open_serves += [(zone, serve) for serve in network.choose("news", zone, count=2)]
        for zone, serve in chance.choices(open_serves, k=3):
            token, kind = Tokens(b"test").read(serve.serve_id), chance.choice(KINDS)
            row = (serve.campaign_id, token.at.date(), zone)
            try:
                _send(network, kind, serve.serve_id)
            except ServeExpired:
                continue
            counted.setdefault(row, set()).update({(kind, token.id), ("impressions", token.id)})
        clock.turn(seconds=chance.choice([1, 60, 400, 20_000]))
    for name, pricing in PRICES.items():
        stats = network.stats(name)
        totals: Counter[str] = Counter()
        for row in stats["rows"]:
            sent = Counter(kind for kind, _ in counted.pop((name, row["day"].date(), row["zone"])))
            spend = sent["impressions"] * 700 if pricing["model"] == "cpm" else sent["clicks"] * 3_000
            expected = {kind: sent[kind] for kind in KINDS} | {"spend": spend, "value": sent["conversions"] * 5}
            assert {one: row[one] for one in expected} == expected
            totals.update(expected)
        spent = totals.pop("spend")
        assert stats["totals"] == {**totals, "capped": 0, "spend": spent // 1_000, "spend_thousandths": spent}
        assert network.money([name])[name]["spent"] == spent
    assert counted == {}
    assert not list(find_problems(ads_db))


def test_stats_of_some_days(network: AdNetwork, campaign: Any, clock: Turned) -> None:
    campaign("a")
    days = []
    for _ in range(4):
        days.append(clock.now.replace(hour=0))
        assert network.impression(network.choose("news", "top")[0].serve_id)
        clock.turn(days=1)
    found = network.stats("a", days[1], days[3])
    assert ([row["day"] for row in found["rows"]], found["totals"]["impressions"]) == (days[1:3], 2)


def test_rows_are_paged_and_totals_cover_all_rows(network: AdNetwork, ads_db: Db, campaign: Any) -> None:
    campaign("a")
    chance = random.Random(1)
    rows = []
    for number in range(40):
        key = {"campaign_id": "a", "day": datetime(2026, 1, 1 + number // 8, tzinfo=UTC), "site": f"s{number % 2}"}
        key |= {"zone": f"z{number % 4}", "unit": f"u{number % 8}"}
        counts = {name: chance.randrange(1000) for name in COUNTED if chance.random() < 0.9}
        rows.append({"_id": dict(key), **key, **counts})
    ads_db["ads.counters"].insert_many(chance.sample(rows, 40))
    pages, cursor = [], None
    while pages == [] or cursor:
        found = network.stats("a", cursor=cursor, limit=7)
        pages.append(found["rows"])
        cursor = found["next"]
        sums = {name: sum(row.get(name, 0) for row in rows) for name in COUNTED}
        spend = sums.pop("spend")
        assert found["totals"] == {**sums, "spend": spend // 1000, "spend_thousandths": spend}
    names = ("day", "site", "zone", "unit", *COUNTED)
    listed = [{name: row.get(name, 0) for name in names} for row in rows]
    assert [row for some in pages for row in some] == sorted(listed, key=itemgetter("day", "site", "zone", "unit"))
    for by in (("day",), ("site", "zone"), ("unit",)):
        groups: dict[Any, Counter[str]] = defaultdict(Counter)
        for row in listed:
            groups[tuple(row[name] for name in by)].update({name: row[name] for name in COUNTED})
        told = network.delivered("a", *by)
        assert {tuple(one[name] for name in by): {name: one[name] for name in COUNTED} for one in told} == groups
        assert [one["impressions"] for one in told] == sorted((one["impressions"] for one in told), reverse=True)


def test_a_blocked_budget_does_not_block_other_campaigns(
    network: AdNetwork, campaign: Any, ads_db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction holds a budget, like that of a killed process."""
    monkeypatch.setattr(settling, "SECONDS", 3.0)  # a busy machine may stall for one
    campaign("held", bid=2)
    campaign("free", bid=1)
    serves = {one.campaign_id: one.serve_id for one in network.choose("news", "top", count=2)}
    with ads_db.client.start_session() as session, session.start_transaction():
        ads_db["ads.budgets"].update_one({"_id": "held"}, {"$inc": {"spent": 0, "held": 1}}, session=session)
        with pytest.raises(Busy):
            network.impressions(list(serves.values()))
        assert network.stats("free")["totals"]["impressions"] == 1
        monkeypatch.setattr(settling, "settle_batch", None)
        with pytest.raises(Busy):  # at once: nobody waits for it again
            network.impression(serves["held"])
        monkeypatch.undo()
        session.abort_transaction()
    network._settler._held_until["held"] = 0  # some seconds later
    assert network.impressions([serves["held"], serves["free"]]) == [True, False]
