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
from squinney.testing.crash.cases import transactions
from squinney.transactions import Mode

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
SECRET = b"crash"
CREATIVE = {"kind": "text", "title": "t", "text": "", "url": "/"}


def _network(db: Db, mode: Mode = "auto") -> AdNetwork:
    return AdNetwork(db, secret=SECRET, transactions=transactions(db, mode))


def _create(db: Db, mode: Mode, state: Any, model: str = "cpm", **options: Any) -> None:
    price, budget = (
        {"model": model, "bid": 500 if model == "cpm" else 5},
        {"total": 100, "daily": 50, "currency": "EUR"},
    )
    _network(db, mode).create_campaign("c", "Larch", pricing=price, budget=budget, **options)


def _created_once(db: Db, state: Any) -> None:
    for mode in ("native", "two-phase"):
        with suppress(CampaignTaken):
            _create(db, mode, state)
    assert _network(db).get("c")["status"] == "active"
    assert _network(db).money(["c"])["c"]["left"] == 100_000


def _placed(db: Db, **options: Any) -> None:
    _create(db, "native", None, **options)
    _network(db).place("c", "news", "top", {"unit": "u", "creative": CREATIVE})


def _capped(db: Db) -> None:
    _placed(db, cap={"impressions": 1, "per_seconds": 86_400})


def _choose(db: Db, mode: Mode, state: Any) -> None:
    _network(db).choose("news", "top", user="ann")


def _money_is_back(db: Db, state: Any) -> None:
    money = _network(db).money(["c"])["c"]
    assert (money["leased"], money["day_committed"]) == (0, money["spent"])


def _served(db: Db, **options: Any) -> Any:
    _placed(db, **options)
    network = _network(db)
    return [network.choose("news", "top")[0].serve_id for _ in range(3)]


def _impressions(db: Db, mode: Mode, serve_ids: Any) -> None:
    _network(db).impressions(serve_ids)


def _impression(db: Db, mode: Mode, serve_ids: Any) -> None:
    _network(db).impression(serve_ids[0])


def _counted_once(db: Db, serve_ids: Any) -> None:
    """Send the beacons again: whether the first try was settled or not, each counts once."""
    network = _network(db)
    network.impressions(serve_ids)
    totals = network.stats("c")["totals"]
    assert (totals["impressions"], totals["spend_thousandths"]) == (3, 1_500)


def _viewable(db: Db, mode: Mode, serve_ids: Any) -> None:
    _network(db).viewable(serve_ids[0])


def _seen_once(db: Db, serve_ids: Any) -> None:
    network = _network(db)
    network.viewable(serve_ids[0])
    assert not network.viewable(serve_ids[0])
    totals = network.stats("c")["totals"]
    assert (totals["viewable"], totals["impressions"], totals["spend_thousandths"]) == (1, 1, 500)


def _click(db: Db, mode: Mode, serve_ids: Any) -> None:
    _network(db).click(serve_ids[0])


def _conversion(db: Db, mode: Mode, serve_ids: Any) -> None:
    _network(db).conversion(serve_ids[0], 700)


def _clicked_once(db: Db, serve_ids: Any) -> None:
    network = _network(db)
    network.click(serve_ids[0])
    assert not network.click(serve_ids[0]).first
    network.conversion(serve_ids[0], 700)
    totals = network.stats("c")["totals"]
    assert (totals["clicks"], totals["impressions"], totals["spend"], totals["value"]) == (1, 1, 5, 700)


def _serve_and_close(db: Db, mode: Mode, state: Any) -> None:
    with _network(db) as network:
        network.choose("news", "top")


def _lapse(db: Db) -> None:
    db["ad_leases"].update_many({}, {"$set": {"until": LONG_AGO}})


def _lapsed(db: Db) -> Any:
    _served(db)
    _lapse(db)
    return None


def _run(job: Any) -> Any:
    def act(db: Db, mode: Mode, state: Any) -> None:
        job(db)

    return act


def _clicks_to_learn_from(db: Db) -> Any:
    serve_ids = _served(db, model="cpc")
    _network(db).click(serve_ids[0])
    return None


def _learned(db: Db, state: Any) -> None:
    assert db["ad_placements"].find_one({})["ecpm"] == _network(db).ecpm("c", impressions=1, clicks=1)


def _demo(db: Db, mode: Mode, state: Any) -> None:
    demo(db)


def _demo_continues(db: Db, state: Any) -> None:
    demo(db)
    assert db["ad_campaigns"].count_documents({}) == len(CAMPAIGNS)
    assert db["ad_counters"].count_documents({}) == len(CAMPAIGNS) * 60


def _case(name: str, prepare: Any, act: Any, check: Any, **options: Any) -> Case:
    return Case(name, "ads", prepare, act, check, modes=["native"], age=_lapse, **options)


CASES = [
    Case("AdNetwork.create_campaign", "ads", lambda db: None, _create, _created_once, age=_lapse),
    _case("AdNetwork.choose", _capped, _choose, _money_is_back),
    _case("AdNetwork.impressions", _served, _impressions, _counted_once),
    _case("AdNetwork.impression", _served, _impression, _counted_once),
    _case("AdNetwork.viewable", _served, _viewable, _seen_once),
    _case("AdNetwork.click", lambda db: _served(db, model="cpc"), _click, _clicked_once),
    _case("AdNetwork.conversion", lambda db: _served(db, model="cpc"), _conversion, _clicked_once),
    _case("AdNetwork.close", _placed, _serve_and_close, _money_is_back),
    _case("job:return-ad-leases", _lapsed, _run(return_leases), _money_is_back),
    _case("job:refresh-ad-ecpm", _clicks_to_learn_from, _run(refresh_ecpm), _learned),
    _case("ads.demo", lambda db: None, _demo, _demo_continues),
]
