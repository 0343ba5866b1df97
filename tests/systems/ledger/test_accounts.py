"""Operations and refusals of accounts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest

from squinney.errors import Invalid, SquinneyError
from squinney.ledger import (
    AccountClosed,
    AccountNotEmpty,
    Accounts,
    BalanceLimit,
    CurrencyMismatch,
    InsufficientFunds,
    UnknownAccount,
    find_problems,
)
from squinney.ledger.documents import MAX_AMOUNT, MAX_BALANCE
from squinney.mongo.schema import Db
from squinney.transactions import Key, KeyReused


def snapshot(db: Db) -> list[Any]:
    """Return everything that the ledger stores, except idempotency keys."""
    return [list(db["ledger.accounts"].find().sort("_id")), list(db["ledger.entries"].find().sort("_id"))]


def test_a_transfer_moves_money_and_writes_both_lines(accounts: Accounts, ledger_db: Db) -> None:
    ada, ben = accounts.open("EUR", 1_000), accounts.open("EUR")
    transfer = accounts.transfer(ada["_id"], ben["_id"], 300, memo="lunch")
    assert accounts.get(ada["_id"])["balance"] == 700
    assert accounts.get(ben["_id"])["balance"] == 300
    assert accounts.total("EUR") == 1_000
    newest = accounts.statement(ada["_id"]).items[0]
    assert (newest["amount"], newest["memo"], newest["transfer_id"]) == (-300, "lunch", transfer["_id"])
    assert [entry["amount"] for entry in accounts.statement(ben["_id"]).items] == [300]
    assert list(find_problems(ledger_db)) == []
    assert ledger_db["squinney.keys"].count_documents({}) == 0


def test_a_total_is_exact_however_much_there_is(accounts: Accounts) -> None:
    for _ in range(10):
        accounts.open("EUR", 10**18)
    accounts.open("EUR", 1)
    assert accounts.total("EUR") == 10**19 + 1


def test_accounts_come_back_as_they_were_opened(accounts: Accounts) -> None:
    opened = accounts.open("CHF", 5, name="Till")
    assert accounts.get(opened["_id"]) == opened
    assert accounts.all().items == [opened]


REFUSED: list[tuple[type[SquinneyError], Callable[[Accounts, str, str, str, str], object]]] = [
    (InsufficientFunds, lambda a, rich, poor, closed, dollars: a.transfer(poor, rich, 11)),
    (UnknownAccount, lambda a, rich, poor, closed, dollars: a.transfer(rich, "nobody", 1)),
    (UnknownAccount, lambda a, rich, poor, closed, dollars: a.transfer("nobody", rich, 1)),
    (AccountClosed, lambda a, rich, poor, closed, dollars: a.transfer(rich, closed, 1)),
    (AccountClosed, lambda a, rich, poor, closed, dollars: a.transfer(closed, rich, 1)),
    (CurrencyMismatch, lambda a, rich, poor, closed, dollars: a.transfer(rich, dollars, 1)),
    (BalanceLimit, lambda a, rich, poor, closed, dollars: a.transfer(poor, rich, 10)),
    (Invalid, lambda a, rich, poor, closed, dollars: a.transfer(rich, rich, 1)),
    (AccountNotEmpty, lambda a, rich, poor, closed, dollars: a.close(poor)),
    (AccountClosed, lambda a, rich, poor, closed, dollars: a.close(closed)),
    (UnknownAccount, lambda a, rich, poor, closed, dollars: a.close("nobody")),
    (UnknownAccount, lambda a, rich, poor, closed, dollars: a.get("nobody")),
    (UnknownAccount, lambda a, rich, poor, closed, dollars: a.statement("nobody")),
]


@pytest.mark.parametrize(("error", "attempt"), REFUSED, ids=[f"{e.__name__}-{n}" for n, (e, _) in enumerate(REFUSED)])
def test_a_refusal_changes_nothing(accounts: Accounts, ledger_db: Db, error: Any, attempt: Any) -> None:
    rich = accounts.open("EUR", MAX_BALANCE)["_id"]
    poor = accounts.open("EUR", 10)["_id"]
    closed = accounts.open("EUR")["_id"]
    dollars = accounts.open("USD")["_id"]
    accounts.close(closed)
    before = snapshot(ledger_db)
    with pytest.raises(error):
        attempt(accounts, rich, poor, closed, dollars)
    assert snapshot(ledger_db) == before
    assert ledger_db["squinney.keys"].count_documents({}) == 0


BAD_AMOUNTS = [-1, 0, 1.5, "10", None, True, MAX_AMOUNT + 1, 2**63, 2**200, {"$gt": 0}, [1], float("nan")]


@pytest.mark.parametrize("amount", BAD_AMOUNTS, ids=repr)
def test_a_bad_amount_is_named(accounts: Accounts, ledger_db: Db, amount: Any) -> None:
    ada, ben = accounts.open("EUR", 100)["_id"], accounts.open("EUR")["_id"]
    before = snapshot(ledger_db)
    with pytest.raises(Invalid, match=r"^amount must be") as caught:
        accounts.transfer(ada, ben, amount)
    assert caught.value.details["field"] == "amount"
    assert snapshot(ledger_db) == before


@pytest.mark.parametrize("bad", [{"$gt": 0}, {"$ne": None}, 7, None, "", "x" * 201, "a\0b", ["a"], b"a"], ids=repr)
def test_a_bad_account_id_is_named(accounts: Accounts, bad: Any) -> None:
    ada = accounts.open("EUR", 100)["_id"]
    for field, attempt in [
        ("src", lambda: accounts.transfer(bad, ada, 1)),
        ("dst", lambda: accounts.transfer(ada, bad, 1)),
        ("account", lambda: accounts.get(bad)),
        ("account", lambda: accounts.close(bad)),
        ("account", lambda: accounts.statement(bad)),
    ]:
        with pytest.raises(Invalid) as caught:
            attempt()
        assert caught.value.details["field"] == field


@pytest.mark.parametrize("key", ["k" * 1_000_000, "", 7, {"$gt": ""}], ids=["1 MB", "empty", "int", "operator"])
def test_a_bad_key_is_named(accounts: Accounts, ledger_db: Db, key: Any) -> None:
    ada, ben = accounts.open("EUR", 100)["_id"], accounts.open("EUR")["_id"]
    before = snapshot(ledger_db)
    with pytest.raises(Invalid, match=r"^key must"):
        accounts.transfer(ada, ben, 1, key=key)
    assert snapshot(ledger_db) == before


@pytest.mark.parametrize("currency", ["eur", "EURO", "", None, {"$gt": ""}, "€€€"], ids=repr)
def test_a_bad_currency_is_named(accounts: Accounts, currency: Any) -> None:
    with pytest.raises(Invalid, match=r"^currency must"):
        accounts.open(currency)
    with pytest.raises(Invalid, match=r"^currency must"):
        accounts.total(currency)


@pytest.mark.parametrize("opening", [-1, 1.0, "5", MAX_BALANCE + 1], ids=repr)
def test_a_bad_opening_is_named(accounts: Accounts, opening: Any) -> None:
    with pytest.raises(Invalid, match=r"^opening must"):
        accounts.open("EUR", opening)


def test_a_key_moves_money_once(accounts: Accounts) -> None:
    ada, ben = accounts.open("EUR", 100)["_id"], accounts.open("EUR")["_id"]
    first = accounts.transfer(ada, ben, 10, key="rent")
    assert accounts.transfer(ada, ben, 10, key="rent") == first
    assert accounts.get(ada)["balance"] == 90


def test_a_key_with_other_arguments_is_refused(accounts: Accounts) -> None:
    ada, ben = accounts.open("EUR", 100)["_id"], accounts.open("EUR")["_id"]
    accounts.transfer(ada, ben, 10, key="rent")
    for attempt in (
        lambda: accounts.transfer(ada, ben, 11, key="rent"),
        lambda: accounts.transfer(ben, ada, 10, key="rent"),
        lambda: accounts.transfer(ada, ben, 10, key="rent", memo="again"),
    ):
        with pytest.raises(KeyReused):
            attempt()
    assert accounts.get(ada)["balance"] == 90


def test_a_key_is_the_callers_own(accounts: Accounts) -> None:
    ada, ben = accounts.open("EUR", 100)["_id"], accounts.open("EUR")["_id"]
    accounts.transfer(ada, ben, 10, key=Key("1", "shop"))
    accounts.transfer(ada, ben, 20, key=Key("1", "bank"))
    assert accounts.get(ada)["balance"] == 70


def test_a_refusal_frees_the_key(accounts: Accounts) -> None:
    ada, ben = accounts.open("EUR", 5)["_id"], accounts.open("EUR", 50)["_id"]
    with pytest.raises(InsufficientFunds):
        accounts.transfer(ada, ben, 10, key="rent")
    accounts.transfer(ben, ada, 10)
    accounts.transfer(ada, ben, 10, key="rent")
    assert accounts.get(ada)["balance"] == 5


def test_a_statement_is_paged_newest_first(ledger_db: Db) -> None:
    ticks = count()
    start = datetime(2026, 1, 1, tzinfo=UTC)
    accounts = Accounts(ledger_db, clock=lambda: start + timedelta(seconds=next(ticks) // 3))
    ada, ben = accounts.open("EUR", 100)["_id"], accounts.open("EUR")["_id"]
    for amount in range(1, 8):
        accounts.transfer(ada, ben, amount)
    amounts, cursor = [], None
    while True:
        page = accounts.statement(ada, cursor=cursor, limit=3)
        amounts += [entry["amount"] for entry in page.items]
        if (cursor := page.next) is None:
            break
    assert amounts == [-7, -6, -5, -4, -3, -2, -1, 100]


@pytest.mark.parametrize(
    "cursor", ["nonsense", "eyJ9", {"$gt": ""}, "A" * 100_000], ids=["word", "b64", "dict", "long"]
)
def test_a_foreign_cursor_is_refused(accounts: Accounts, cursor: Any) -> None:
    ada = accounts.open("EUR", 100)["_id"]
    with pytest.raises(Invalid, match=r"^cursor"):
        accounts.statement(ada, cursor=cursor)


def test_names_leaves_out_unknown_accounts(accounts: Accounts) -> None:
    ada, ben = (accounts.open("EUR", name=name)["_id"] for name in ("Ada", "Ben"))
    assert accounts.names([ada, ben, ada, "nobody"]) == {ada: "Ada", ben: "Ben"}
    assert accounts.names([]) == {}
    with pytest.raises(Invalid, match="at most 1000"):
        accounts.names(str(number) for number in range(1_001))
    with pytest.raises(Invalid):
        accounts.names([{"$gt": ""}])  # type: ignore[list-item]
