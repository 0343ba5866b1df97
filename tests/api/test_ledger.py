"""The HTTP routes and forms of the ledger."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from squinney import assembly
from squinney.errors import Unavailable


def opened(site: TestClient, opening: int = 0) -> str:
    """Open an account and return its id."""
    response = site.post("/api/ledger/accounts", json={"currency": "EUR", "opening": opening, "name": "Ada"})
    assert response.status_code == 201, response.text
    return str(response.json()["id"])


def test_a_transfer_changes_both_balances(site: TestClient) -> None:
    ada, ben = opened(site, 1_000), opened(site)
    moved = site.post("/api/ledger/transfers", json={"src": ada, "dst": ben, "amount": 250, "memo": "tea"})
    assert moved.status_code == 201
    assert moved.json()["amount"] == 250
    assert site.get(f"/api/ledger/accounts/{ada}").json()["balance"] == 750
    lines = site.get(f"/api/ledger/accounts/{ada}/statement").json()["items"]
    assert [(line["amount"], line["balance"]) for line in lines] == [(-250, 750), (1_000, 1_000)]
    assert site.get("/api/ledger/totals/EUR").json() == {"currency": "EUR", "total": 1_000}
    assert len(site.get("/api/ledger/accounts").json()["items"]) == 2


def test_a_repeated_transfer_with_the_same_key_happens_once(site: TestClient) -> None:
    ada, ben = opened(site, 1_000), opened(site)
    body = {"src": ada, "dst": ben, "amount": 10}
    first = site.post("/api/ledger/transfers", json=body, headers={"Idempotency-Key": "k"})
    again = site.post("/api/ledger/transfers", json=body, headers={"Idempotency-Key": "k"})
    assert first.json() == again.json()
    other = site.post("/api/ledger/transfers", json={**body, "amount": 11}, headers={"Idempotency-Key": "k"})
    assert (other.status_code, other.json()["code"]) == (409, "key-reused")
    assert site.get(f"/api/ledger/accounts/{ben}").json()["balance"] == 10


def test_many_transfers_have_an_outcome_each(site: TestClient) -> None:
    ada, ben = opened(site, 10), opened(site)
    body = {"transfers": [{"src": ada, "dst": ben, "amount": amount} for amount in (7, 4, 3)]}
    done = site.post("/api/ledger/transfers/batch", json=body, headers={"Idempotency-Key": "k"})
    assert done.status_code == 200
    first, second, third = done.json()["outcomes"]
    assert (first["transfer"]["amount"], first["refused"], third["transfer"]["amount"]) == (7, None, 3)
    assert second["transfer"] is None
    assert second["refused"]["code"] == "insufficient-funds"
    assert second["refused"]["details"] == {"account_id": ada}
    again = site.post("/api/ledger/transfers/batch", json=body, headers={"Idempotency-Key": "k"})
    assert again.json() == done.json()
    assert site.get(f"/api/ledger/accounts/{ben}").json()["balance"] == 10


def test_too_many_or_bad_transfers_are_refused_at_once(site: TestClient) -> None:
    ada, ben = opened(site, 10), opened(site)
    good = {"src": ada, "dst": ben, "amount": 1}
    for transfers in ([good] * 1_001, [good, {**good, "dst": ada}], [good, {**good, "amount": 0}]):
        assert site.post("/api/ledger/transfers/batch", json={"transfers": transfers}).status_code == 422
    assert site.get(f"/api/ledger/accounts/{ben}").json()["balance"] == 0


def test_an_error_is_a_problem_with_a_code(site: TestClient) -> None:
    ada, ben = opened(site, 5), opened(site)
    refused = site.post("/api/ledger/transfers", json={"src": ada, "dst": ben, "amount": 6})
    assert refused.status_code == 409
    assert refused.headers["content-type"] == "application/problem+json"
    assert refused.json()["code"] == "insufficient-funds"
    assert refused.json()["details"] == {"account_id": ada}
    assert site.get("/api/ledger/accounts/nobody").status_code == 404
    assert site.post(f"/api/ledger/accounts/{ada}/close").json()["code"] == "account-not-empty"
    assert site.post(f"/api/ledger/accounts/{ben}/close").json()["closed_at"]


def test_a_statement_names_the_other_account(site: TestClient) -> None:
    ada, ben = opened(site, 1_000), opened(site)
    site.post("/api/ledger/transfers", json={"src": ada, "dst": ben, "amount": 250})
    page = site.get(f"/ledger/{ben}", headers={"Accept": "text/html"}).text
    assert f'<a href="/ledger/{ada}">Ada</a>' in page


BAD_BODIES: list[Any] = [
    {"amount": -1},
    {"amount": 0},
    {"amount": 1.5},
    {"amount": "10"},
    {"amount": 10**16},
    {"amount": {"$gt": 0}},
    {"src": {"$gt": ""}},
    {"dst": ["a"]},
    {"memo": "m" * 501},
    {"extra": 1},
]


@pytest.mark.parametrize("bad", BAD_BODIES, ids=repr)
def test_bad_input_names_the_field(site: TestClient, bad: dict[str, Any]) -> None:
    ada, ben = opened(site, 1_000), opened(site)
    refused = site.post("/api/ledger/transfers", json={"src": ada, "dst": ben, "amount": 1, **bad})
    assert refused.status_code == 422
    assert refused.json()["details"]["fields"][0]["field"].startswith(next(iter(bad)))
    assert site.get(f"/api/ledger/accounts/{ada}").json()["balance"] == 1_000


def test_a_form_with_an_unknown_outcome_keeps_its_key(
    site: TestClient, systems: assembly.Assembled, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada, ben = opened(site, 1_000), opened(site)
    accounts = systems.services["ledger"]["accounts"]
    really = accounts.transfer

    def transfer_without_response(*arguments: Any, **options: Any) -> None:
        really(*arguments, **options)
        raise Unavailable("the commit was sent, but no answer came", outcome_unknown=True)

    def send(**typed: str) -> str:
        form = {"src": ada, "dst": ben, "amount": "2.50", **typed}
        return site.post("/ledger/transfers", data=form, headers={"Accept": "text/html"}).text

    with monkeypatch.context() as patched:
        patched.setattr(accounts, "transfer", transfer_without_response)
        assert 'name="key" value="mine"' in send(key="mine")
    send(key="mine")
    assert accounts.get(ben)["balance"] == 250, "the money was transferred once"
    assert 'name="key" value="mine"' not in send(key="mine", amount="1.00"), "a new transfer has a new key"


def test_forms_report_what_they_did(site: TestClient, systems: assembly.Assembled) -> None:
    def send(path: str, **form: str) -> str:
        return site.post(path, data=form, headers={"Accept": "text/html"}).text

    assert "The account is open." in send("/ledger/accounts", name="Mine", currency="EUR", key="a")
    ada, ben = opened(site, 1_000), opened(site)
    assert "2.50 EUR has been transferred." in send("/ledger/transfers", src=ada, dst=ben, amount="2.50", key="b")
    send("/ledger/transfers", src=ben, dst=ada, amount="2.50", key="c")
    assert "The account is closed." in send(f"/ledger/{ben}/close")


def test_money_is_transferred_between_accounts_on_different_pages(
    site: TestClient, systems: assembly.Assembled
) -> None:
    accounts = systems.services["ledger"]["accounts"]
    ids = [accounts.open("EUR", 100, name=f"Account {number}")["_id"] for number in range(51)]
    page = site.get("/ledger", headers={"Accept": "text/html"}).text
    assert '<select name="src"' not in page, "a select could not list all accounts"
    assert '<input type="text" name="src"' in page
    form = {"src": ids[0], "dst": ids[-1], "amount": "1", "key": "k"}
    site.post("/ledger/transfers", data=form, headers={"Accept": "text/html"})
    assert accounts.get(ids[-1])["balance"] == 200


PATHS = ["/", "/ledger", "/ledger/nobody", "/nowhere", "/healthz", "/readyz", "/static/site.css"]


@pytest.mark.parametrize("path", PATHS)
def test_every_ledger_response_has_the_security_headers(site: TestClient, path: str) -> None:
    response = site.get(path, headers={"Accept": "text/html"})
    assert response.status_code < 500
    assert "unsafe-inline" not in response.headers["content-security-policy"]
    assert response.headers["x-content-type-options"] == "nosniff"


def test_a_form_from_another_site_is_refused(site: TestClient) -> None:
    form = {"name": "x", "currency": "EUR", "key": "k"}
    for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        assert site.post("/ledger/accounts", data=form, headers=headers).status_code == 403
    assert site.get("/api/ledger/accounts").json()["items"] == []
