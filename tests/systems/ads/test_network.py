"""The network, tested through its public methods."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.systems.ads.conftest import CREATIVE, Turned

from squinney.ads import (
    AdNetwork,
    BadServe,
    CampaignEnded,
    CampaignTaken,
    ServeExpired,
    UnitTaken,
    UnknownCampaign,
    campaigns,
    find_problems,
    repair,
)
from squinney.ads import jobs as ad_jobs
from squinney.ads.charging.budgets import return_lapsed
from squinney.ads.choosing import profiles, zones
from squinney.ads.choosing.choice import MAX_REFUSALS
from squinney.ads.tokens import Tokens
from squinney.errors import Invalid, LimitReached
from squinney.mongo.schema import Db

Make = Callable[..., str]


def _units(network: AdNetwork, **options: Any) -> list[str]:
    return [serve.unit for serve in network.choose("news", "top", count=20, **options)]


# ---- choosing ----


def test_the_best_paid_ads_come_first(network: AdNetwork, campaign: Make) -> None:
    campaign("low", bid=100)
    campaign("high", bid=300)
    campaign("click", bid=120, model="cpc")  # at the prior of two in a thousand: 240 a thousand
    assert _units(network) == ["high", "click", "low"]
    assert network.choose("news", "top")[0].price == 300


def test_unknown_sites_zones_and_users_are_no_error(network: AdNetwork, campaign: Make) -> None:
    campaign("a")
    assert network.choose("nowhere", "top") == network.choose("news", "$bottom.") == []
    assert _units(network, user="never seen") == ["a"]
    assert network.explain("nowhere", "x") == []


@pytest.mark.parametrize("name", ["a.b", "$set", "%24", "日本語/😀", "__proto__", "x" * 200])
def test_names_may_contain_any_character(network: AdNetwork, campaign: Make, name: str) -> None:
    campaign(name, cap={"impressions": 1, "per_seconds": 60})
    network.place(name, name, name, {"unit": name, "creative": CREATIVE})
    first = network.choose(name, name, user=name)
    assert [serve.unit for serve in first] == [name]
    assert network.choose(name, name, user=name) == []
    assert network.impression(first[0].serve_id)
    assert network.stats(name)["rows"][0]["site"] == name


def test_ads_that_may_not_be_shown_are_excluded_and_explained(
    network: AdNetwork, campaign: Make, clock: Turned, ads_db: Db
) -> None:
    campaign("fine", bid=1)
    campaign("later", starts_at=clock.now + timedelta(days=1))
    campaign("over", ends_at=clock.now)
    campaign("elsewhere", targeting={"sites": ["sport"]})
    campaign("tea", targeting={"keywords": ["Tea"]})
    campaign("down", ad={"active": False})
    campaign("poor", bid=10_000_000, total=1)
    campaign("paused")
    network.pause("paused")
    campaign("new kind")
    ads_db["ads.placements"].update_one({"campaign_id": "new kind"}, {"$set": {"creative": {"kind": "hologram"}}})
    fresh = AdNetwork(ads_db, secret=b"test", clock=clock)
    assert _units(fresh) == ["fine"]
    assert {one.unit: one.left_out for one in fresh.explain("news", "top")} == {
        "fine": "",
        "later": "not started",
        "over": "ended",
        "elsewhere": "not for this site",
        "tea": "not for these keywords",
        "down": "not active",
        "poor": "out of budget",
        "paused": "paused",
        "new kind": "unknown creative",
    }
    assert "tea" in _units(fresh, keywords=[" TEA "])
    fresh.close()


@pytest.mark.parametrize(
    "options", [{"count": 0}, {"count": 21}, {"keywords": "tea"}, {"keywords": ["x"] * 51}, {"user": ""}, {"user": 5}]
)
def test_a_choice_refuses_bad_input(network: AdNetwork, options: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        network.choose("news", "top", **options)


# ---- campaigns ----


def test_a_campaign_is_made_once_and_read_back(network: AdNetwork, campaign: Make) -> None:
    campaign("a", owner="ann")
    with pytest.raises(CampaignTaken):
        campaign("a")
    with pytest.raises(UnknownCampaign):
        network.get("b")
    with pytest.raises(UnknownCampaign):
        network.place("b", "news", "top", {"unit": "u", "creative": CREATIVE})
    assert network.get("a")["owner"] == "ann"
    assert [item["_id"] for item in network.owned_by("ann").items] == ["a"]
    assert network.owned_by("ben").items == []
    assert [item["_id"] for item in network.all().items] == ["a"]


def test_a_unit_belongs_to_one_campaign(network: AdNetwork, campaign: Make) -> None:
    campaign("a")
    campaign("b")
    with pytest.raises(UnitTaken):
        network.place("b", "news", "top", {"unit": "a", "creative": CREATIVE})
    changed = network.place("a", "news", "top", {"unit": "a", "creative": {**CREATIVE, "title": "New"}})
    assert changed["creative"]["title"] == "New"
    assert [placement["_id"]["ad_unit"] for placement in network.placements("a")] == ["a"]


def test_a_campaign_has_a_bounded_number_of_ads(
    network: AdNetwork, campaign: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(campaigns, "MAX_PLACEMENTS", 2)
    campaign("a")
    network.place("a", "news", "top", {"unit": "b", "creative": CREATIVE})
    network.place("a", "news", "top", {"unit": "b", "creative": CREATIVE, "weight": 2})
    with pytest.raises(LimitReached, match="at most 2"):
        network.place("a", "news", "top", {"unit": "c", "creative": CREATIVE})
    assert sorted(_units(network)) == ["a", "b"]


def test_an_ended_campaign_stays_ended(network: AdNetwork, campaign: Make) -> None:
    campaign("a")
    network.pause("a")
    assert _units(network) == []
    network.resume("a")
    assert _units(network) == ["a"]
    network.deactivate("a")
    assert _units(network) == []
    for refused in (network.resume, network.pause):
        with pytest.raises(CampaignEnded):
            refused("a")
    with pytest.raises(CampaignEnded):
        network.place("a", "news", "top", {"unit": "a", "creative": CREATIVE})


@pytest.mark.parametrize("polling", [None, True])
def test_other_processes_follow_changes(network: AdNetwork, campaign: Make, ads_db: Db, polling: bool | None) -> None:
    """With a change stream and with polling."""
    campaign("a", bid=1)
    other = AdNetwork(ads_db, secret=b"test", polling=polling)
    assert _units(other) == ["a"]
    campaign("b", bid=2)
    network.deactivate("a")
    until = datetime.now(UTC) + timedelta(seconds=20)
    while _units(other) != ["b"]:
        assert datetime.now(UTC) < until, "the other process did not follow"
    other.close()


# ---- caps ----


def test_a_cap_holds_for_its_window_and_user(network: AdNetwork, campaign: Make, clock: Turned, ads_db: Db) -> None:
    campaign("a", cap={"impressions": 2, "per_seconds": 60})
    for _ in range(2):
        assert _units(network, user="ann") == ["a"]
        clock.turn(seconds=10)
    assert _units(network, user="ann") == []
    assert network.explain("news", "top", user="ann")[0].left_out == "capped for this user"
    assert _units(network, user="ben") == ["a"]
    assert _units(network) == ["a"]
    assert _units(network, user="ann", consent=False) == ["a"]
    clock.turn(seconds=41)
    assert _units(network, user="ann") == ["a"]
    assert _units(network, user="ann") == []
    assert network.forget("ann")
    assert not network.forget("ann")
    assert _units(network, user="ann") == ["a"]


def test_cap_hits_are_counted(network: AdNetwork, campaign: Make, ads_db: Db, clock: Turned) -> None:
    once = {"impressions": 1, "per_seconds": 3600}
    campaign("a", bid=9, cap=once)
    network.place("a", "news", "top", {"unit": "a2", "creative": CREATIVE})
    campaign("b", bid=5, ad={"cap": once})
    campaign("rest", bid=1)
    for _ in range(4):  # a choice meets a campaign's cap once, however many ads it has
        _units(network, user="ann")
        _units(network)
        _units(network, user="ann", consent=False)
        assert network.choose("news", "top", user="ann")[0].unit == "rest"
    network.close()
    rows = {name: sum(row["capped"] for row in network.stats(name)["rows"]) for name in ("a", "b", "rest")}
    assert rows == {"a": 8, "b": 7, "rest": 0}
    assert network.stats("a")["totals"]["capped"] == 8
    assert network.delivered("b", "zone")[0]["capped"] == 7
    assert not list(find_problems(ads_db))


def test_cap_hits_that_cannot_be_written_are_kept(
    network: AdNetwork, campaign: Make, ads_db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction holds the counter, like that of a killed process: a visitor does not wait long for it."""
    campaign("a", cap={"impressions": 1, "per_seconds": 3600})
    network.impression(network.choose("news", "top", user="ann")[0].serve_id)
    with ads_db.client.start_session() as session, session.start_transaction():
        ads_db["ads.counters"].update_one({}, {"$inc": {"impressions": 0, "held": 1}}, session=session)
        assert network.choose("news", "top", user="ann") == []
        session.abort_transaction()
    monkeypatch.setattr("squinney.ads.choosing.cap_hits.WAIT_SECONDS", 30.0)  # a busy machine may need more than usual
    network.close()
    assert network.stats("a")["totals"]["capped"] == 1


def test_a_full_profile_is_updated_once_in_a_choice(
    network: AdNetwork, campaign: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profiles, "MAX_CAPS", 1)
    for number in range(6):
        campaign(f"c{number}", bid=9, cap={"impressions": 5, "per_seconds": 3600})
    campaign("rest", bid=1)
    assert len(_units(network, user="ann")) == 2
    asked: list[object] = []
    count = profiles.count
    monkeypatch.setattr(profiles, "count", lambda *given: asked.append(1) or count(*given))
    assert _units(network, user="ann") == ["rest"]
    assert len(asked) == 1


def test_without_consent_there_is_no_profile(network: AdNetwork, campaign: Make, ads_db: Db) -> None:
    campaign("a", cap={"impressions": 2, "per_seconds": 60})
    _units(network, user="ann", consent=False)
    assert ads_db["ads.users"].count_documents({}) == 0


def test_an_ad_has_its_own_cap_in_addition_to_its_campaigns(network: AdNetwork, campaign: Make) -> None:
    once = {"impressions": 1, "per_seconds": 3600}
    campaign("a", cap={"impressions": 3, "per_seconds": 3600}, ad={"cap": once})
    network.place("a", "news", "top", {"unit": "second", "creative": CREATIVE})
    assert sorted(_units(network, user="ann")) == ["a", "second"]
    assert _units(network, user="ann") == ["second"]
    assert _units(network, user="ann") == []


def test_a_profile_keeps_only_what_caps_need(network: AdNetwork, campaign: Make, clock: Turned, ads_db: Db) -> None:
    campaign("a", cap={"impressions": 3, "per_seconds": 60})
    campaign("b", cap={"impressions": 1, "per_seconds": 10})
    for _ in range(20):
        _units(network, user="ann")
        clock.turn(seconds=25)
    _units(network, user="ann")
    shown = ads_db["ads.users"].find_one({"_id": "ann"})["shown"]
    assert len(shown["a"]["at"]) <= 3
    clock.turn(seconds=30)
    network.pause("b")
    _units(network, user="ann")
    assert list(ads_db["ads.users"].find_one({"_id": "ann"})["shown"]) == ["a"]


# ---- beacons ----


def test_an_impression_counts_once_and_costs_its_price(network: AdNetwork, campaign: Make, ads_db: Db) -> None:
    campaign("a", bid=250)
    serve = network.choose("news", "top")[0]
    assert network.impression(serve.serve_id)
    assert not network.impression(serve.serve_id)
    stats = network.stats("a")
    assert stats["totals"] == {
        "impressions": 1,
        "viewable": 0,
        "clicks": 0,
        "conversions": 0,
        "value": 0,
        "capped": 0,
        "spend": 0,
        "spend_thousandths": 250,
    }
    row = stats["rows"][0]
    assert (row["site"], row["zone"], row["unit"], row["impressions"]) == ("news", "top", "a", 1)
    assert network.money(["a"])["a"]["spent"] == 250
    assert not list(find_problems(ads_db))


def test_many_impressions_are_settled_together(network: AdNetwork, campaign: Make) -> None:
    campaign("a", bid=4)
    ids = [network.choose("news", "top")[0].serve_id for _ in range(700)]
    assert network.impressions([*ids[:10], "forged", *ids, ids[0]]) == [True] * 10 + [False] * 11 + [True] * 690 + [
        False
    ]
    assert network.stats("a")["totals"]["impressions"] == 700
    assert network.stats("a")["totals"]["spend_thousandths"] == 2800


def test_beacons_that_another_process_settled_are_not_counted_again(
    network: AdNetwork, campaign: Make, ads_db: Db, clock: Turned
) -> None:
    campaign("a", bid=100)
    with AdNetwork(ads_db, secret=b"test", clock=clock) as other:
        old, new = (network.choose("news", "top")[0].serve_id for _ in range(2))
        assert other.impression(old)
        assert network.impressions([new, old, new]) == [True, False, False]
    assert network.money(["a"])["a"]["spent"] == 200
    assert not list(find_problems(ads_db))


def test_an_impression_of_an_expired_lease_is_charged_to_the_budget(
    network: AdNetwork, campaign: Make, ads_db: Db
) -> None:
    campaign("a", bid=100, total=160)
    serve_id = network.choose("news", "top")[0].serve_id
    assert return_lapsed(ads_db, datetime(2100, 1, 1, tzinfo=UTC)) == 1
    assert network.impression(serve_id)
    money = network.money(["a"])["a"]
    assert (money["spent"], money["leased"], money["day_committed"]) == (100, 0, 100)
    assert not list(find_problems(ads_db))


def test_an_impression_of_an_empty_lease_is_charged_to_the_budget(
    network: AdNetwork, campaign: Make, ads_db: Db
) -> None:
    campaign("a", bid=100, total=160)
    serve_id = network.choose("news", "top")[0].serve_id
    ads_db["ads.leases"].update_one({}, {"$set": {"amount": 50}})
    ads_db["ads.budgets"].update_one({}, {"$set": {"committed": 50, "day_committed": 50}})
    assert network.impression(serve_id)
    money = network.money(["a"])["a"]
    assert (money["spent"], money["leased"]) == (100, 50)
    assert not list(find_problems(ads_db))


def test_a_click_counts_once_pays_by_click_and_leads_to_the_creative(network: AdNetwork, campaign: Make) -> None:
    campaign("a", bid=30, model="cpc")
    serve_id = network.choose("news", "top")[0].serve_id
    first, again = network.click(serve_id), network.click(serve_id)
    assert (first.url, first.first, again.first) == ("https://example.com/boots", True, False)
    assert not network.impression(serve_id)  # the click has counted it
    assert network.conversion(serve_id, 4_900)
    assert not network.conversion(serve_id, 4_900)
    totals = network.stats("a")["totals"]
    assert totals["impressions"] == totals["clicks"] == totals["conversions"] == 1
    assert (totals["spend"], totals["value"]) == (30, 4_900)


def test_forged_and_late_beacons_are_refused(network: AdNetwork, campaign: Make, clock: Turned) -> None:
    campaign("a")
    serve_id = network.choose("news", "top")[0].serve_id
    forged = Tokens(b"guess").sign(Tokens(b"test").read(serve_id))
    for send in (network.impression, network.click, network.conversion):
        with pytest.raises(BadServe):
            send(forged)
    clock.turn(seconds=601)
    with pytest.raises(ServeExpired):
        network.impression(serve_id)
    assert network.impressions([serve_id]) == [False]
    assert network.click(serve_id).first
    clock.turn(days=8)
    with pytest.raises(ServeExpired):
        network.conversion(serve_id)


# ---- money ----


def test_a_budget_is_spent_and_never_exceeded(network: AdNetwork, campaign: Make, ads_db: Db) -> None:
    campaign("a", bid=300, total=3)  # ten impressions
    served = [serve.serve_id for _ in range(30) for serve in network.choose("news", "top")]
    assert len(served) == 10
    assert sum(network.impressions(served)) == 10
    assert network.money(["a"])["a"]["spent"] == 3_000
    assert network.explain("news", "top")[0].left_out == "out of budget"
    assert not list(find_problems(ads_db))


def test_a_day_has_its_own_budget(network: AdNetwork, campaign: Make, clock: Turned, ads_db: Db) -> None:
    campaign("a", bid=500, total=100, budget={"daily": 2})  # four impressions a day
    for day in (1, 2, 3):
        served = [serve.serve_id for _ in range(9) for serve in network.choose("news", "top")]
        assert len(served) == 4
        assert sum(network.impressions(served)) == 4
        assert [row["spend"] for row in network.stats("a")["rows"]] == [2_000] * day
        clock.turn(days=1)
        network._zones.campaigns["a"].wallet.empty_until = 0  # half a second passes
    assert not list(find_problems(ads_db))


def test_even_pacing_spreads_the_daily_budget(network: AdNetwork, campaign: Make, clock: Turned) -> None:
    campaign("a", bid=1000, total=10_000, budget={"daily": 24, "pacing": "even"})
    assert sum(len(network.choose("news", "top")) for _ in range(40)) == 13  # noon and an hour


def test_a_campaign_ends_when_its_budget_is_spent(
    network: AdNetwork, campaign: Make, ads_db: Db, clock: Turned
) -> None:
    """One update removes it from every zone: no process tries to lease from it again."""
    campaign("a", bid=300, total=3)
    network.impressions([serve.serve_id for _ in range(10) for serve in network.choose("news", "top")])
    assert network.get("a")["status"] == "active"
    assert network.choose("news", "top") == []
    assert (network.get("a")["status"], network.get("a")["ended_because"]) == ("ended", "out of budget")
    with AdNetwork(ads_db, secret=b"test", clock=clock) as other:
        assert other.choose("news", "top") == []
        assert other._zones.campaigns["a"].wallet.refusals == 0


def test_a_choice_tries_few_campaigns_without_money(
    network: AdNetwork, campaign: Make, ads_db: Db, clock: Turned
) -> None:
    for number in range(8):
        campaign(f"poor {number}", bid=1000, total=100, budget={"daily": 1})
    campaign("rest", bid=1)
    with AdNetwork(ads_db, secret=b"test", clock=clock) as other:
        assert _units(other)[-1] == "rest"
    network.explain("news", "top")
    wallets = [campaign.wallet for campaign in network._zones.campaigns.values()]
    assert _units(network) == []  # the day's money of each is out
    assert sum(wallet.refusals for wallet in wallets) == MAX_REFUSALS
    assert _units(network) == ["rest"]
    assert [wallet.refusals for wallet in wallets] == [1] * 8 + [0]  # none is asked again so soon


def test_a_change_that_is_read_late_does_not_undo_a_newer_one(network: AdNetwork, campaign: Make, ads_db: Db) -> None:
    campaign("a")
    assert _units(network) == ["a"]
    network._zones.close()  # so that no other change follows
    network.pause("a")
    network.resume("a")
    late = ads_db["ads.campaigns"].find_one({"_id": "a"})
    assert late
    time.sleep(0.002)  # the times of two changes differ
    network.pause("a")
    network._zones.update_campaign(late)
    assert not network._zones.campaigns["a"].can_be_shown(time.monotonic())


def test_the_order_of_a_large_zone_excludes_ads_that_cannot_be_shown(
    network: AdNetwork, campaign: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zones, "LARGE", 2)
    monkeypatch.setattr(zones, "REORDER_SECONDS", 0)
    monkeypatch.setattr(zones, "REORDER_SHARE", 1e9)
    for name, bid in (("a", 3), ("b", 2), ("c", 1)):
        campaign(name, bid=bid)
    zone = network._zones.get("news", "top")

    def ordered() -> list[str]:
        return [ad.unit for ad, _ in zone.ordered().ranked((), random.Random(1))]

    assert _units(network) == ordered() == ["a", "b", "c"]
    network.pause("a")
    assert _units(network) == ordered() == ["b", "c"]
    network.resume("a")
    assert _units(network) == ordered() == ["a", "b", "c"]
    wallet = network._zones.campaigns["b"].wallet
    network.close()  # from now on nobody tells the zone of changes
    wallet.empty_until = time.monotonic() + 5
    zone.reorder_if_large()
    assert ordered() == ["a", "c"]
    while time.monotonic() <= wallet.empty_until:
        time.sleep(0.1)
    assert ordered() == ["a", "b", "c"]


def test_requests_for_unknown_zones_drop_no_zone_with_ads(
    network: AdNetwork, campaign: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zones, "MAX_ZONES", 3)
    campaign("a")
    known = network._zones.get("news", "top")
    for number in range(10):
        network.choose("news", f"unknown {number}")
    assert network._zones.get("news", "top") is known
    assert len(network._zones._zones) <= 3


def test_the_rest_of_an_expired_lease_returns_to_the_budget(
    network: AdNetwork, campaign: Make, clock: Turned, ads_db: Db
) -> None:
    campaign("a", bid=100, total=160)
    gone = AdNetwork(ads_db, secret=b"test", clock=clock)
    serve_id = gone.choose("news", "top")[0].serve_id  # and it dies
    assert network.money(["a"])["a"]["leased"] == 10_000
    assert return_lapsed(ads_db, clock.now) == 0
    assert network.impression(serve_id)  # another process settles it
    clock.turn(seconds=800)
    assert return_lapsed(ads_db, clock.now) == 1
    money = network.money(["a"])["a"]
    assert (money["leased"], money["spent"], money["day_committed"]) == (0, 100, 100)
    assert not list(find_problems(ads_db))


def test_a_source_that_shows_no_ads_reserves_little_money(
    network: AdNetwork, campaign: Make, clock: Turned, ads_db: Db
) -> None:
    campaign("a", bid=1000, total=10_000)  # ten thousand impressions

    def asked(source: str, times: int) -> list[str]:
        found = [network.choose("news", "top", source=source, count=2) for _ in range(times)]
        return [serve.serve_id for serves in found for serve in serves]

    flood = asked("192.0.2.1", 500)
    assert len(flood) == 100
    assert len(asked("192.0.2.2", 10)) == 10  # nobody else is hurt
    assert network.impression(flood[0], source="192.0.2.1")
    assert len(asked("192.0.2.1", 10)) == 1  # for the one that was seen
    clock.turn(seconds=12)
    assert len(asked("192.0.2.1", 20)) == 10  # a tenth of two minutes later
    clock.turn(seconds=181)
    return_lapsed(ads_db, clock.now)
    money = network.money(["a"])["a"]
    assert (money["spent"], money["leased"]) == (1000, 0)


def test_closing_returns_money_that_no_serve_was_promised(campaign: Make, clock: Turned, ads_db: Db) -> None:
    campaign("a", bid=100, total=160)
    with AdNetwork(ads_db, secret=b"test", clock=clock) as other:
        serve_id = other.choose("news", "top")[0].serve_id
    assert other.money(["a"])["a"]["leased"] == 100
    assert other.impression(serve_id)
    assert other.money(["a"])["a"]["leased"] == 0


def test_a_late_click_is_charged_to_the_budget_while_it_has_money(
    network: AdNetwork, campaign: Make, clock: Turned, ads_db: Db
) -> None:
    campaign("a", bid=60, model="cpc", total=100)
    ids = []
    for _ in range(3):
        ids.append(network.choose("news", "top")[0].serve_id)
        clock.turn(seconds=900)
        return_lapsed(ads_db, clock.now)
    assert all(network.click(serve_id).first for serve_id in ids)
    totals = network.stats("a")["totals"]
    assert (totals["clicks"], totals["spend"]) == (3, 60)
    assert not list(find_problems(ads_db))


# ---- jobs, problems ----


def test_a_job_updates_the_ecpm_from_clicks(network: AdNetwork, campaign: Make, ads_db: Db, clock: Turned) -> None:
    campaign("a", bid=10, model="cpc")
    for serve_id in [network.choose("news", "top")[0].serve_id for _ in range(20)]:
        network.click(serve_id)
    assert ad_jobs.refresh_ecpm(ads_db, clock.now) == {"changed": 1}
    assert ads_db["ads.placements"].find_one()["ecpm"] == network.ecpm("a", impressions=20, clicks=20)
    assert ad_jobs.refresh_ecpm(ads_db, clock.now) == {"changed": 0}
    network.click(network.choose("news", "top")[0].serve_id)
    assert ad_jobs.refresh_ecpm(ads_db, clock.now + timedelta(days=3)) == {"changed": 0}  # nothing of late


def test_campaigns_end_at_their_end_time(network: AdNetwork, campaign: Make, ads_db: Db) -> None:
    campaign("a", ends_at=datetime(2020, 1, 1, tzinfo=UTC))
    campaign("b")
    assert ad_jobs.end_campaigns(ads_db) == {"ended": 1}
    assert (network.get("a")["status"], network.get("b")["status"]) == ("ended", "active")


@pytest.mark.parametrize(
    ("change", "code", "repairable"),
    [
        ({"spent": 7, "committed": 7}, "wrong-spend", True),
        ({"committed": 9}, "wrong-commitment", True),
        ({"total": -1}, "over-budget", False),
    ],
)
def test_wrong_budgets_are_found_and_repaired(
    network: AdNetwork, campaign: Make, ads_db: Db, change: dict[str, int], code: str, repairable: bool
) -> None:
    campaign("a")
    ads_db["ads.budgets"].update_one({"_id": "a"}, {"$set": change})
    assert [(problem.code, problem.repairable) for problem in find_problems(ads_db)] == [(code, repairable)]
    assert bool(repair(ads_db)) == repairable
    assert bool(list(find_problems(ads_db))) != repairable


def test_a_placement_without_a_campaign_is_found(network: AdNetwork, campaign: Make, ads_db: Db) -> None:
    campaign("a")
    ads_db["ads.placements"].update_one({}, {"$set": {"campaign_id": "gone"}})
    assert [problem.code for problem in find_problems(ads_db)] == ["lost-placement"]
