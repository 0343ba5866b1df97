"""Creates every problem that the ledger can have, finds it, and repairs it if it is repairable."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest
from bson import ObjectId

from squinney import transactions
from squinney.errors import Unavailable
from squinney.ledger import COLLECTIONS, Accounts, find_problems, repair
from squinney.ledger import accounts as accounts_module
from squinney.mongo import schema
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db
from squinney.testing.server_commands import watched

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make parts very small, so that they end everywhere."""
    for name in ("ACCOUNTS_A_PART", "ENTRIES_A_PART", "MAX_AT_ONCE"):
        monkeypatch.setattr(sys.modules["squinney.ledger.repair"], name, 1)


@pytest.fixture
def two(ledger_db: Db) -> tuple[str, str]:
    """Return two accounts with a transfer between them."""
    accounts = Accounts(ledger_db)
    ada, ben = accounts.open("EUR", 1_000)["_id"], accounts.open("EUR", 50)["_id"]
    accounts.transfer(ada, ben, 200)
    return ada, ben


def codes(db: Db) -> list[str]:
    return sorted(problem.code for problem in find_problems(db))


def spoil(db: Db, collection: str, where: dict[str, Any], change: dict[str, Any]) -> None:
    """Make a change that the validator would refuse."""
    db[collection].update_one(where, change, bypass_document_validation=True)


def test_a_sound_ledger_has_no_problems(ledger_db: Db, two: Any) -> None:
    assert codes(ledger_db) == []
    assert not repair(ledger_db)


def test_a_wrong_balance_follows_the_entries(ledger_db: Db, two: Any) -> None:
    spoil(ledger_db, "ledger.accounts", {"_id": two[0]}, {"$set": {"balance": 999}})
    problems = list(find_problems(ledger_db))
    assert [(problem.code, problem.repairable) for problem in problems] == [("wrong-balance", True)]
    assert problems[0].documents == {"ledger.accounts": two[0]}
    assert repair(ledger_db) == {"balances set": 1}
    assert codes(ledger_db) == []
    assert Accounts(ledger_db).get(two[0])["balance"] == 800


def test_a_negative_balance_is_reported(ledger_db: Db, two: Any) -> None:
    spoil(ledger_db, "ledger.accounts", {"_id": two[0]}, {"$set": {"balance": -5}})
    assert codes(ledger_db) == ["negative-balance", "wrong-balance"]
    repair(ledger_db)
    assert codes(ledger_db) == []


def test_a_negative_sum_of_entries_is_left_to_a_person(ledger_db: Db, two: Any) -> None:
    ledger_db["ledger.entries"].update_one({"account_id": two[0], "amount": -200}, {"$set": {"amount": -2_000}})
    repairable = {problem.code: problem.repairable for problem in find_problems(ledger_db)}
    assert repairable == {"wrong-balance": False, "unbalanced-transfer": False}
    assert not repair(ledger_db)
    assert Accounts(ledger_db).get(two[0])["balance"] == 800


def test_a_negative_opening_is_left_to_a_person(ledger_db: Db, two: Any) -> None:
    """All transfers of the account have both entries."""
    ledger_db["ledger.entries"].update_one({"_id": f"{two[0]}-opening"}, {"$set": {"amount": -2_000}})
    assert [(problem.code, problem.repairable) for problem in find_problems(ledger_db)] == [("wrong-balance", False)]
    assert not repair(ledger_db)


def test_an_account_closed_with_money_is_reported(ledger_db: Db, two: Any) -> None:
    ledger_db["ledger.accounts"].update_one({"_id": two[0]}, {"$set": {"closed_at": datetime.now(UTC)}})
    problems = list(find_problems(ledger_db))
    assert [(problem.code, problem.repairable) for problem in problems] == [("closed-with-money", False)]


def test_a_transfer_with_one_line_is_reported(ledger_db: Db, two: Any) -> None:
    ledger_db["ledger.entries"].delete_one({"account_id": two[1], "amount": 200})
    assert codes(ledger_db) == ["unbalanced-transfer", "wrong-balance"]


def test_a_missing_account_is_reported(ledger_db: Db, two: Any) -> None:
    ledger_db["ledger.accounts"].delete_one({"_id": two[0]})
    problems = list(find_problems(ledger_db))
    assert [(problem.code, problem.repairable) for problem in problems] == [("missing-account", False)]
    assert problems[0].documents == {"ledger.accounts": two[0]}
    assert not repair(ledger_db)


@pytest.mark.parametrize("ids", [("0", "1"), ("zza", "zzb"), (ObjectId("0" * 24), ObjectId("f" * 24)), (7, 8)])
def test_superfluous_entries_are_reported_in_every_part(ledger_db: Db, two: Any, ids: Any, small: None) -> None:
    """This includes two entries that add up to zero, in addition to those of the transfer."""
    copy = dict(ledger_db["ledger.entries"].find_one({"account_id": two[1], "amount": 200}))
    ledger_db["ledger.entries"].insert_many(
        [{**copy, "_id": ids[0], "amount": 5}, {**copy, "_id": ids[1], "amount": -5}]
    )
    assert set(codes(ledger_db)) == {"unbalanced-transfer"}
    assert not repair(ledger_db)


def test_parts_are_consistent_and_cover_everything(ledger_db: Db, mongod: Embedded, small: None) -> None:
    accounts = Accounts(ledger_db)
    ids = [accounts.open("EUR", 1_000)["_id"] for _ in range(6)]
    for number in range(12):
        accounts.transfer(ids[number % 6], ids[(number + 1) % 6], 10)
    with watched(mongod.uri, ledger_db.name) as (db, commands):
        assert list(find_problems(db)) == []
    moments = [sent["readConcern"] for name, sent in commands.sent if name == "aggregate"]
    assert {moment["level"] for moment in moments} == {"snapshot"}
    assert not any("atClusterTime" in moment for moment in moments)  # none is bound to another's
    ledger_db["ledger.accounts"].update_many({"_id": {"$in": ids[1:4]}}, {"$inc": {"balance": 1}})
    lost = ledger_db["ledger.entries"].find_one_and_delete({"account_id": ids[1], "amount": -10})
    ledger_db["ledger.accounts"].delete_one({"_id": ids[5]})
    problems = sorted(
        (problem.code, *problem.documents.values(), problem.repairable) for problem in find_problems(ledger_db)
    )
    assert problems == [
        ("missing-account", ids[5], False),
        ("unbalanced-transfer", lost["transfer_id"], False),
        ("wrong-balance", ids[1], False),
        ("wrong-balance", ids[2], False),
        ("wrong-balance", ids[3], True),
    ]
    assert repair(ledger_db) == {"balances set": 1}


def test_accounts_too_large_for_one_snapshot_are_read_one_by_one(own_db: Db, failing: Any) -> None:
    schema.apply(own_db, [*transactions.COLLECTIONS, *COLLECTIONS])
    ids = [Accounts(own_db).open("EUR", 1_000)["_id"] for _ in range(3)]
    own_db["ledger.accounts"].update_many({}, {"$inc": {"balance": 1}})
    too_old = {"errorCode": 239, "namespace": f"{own_db.name}.ledger.accounts"}
    with failing(["aggregate"], mode={"times": 1}, **too_old):
        assert [problem.documents["ledger.accounts"] for problem in find_problems(own_db)] == ids
    with failing(["aggregate"], mode={"times": 2}, **too_old), pytest.raises(Unavailable, match=ids[0]):
        list(find_problems(own_db))


def test_repair_compares_balances_and_entries_of_one_snapshot(ledger_db: Db, two: Any, mongod: Embedded) -> None:
    """An account read before a transfer and entries read after it would look like a wrong balance."""
    with watched(mongod.uri, ledger_db.name) as (db, commands):
        repair(db)
    levels = {sent["readConcern"]["level"] for name, sent in commands.sent if name == "aggregate"}
    assert levels == {"snapshot"}


def test_repair_during_transfers_changes_nothing(ledger_db: Db) -> None:
    accounts = Accounts(ledger_db)
    ids = [accounts.open("EUR", 1_000)["_id"] for _ in range(4)]

    def to_and_fro(number: int) -> None:
        for _ in range(15):
            accounts.transfer(ids[number % 4], ids[(number + 1) % 4], 10)
            accounts.transfer(ids[(number + 1) % 4], ids[number % 4], 10)

    seen: list[Any] = []
    with ThreadPoolExecutor(4) as pool:
        work = [pool.submit(to_and_fro, number) for number in range(4)]
        while not all(future.done() for future in work):
            seen += [str(problem) for problem in find_problems(ledger_db)]
            assert repair(ledger_db)["balances set"] == 0
        for future in work:
            future.result()
    assert seen == []
    assert accounts.total("EUR") == 4_000
    assert codes(ledger_db) == []


def test_accounts_stay_known_while_the_currency_cache_is_cleared(
    ledger_db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accounts_module, "CURRENCIES_KEPT", 2)
    accounts = Accounts(ledger_db)
    ids = [accounts.open("EUR", 1_000)["_id"] for _ in range(8)]

    def transfers(number: int) -> None:
        for step in range(12):
            accounts.transfer(ids[(number + step) % 8], ids[(number + step + 3) % 8], 1)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(transfers, range(6)))
    assert accounts.total("EUR") == 8_000
