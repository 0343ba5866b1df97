"""The ledger through a `mongos`, its documents on several shards."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import patch

import pytest
from tests.sharded.conftest import Sharded

from squinney import ledger, transactions
from squinney.ledger import Accounts, InsufficientFunds, find_problems, repair
from squinney.mongo import schema
from squinney.mongo.schema import Db
from squinney.transactions import Mode, Transactions, recovery

COLLECTIONS = [*transactions.COLLECTIONS, *ledger.COLLECTIONS]
PATIENCE_SECONDS = 120


@pytest.fixture
def db(sharded: Sharded) -> Db:
    return sharded(COLLECTIONS)


@pytest.fixture(params=["native", "two-phase"])
def accounts(db: Db, request: pytest.FixtureRequest) -> Accounts:
    mode: Mode = request.param
    return Accounts(db, transactions=Transactions(db, mode, timeout_seconds=PATIENCE_SECONDS))


def test_every_operation(db: Db, accounts: Accounts) -> None:
    ids = [accounts.open("EUR", 100, name=str(number))["_id"] for number in range(6)]
    for src, dst in itertools.pairwise(ids):
        accounts.transfer(src, dst, 30, key=f"{src} to {dst}")
        accounts.transfer(src, dst, 30, key=f"{src} to {dst}")
    with pytest.raises(InsufficientFunds):
        accounts.transfer(ids[0], ids[1], 71)
    accounts.transfer(ids[0], ids[5], 70)
    assert accounts.close(ids[0])["closed_at"]
    assert [entry["amount"] for entry in accounts.statement(ids[0]).items] == [-70, -30, 100]
    first = accounts.all(limit=4)
    assert [account["_id"] for account in [*first.items, *accounts.all(cursor=first.next).items]] == ids
    assert accounts.total("EUR") == 600
    assert list(find_problems(db)) == []
    assert schema.check(db, COLLECTIONS) == []


def test_a_crash_after_the_decision_is_finished(db: Db) -> None:
    accounts = Accounts(db, transactions=Transactions(db, "two-phase", timeout_seconds=PATIENCE_SECONDS))
    ada, ben = accounts.open("EUR", 100)["_id"], accounts.open("EUR")["_id"]
    with patch.object(recovery, "finish", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        accounts.transfer(ada, ben, 40)
    assert Transactions(db).recover() == {"finished": 1}
    assert [accounts.get(account)["balance"] for account in (ada, ben)] == [60, 40]
    assert list(find_problems(db)) == []


def test_a_wrong_balance_is_found_and_mended(db: Db) -> None:
    accounts = Accounts(db)
    ada = accounts.open("EUR", 100)["_id"]
    db["accounts"].update_one({"_id": ada}, {"$set": {"balance": 150}})
    assert [problem.code for problem in find_problems(db)] == ["wrong-balance"]
    assert repair(db) == {"balances set": 1}
    assert accounts.get(ada)["balance"] == 100


def test_both_modes_on_the_same_accounts(db: Db) -> None:
    modes: list[Mode] = ["native", "two-phase"]
    ledgers = [Accounts(db, transactions=Transactions(db, mode, timeout_seconds=PATIENCE_SECONDS)) for mode in modes]
    ids = [ledgers[0].open("EUR", 1_000)["_id"] for _ in range(4)]

    def to_and_fro(number: int) -> None:
        for _ in range(3):
            ledgers[number % 2].transfer(ids[number % 4], ids[(number + 1) % 4], 10)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(to_and_fro, range(4)))
    assert ledgers[0].total("EUR") == 4_000
    assert list(find_problems(db)) == []
