"""Owners of accounts: members see and use their own; only admins and API keys can deposit money."""

from __future__ import annotations

import re
from typing import Any

import pytest
from bson.timestamp import Timestamp
from starlette.testclient import TestClient

from squinney import assembly
from squinney.http.access.visitor import SIGNED_IN, Visitor
from squinney.http.site_options import SiteOptions
from squinney.ledger import Accounts
from squinney.ledger.statement import CURSOR
from squinney.patterns.paging import cursor_after
from squinney.service.site import create_site

SECRET = b"the secret of the tests, long enough"
HTML = {"Accept": "text/html"}


class Person:
    """A client that is signed in as a new person."""

    def __init__(self, systems: assembly.Assembled, name: str, role: str = "member") -> None:
        person = {"_id": name, "login": name, "name": name, "role": role}
        systems.db["identity.people"].insert_one(person)
        token = SIGNED_IN + systems.services["identity"]["sessions"].start(person)
        self.client = TestClient(create_site(systems, options=SiteOptions(secret=SECRET)), cookies={"squinney": token})
        self._headers = {**HTML, "X-CSRF-Token": Visitor(SECRET, token).csrf}

    def get(self, path: str) -> Any:
        return self.client.get(path, headers=HTML)

    def post(self, path: str, **form: str) -> Any:
        return self.client.post(path, data=form, headers=self._headers)

    def open(self, name: str, key: str = "k", **form: str) -> Any:
        return self.post("/ledger/accounts", name=name, currency="EUR", key=key, **form)


@pytest.fixture
def ledger(systems: assembly.Assembled) -> Accounts:
    found: Accounts = systems.services["ledger"]["accounts"]
    return found


def test_a_member_opens_accounts_at_zero_and_sees_only_their_own(systems: assembly.Assembled, ledger: Accounts) -> None:
    ada, ben = Person(systems, "ada"), Person(systems, "ben")
    account = ada.open("Mine").url.path.rpartition("/")[2]
    assert ledger.get(account)["owner"] == "ada"
    assert ledger.get(account)["balance"] == 0
    assert "Mine" in ada.get("/ledger").text
    assert "Mine" not in ben.get("/ledger").text
    assert ben.get(f"/ledger/{account}").status_code == 404
    assert ben.post(f"/ledger/{account}/close").status_code == 404
    assert "closed_at" not in ledger.get(account)
    assert ben.open("Other").url.path.rpartition("/")[2] != account, "idempotency keys are separate per member"


def test_a_statement_has_the_balance_after_each_line_and_a_link_cannot_make_it_up(
    systems: assembly.Assembled, ledger: Accounts
) -> None:
    ada = Person(systems, "ada")
    hers, other = ledger.open("EUR", 100_000, owner="ada")["_id"], ledger.open("EUR")["_id"]
    for _ in range(25):
        ledger.transfer(hers, other, 1)
    page = ada.get(f"/ledger/{hers}").text
    assert "999.75" in page
    assert "999.99" in page
    older = re.search(r'href="(\?cursor=[^"]+)"', page)
    assert older
    assert "1,000.00" in ada.get(f"/ledger/{hers}{older[1]}").text
    made_up = cursor_after(CURSOR, {"order": Timestamp(2**31, 1), "_id": "z", "balance": 7_777_700})
    for path in (f"/ledger/{hers}?cursor={made_up}", f"/ledger/{other}{older[1]}"):
        refused = ada.get(path)
        assert refused.status_code in (404, 422)
        assert "77,777.00" not in refused.text


def test_a_member_cannot_create_money(systems: assembly.Assembled, ledger: Accounts) -> None:
    refused = Person(systems, "ada").open("Rich", opening="1000000")
    assert refused.status_code == 403
    assert "only an admin may set an opening balance" in refused.text
    assert ledger.total("EUR") == 0


def test_a_member_transfers_only_their_own_money(systems: assembly.Assembled, ledger: Accounts) -> None:
    ada, ben = Person(systems, "ada"), Person(systems, "ben")
    hers = ledger.open("EUR", 1_000, name="Hers", owner="ada")["_id"]
    his = ledger.open("EUR", name="His", owner="ben")["_id"]
    nobodys = ledger.open("EUR", 1_000)["_id"]
    for src in (hers, nobodys):
        stolen = ben.post("/ledger/transfers", src=src, dst=his, amount="1", key="k")
        assert stolen.status_code == 404
    assert ada.post("/ledger/transfers", src=hers, dst=his, amount="2.50", key="k").status_code == 200
    assert [ledger.get(one)["balance"] for one in (hers, his, nobodys)] == [750, 250, 1_000]
    statement = ben.get(f"/ledger/{his}").text
    assert "Hers" in statement
    assert f"/ledger/{hers}" not in statement


def test_visitors_see_no_account(stranger: TestClient, ledger: Accounts) -> None:
    account = ledger.open("EUR", 1_000, name="Secret savings")["_id"]
    for path in ("/ledger", "/ledger?cursor=x"):
        assert "Secret savings" not in stranger.get(path, headers=HTML).text
    page = stranger.get(f"/ledger/{account}", headers=HTML)
    assert page.url.path == "/sign-in"
    assert "Secret savings" not in page.text
    assert stranger.get(f"/ledger/{account}").status_code == 403


def test_the_admin_sees_all_accounts_and_deposits_money(systems: assembly.Assembled, ledger: Accounts) -> None:
    boss = Person(systems, "boss", "admin")
    hers = ledger.open("EUR", name="Hers", owner="ada")["_id"]
    made = boss.open("Bank", opening="10.00").url.path.rpartition("/")[2]
    assert boss.post("/ledger/transfers", src=made, dst=hers, amount="4", key="k").status_code == 200
    page = boss.get("/ledger").text
    assert {"Hers", "Bank"} <= set(re.findall(r">(\w+)</a>", page))
    assert ledger.get(hers)["balance"] == 400


def test_an_api_key_opens_an_account_with_money_for_an_owner(site: TestClient) -> None:
    body = {"currency": "EUR", "opening": 500, "owner": "ada"}
    opened = site.post("/api/ledger/accounts", json=body).json()
    site.post("/api/ledger/accounts", json={"currency": "EUR"})
    assert opened["owner"] == "ada"
    listed = site.get("/api/ledger/accounts", params={"owner": "ada"}).json()["items"]
    assert [account["id"] for account in listed] == [opened["id"]]
    assert len(site.get("/api/ledger/accounts").json()["items"]) == 2
