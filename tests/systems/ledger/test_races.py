"""Concurrent operations on the same accounts."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from squinney.errors import Conflict, NotFound
from squinney.ledger import Accounts, InsufficientFunds, find_problems
from squinney.mongo.schema import Db


def outcomes(attempts: list[Callable[[], Any]], threads: int) -> list[Any]:
    """Run all attempts at the same time; return what each returned or raised."""

    def outcome(attempt: Callable[[], Any]) -> Any:
        try:
            return attempt()
        except (Conflict, NotFound) as error:
            return error

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(outcome, attempts))


def test_the_same_key_from_twenty_threads_moves_money_once(accounts: Accounts, ledger_db: Db) -> None:
    ada, ben = accounts.open("EUR", 100)["_id"], accounts.open("EUR")["_id"]
    results = outcomes([lambda: accounts.transfer(ada, ben, 10, key="once")] * 20, threads=20)
    assert all(result == results[0] for result in results)
    assert accounts.get(ben)["balance"] == 10
    assert list(find_problems(ledger_db)) == []


def test_concurrent_transfers_cannot_overdraw_an_account(accounts: Accounts, ledger_db: Db) -> None:
    ada, ben = accounts.open("EUR", 100)["_id"], accounts.open("EUR")["_id"]
    results = outcomes([lambda: accounts.transfer(ada, ben, 15)] * 16, threads=8)
    assert sum(isinstance(result, InsufficientFunds) for result in results) == 10
    assert (accounts.get(ada)["balance"], accounts.get(ben)["balance"]) == (10, 90)
    assert list(find_problems(ledger_db)) == []


def test_two_instances_work_on_the_same_accounts(ledger_db: Db) -> None:
    ledgers = [Accounts(ledger_db) for _ in range(2)]
    ids = [ledgers[0].open("EUR", 500)["_id"] for _ in range(3)]
    chance = random.Random(7)

    def attempt(number: int) -> Callable[[], Any]:
        src, dst = chance.sample(ids, 2)
        amount = chance.randint(1, 300)
        return lambda: ledgers[number % 2].transfer(src, dst, amount)

    kinds = Counter(type(result).__name__ for result in outcomes([attempt(n) for n in range(120)], threads=8))
    assert kinds["dict"] > 0
    assert set(kinds) <= {"dict", "InsufficientFunds"}
    assert ledgers[0].total("EUR") == 1_500
    assert list(find_problems(ledger_db)) == []


def test_no_money_arrives_in_an_account_that_closes(accounts: Accounts, ledger_db: Db) -> None:
    closer = Accounts(ledger_db)
    ada = accounts.open("EUR", 1_000)["_id"]
    for _ in range(6):
        target = accounts.open("EUR")["_id"]
        outcomes([lambda t=target: accounts.transfer(ada, t, 1), lambda t=target: closer.close(t)] * 2, threads=4)
        account = accounts.get(target)
        assert (account.get("closed_at") is None) == (account["balance"] > 0)
    assert list(find_problems(ledger_db)) == []
