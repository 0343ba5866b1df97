"""Review and payment of ads on the pages: what members, editors and admins can do."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.api.conftest import SECRET
from tests.racing import at_once

from squinney import assembly
from squinney.ads import AdNetwork
from squinney.clock import utcnow
from squinney.http.access.visitor import SIGNED_IN, Visitor
from squinney.service.links.ad_payments import INCOME, AdPayments, ad_payments

HTML = {"Accept": "text/html"}
PHISHING = {"title": "Your session has expired", "text": "Sign in again", "url": "https://evil.example/sign-in"}
As = Callable[[str], None]


@pytest.fixture
def network(systems: assembly.Assembled) -> AdNetwork:
    found: AdNetwork = systems.services["ads"]["network"]
    return found


@pytest.fixture
def sign_in(stranger: TestClient, systems: assembly.Assembled) -> As:
    """`sign_in("editor")` signs the client in as a person with this role and name."""

    def as_role(role: str) -> None:
        person = {"_id": role, "login": role, "name": role, "role": role, "created_at": utcnow()}
        systems.db["identity.people"].replace_one({"_id": role}, person, upsert=True)
        token = SIGNED_IN + systems.services["identity"]["sessions"].start(person)
        stranger.cookies.clear()
        stranger.cookies.set("squinney", token)
        stranger.headers["X-CSRF-Token"] = Visitor(SECRET, token).csrf

    return as_role


def _post(client: TestClient, path: str, **form: str) -> Any:
    return client.post(path, data=form, headers=HTML)


def _make_ad(client: TestClient) -> None:
    form = {"name": "m", "advertiser": "M", "model": "cpm", "bid": "900", "total": "1000000", "pacing": "asap"}
    assert _post(client, "/ads/campaigns", **form).status_code == 200
    assert _post(client, "/ads/place/m", site="squinney", zone="site", unit="u", **PHISHING).status_code == 200


def _decision(network: AdNetwork) -> dict[str, str]:
    (ad,) = network.in_review().items
    return {"site": "squinney", "zone": "site", "unit": "u", "review_id": ad["review"]["id"]}


def test_an_ad_of_a_member_is_on_no_page_until_it_is_approved_and_paid(
    stranger: TestClient, systems: assembly.Assembled, network: AdNetwork, sign_in: As
) -> None:
    sign_in("member")
    _make_ad(stranger)
    page = stranger.get("/ads/campaigns/m", headers=HTML).text
    assert "in review" in page
    assert "0.00 EUR of 1,000,000.00 EUR is funded" in page
    decision = _decision(network)
    assert stranger.get("/ads/review", headers=HTML).status_code == 403
    assert _post(stranger, "/ads/review/approve", **decision).status_code == 403
    assert _post(stranger, "/ads/review/reject", **decision, reason="x").status_code == 403
    assert _post(stranger, "/ads/fund/m", amount="900", key="k").status_code == 403
    assert "evil.example" not in stranger.get("/site", headers=HTML).text
    assert "expired" not in stranger.get("/site", headers=HTML).text

    sign_in("editor")
    assert "https://evil.example/sign-in" in stranger.get("/ads/review", headers=HTML).text
    assert _post(stranger, "/ads/fund/m", amount="900", key="k").status_code == 404, "not the editor's campaign"
    assert _post(stranger, "/ads/review/reject", **decision, reason="").status_code == 422
    assert "The ad is rejected." in _post(stranger, "/ads/review/reject", **decision, reason="It is a trap").text

    sign_in("admin")
    funded = _post(stranger, "/ads/fund/m", amount="900", key="k")
    assert "900.00 EUR granted" in funded.text
    assert "expired" not in stranger.get("/site", headers=HTML).text

    sign_in("member")
    assert "rejected: It is a trap" in stranger.get("/ads/campaigns/m", headers=HTML).text
    placed = _post(stranger, "/ads/place/m", site="squinney", zone="site", unit="u", title="Boots", url="/shop")
    assert "in review" in placed.text
    sign_in("editor")
    assert "The ad is approved." in _post(stranger, "/ads/review/approve", **_decision(network)).text
    assert "Boots" in stranger.get("/site", headers=HTML).text


def test_an_editor_cannot_approve_what_was_changed_meanwhile(
    stranger: TestClient, network: AdNetwork, sign_in: As
) -> None:
    sign_in("member")
    _make_ad(stranger)
    decision = _decision(network)
    _post(stranger, "/ads/place/m", site="squinney", zone="site", unit="u", **{**PHISHING, "text": "now"})
    sign_in("editor")
    refused = _post(stranger, "/ads/review/approve", **decision)
    assert (refused.status_code, "changed after it was read" in refused.text) == (409, True)
    assert network.placements("m")[0]["review"]["state"] == "waiting"


def test_a_member_pays_once_and_only_from_an_own_account(
    stranger: TestClient, systems: assembly.Assembled, network: AdNetwork, sign_in: As
) -> None:
    accounts = systems.services["ledger"]["accounts"]
    own, foreign = (accounts.open("EUR", 5_000, owner=owner)["_id"] for owner in ("member", "another"))
    sign_in("member")
    _make_ad(stranger)
    assert own in stranger.get("/ads/campaigns/m", headers=HTML).text
    assert _post(stranger, "/ads/fund/m", amount="10", key="k", account_id=foreign).status_code == 404
    for _ in range(2):
        report = _post(stranger, "/ads/fund/m", amount="10", key="k", account_id=own).text
    line = re.search(rf'10.00 EUR <a href="/ledger/{own}#(t-\w+)">paid', report)
    assert line is not None
    assert re.search(rf'id="{line[1]}".*?href="/ads/campaigns/m"', stranger.get(f"/ledger/{own}").text, re.DOTALL)
    assert (accounts.get(own)["balance"], network.get("m")["funded"]) == (4_000, 1_000)
    poor = _post(stranger, "/ads/fund/m", amount="50", key="k2", account_id=own)
    assert (poor.status_code, "too low" in poor.text) == (409, True)
    assert re.search('name="key" value="k2"', poor.text), "sending the form again uses the same key"
    assert (accounts.get(own)["balance"], network.get("m")["funded"]) == (4_000, 1_000)
    (income,) = accounts.owned_by(INCOME).items
    assert income["balance"] == 1_000


def test_payments_at_the_same_time_fund_what_was_paid(systems: assembly.Assembled, network: AdNetwork) -> None:
    accounts = systems.services["ledger"]["accounts"]
    own = accounts.open("EUR", 700, owner="member")["_id"]
    network.create_campaign("m", "M", pricing={"model": "cpm", "bid": 1}, budget={"total": 10_000}, review=True)
    payments = ad_payments(systems)
    assert isinstance(payments, AdPayments)

    def pay(number: int) -> None:
        payments.pay("m", own, 100, owner="member", key=f"payment {number % 4}")

    at_once(8, pay)
    assert (accounts.get(own)["balance"], network.get("m")["funded"]) == (300, 400)
    assert sum(one["balance"] for one in accounts.owned_by(INCOME).items) == 400
    assert network.money(["m"])["m"]["total"] == 400_000
