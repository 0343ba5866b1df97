"""The crash cases of the advertising network."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from squinney.ads import AdNetwork, CampaignTaken
from squinney.ads.demo import CAMPAIGNS, demo
from squinney.ads.jobs import refresh_ecpm, return_leases
from squinney.mongo.schema import Db
from squinney.testing import Case

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
SECRET = b"crash"
CREATIVE = {"kind": "text", "title": "t", "text": "", "url": "/"}


def _network(db: Db) -> AdNetwork:
    return AdNetwork(db, secret=SECRET)


def _create(db: Db, state: Any, model: str = "cpm", **options: Any) -> None:
    price, budget = (
        {"model": model, "bid": 500 if model == "cpm" else 5},
        {"total": 100, "daily": 50, "currency": "EUR"},
    )
    _network(db).create_campaign("c", "Larch", pricing=price, budget=budget, **options)


def _created_once(db: Db, state: Any) -> None:
    for _ in range(2):
        with suppress(CampaignTaken):
            _create(db, state)
    assert _network(db).get("c")["status"] == "active"
    assert _network(db).money(["c"])["c"]["left"] == 100_000


def _placed(db: Db, **options: Any) -> None:
    _create(db, None, **options)
    _network(db).place("c", "news", "top", {"unit": "u", "creative": CREATIVE})


def _capped(db: Db) -> None:
    _placed(db, cap={"impressions": 1, "per_seconds": 86_400})


def _money_is_back(db: Db, state: Any) -> None:
    money = _network(db).money(["c"])["c"]
    assert (money["leased"], money["day_committed"]) == (0, money["spent"])


def _served(db: Db, **options: Any) -> Any:
    _placed(db, **options)
    network = _network(db)
    return [network.choose("news", "top")[0].serve_id for _ in range(3)]


def _counted_once(db: Db, serve_ids: Any) -> None:
    """Send the beacons again: whether the first try was settled or not, each counts once."""
    network = _network(db)
    network.impressions(serve_ids)
    totals = network.stats("c")["totals"]
    assert (totals["impressions"], totals["spend_thousandths"]) == (3, 1_500)


def _seen_once(db: Db, serve_ids: Any) -> None:
    network = _network(db)
    network.viewable(serve_ids[0])
    assert not network.viewable(serve_ids[0])
    totals = network.stats("c")["totals"]
    assert (totals["viewable"], totals["impressions"], totals["spend_thousandths"]) == (1, 1, 500)


def _clicked_once(db: Db, serve_ids: Any) -> None:
    network = _network(db)
    network.click(serve_ids[0])
    assert not network.click(serve_ids[0]).first
    network.conversion(serve_ids[0], 700)
    totals = network.stats("c")["totals"]
    assert (totals["clicks"], totals["impressions"], totals["spend"], totals["value"]) == (1, 1, 5, 700)


def _serve_and_close(db: Db, state: Any) -> None:
    with _network(db) as network:
        network.choose("news", "top")


def _lapse(db: Db) -> None:
    db["ads.leases"].update_many({}, {"$set": {"until": LONG_AGO}})


def _lapsed(db: Db) -> Any:
    _served(db)
    _lapse(db)
    return None


def _run(job: Any) -> Any:
    def act(db: Db, state: Any) -> None:
        job(db)

    return act


def _clicks_to_learn_from(db: Db) -> Any:
    serve_ids = _served(db, model="cpc")
    _network(db).click(serve_ids[0])
    return None


def _learned(db: Db, state: Any) -> None:
    assert db["ads.placements"].find_one({})["ecpm"] == _network(db).ecpm("c", impressions=1, clicks=1)


def _to_fund(db: Db) -> None:
    _create(db, None, review=True)


def _funded_once(db: Db, state: Any) -> None:
    network = _network(db)
    assert network.fund("c", 60, key="payment")["funded"] == 60
    assert network.money(["c"])["c"]["left"] == 60_000
    assert [item["amount"] for item in network.fundings("c").items] == [60]


def _demo_continues(db: Db, state: Any) -> None:
    demo(db)
    assert db["ads.campaigns"].count_documents({}) == len(CAMPAIGNS)
    assert db["ads.counters"].count_documents({}) == len(CAMPAIGNS) * 60


def _case(name: str, prepare: Any, act: Any, check: Any, **options: Any) -> Case:
    return Case(name, "ads", prepare, act, check, age=_lapse, **options)


CASES = [
    Case("AdNetwork.create_campaign", "ads", lambda db: None, _create, _created_once, age=_lapse),
    Case(
        "AdNetwork.fund",
        "ads",
        _to_fund,
        lambda db, state: _network(db).fund("c", 60, key="payment"),
        _funded_once,
        age=_lapse,
    ),
    _case(
        "AdNetwork.choose", _capped, lambda db, state: _network(db).choose("news", "top", user="ann"), _money_is_back
    ),
    _case("AdNetwork.impressions", _served, lambda db, serve_ids: _network(db).impressions(serve_ids), _counted_once),
    _case("AdNetwork.impression", _served, lambda db, serve_ids: _network(db).impression(serve_ids[0]), _counted_once),
    _case("AdNetwork.viewable", _served, lambda db, serve_ids: _network(db).viewable(serve_ids[0]), _seen_once),
    _case(
        "AdNetwork.click",
        lambda db: _served(db, model="cpc"),
        lambda db, serve_ids: _network(db).click(serve_ids[0]),
        _clicked_once,
    ),
    _case(
        "AdNetwork.conversion",
        lambda db: _served(db, model="cpc"),
        lambda db, serve_ids: _network(db).conversion(serve_ids[0], 700),
        _clicked_once,
    ),
    _case("AdNetwork.close", _placed, _serve_and_close, _money_is_back),
    _case("job:return-ad-leases", _lapsed, _run(return_leases), _money_is_back),
    _case("job:refresh-ad-ecpm", _clicks_to_learn_from, _run(refresh_ecpm), _learned),
    _case("ads.demo", lambda db: None, lambda db, state: demo(db), _demo_continues),
]
