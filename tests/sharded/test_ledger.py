"""The ledger through a `mongos`, its documents on several shards."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.sharded.conftest import Sharded

from squinney import ledger, transactions
from squinney.ledger import Accounts, InsufficientFunds, find_problems, repair
from squinney.mongo import schema
from squinney.mongo.schema import Db
from squinney.transactions import Transactions

COLLECTIONS = [*transactions.COLLECTIONS, *ledger.COLLECTIONS]
PATIENCE_SECONDS = 120


@pytest.fixture
def db(sharded: Sharded) -> Db:
    return sharded(COLLECTIONS)


@pytest.fixture
def accounts(db: Db) -> Accounts:
    return Accounts(db, transactions=Transactions(db, timeout_seconds=PATIENCE_SECONDS))


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


def test_a_wrong_balance_is_found_and_mended(db: Db) -> None:
    accounts = Accounts(db)
    ada = accounts.open("EUR", 100)["_id"]
    db["ledger.accounts"].update_one({"_id": ada}, {"$set": {"balance": 150}})
    assert [problem.code for problem in find_problems(db)] == ["wrong-balance"]
    assert repair(db) == {"balances set": 1}
    assert accounts.get(ada)["balance"] == 100


def test_concurrent_transfers(db: Db, accounts: Accounts) -> None:
    ids = [accounts.open("EUR", 1_000)["_id"] for _ in range(4)]

    def to_and_fro(number: int) -> None:
        for _ in range(3):
            accounts.transfer(ids[number % 4], ids[(number + 1) % 4], 10)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(to_and_fro, range(4)))
    assert accounts.total("EUR") == 4_000
    assert list(find_problems(db)) == []
