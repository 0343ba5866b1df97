"""`squinney doctor` on healthy and damaged databases."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from bson import ObjectId

from squinney.ledger import Accounts
from squinney.mongo.schema import Db
from squinney.transactions import Step, Transactions
from squinney.transactions.steps import stored_form


def problems(result: Any) -> list[str]:
    """Return the messages of all problems."""
    found = json.loads(result.stdout)["findings"]
    return [finding["message"] for finding in found if finding["level"] == "problem"]


def test_a_healthy_database_is_well(squinney: Any, ready_db: Db) -> None:
    accounts = Accounts(ready_db)
    accounts.transfer(accounts.open("EUR", 100)["_id"], accounts.open("EUR")["_id"], 10)
    result = squinney("doctor", "--json")
    assert result.returncode == 0, result.stderr
    assert problems(result) == []


def test_an_empty_database_lacks_its_indexes_until_repaired(squinney: Any, db: Db) -> None:
    result = squinney("doctor", "--json")
    assert result.returncode == 1
    assert any("missing-collection" in message for message in problems(result))
    assert squinney("doctor", "--repair").returncode == 0
    assert squinney("doctor").returncode == 0


def _wrong_balance(db: Db) -> None:
    account = Accounts(db).open("EUR", 100)
    db["accounts"].update_one({"_id": account["_id"]}, {"$set": {"balance": 150}})


def _missing_index(db: Db) -> None:
    db["entries"].drop_index("account_id_1_at_-1__id_-1")


def _stuck_transaction(db: Db) -> None:
    """Create the debit of a process that died an hour ago."""
    account = Accounts(db).open("EUR", 100)
    txn = ObjectId()
    step = Step("accounts", account["_id"], take={"$inc": {"balance": -30}}, undo={"$inc": {"balance": 30}})
    long_ago = datetime.now(UTC) - timedelta(hours=1)
    record = {"_id": txn, "txn": txn, "kind": "transfer", "mode": "two-phase", "fingerprint": None, "state": "new"}
    times = {"at": long_ago, "deadline": long_ago, "due_at": long_ago}
    db["transactions"].insert_one({**record, **times, "steps": [stored_form(step)]})
    db["accounts"].update_one({"_id": account["_id"]}, {"$inc": {"balance": -30}, "$push": {"txns": txn}})


DAMAGE = [
    (_wrong_balance, "wrong-balance"),
    (_missing_index, "missing-index"),
    (_stuck_transaction, "stuck-transaction"),
]


@pytest.mark.parametrize(("damage", "said"), DAMAGE, ids=[said for _, said in DAMAGE])
def test_damage_is_reported_and_repaired(squinney: Any, ready_db: Db, damage: Any, said: str) -> None:
    damage(ready_db)
    result = squinney("doctor", "--json")
    assert result.returncode == 1
    assert any(said in message for message in problems(result)), result.stdout
    assert squinney("doctor", "--repair").returncode == 0
    assert squinney("doctor").returncode == 0
    assert all(account["balance"] == 100 for account in ready_db["accounts"].find())


def test_problems_that_need_a_decision_are_not_repaired(squinney: Any, ready_db: Db) -> None:
    accounts = Accounts(ready_db)
    ada, ben = accounts.open("EUR", 100)["_id"], accounts.open("EUR")["_id"]
    transfer = accounts.transfer(ada, ben, 10)
    ready_db["entries"].delete_one({"_id": f"{transfer['_id']}-in"})
    result = squinney("doctor", "--repair", "--json")
    assert result.returncode == 1
    assert any("unbalanced-transfer" in message for message in problems(result))
    assert accounts.get(ben)["balance"] == 10, "money may not vanish by an entry that did"


def test_a_conflicting_index_does_not_stop_other_repairs(squinney: Any, ready_db: Db) -> None:
    ready_db["accounts"].drop_index("currency_1")
    ready_db["accounts"].create_index("currency", sparse=True)
    _missing_index(ready_db)
    _wrong_balance(ready_db)
    result = squinney("doctor", "--repair", "--json")
    assert result.returncode == 1
    assert problems(result) == ["accounts: different-index currency_1"]
    repaired = json.loads(result.stdout)["repaired"]
    assert repaired == {"collections and indexes": 1, "ledger: balances set": 1}


def test_duplicate_values_do_not_stop_other_repairs(squinney: Any, ready_db: Db) -> None:
    ready_db["categories"].drop_index("slug_1")
    tea = {"slug": "tea", "name": "Tea", "parent": None, "ancestors": []}
    ready_db["categories"].insert_many([{**tea, "_id": f"tea {number}", "position": number} for number in range(2)])
    _wrong_balance(ready_db)
    result = squinney("doctor", "--repair", "--json")
    assert "categories: missing-index slug_1" in problems(result), result.stderr
    assert json.loads(result.stdout)["repaired"]["ledger: balances set"] == 1
    applied = squinney("indexes", "--apply")
    assert applied.returncode == 5
    assert "categories: documents have equal values under a unique index" in applied.stderr
    assert applied.stderr.count("\n") == 1


def test_failing_and_late_jobs_are_reported(squinney: Any, ready_db: Db) -> None:
    long_ago = datetime.now(UTC) - timedelta(hours=1)
    last = {"outcome": "ok", "finished_at": long_ago, "duration_seconds": 0.1, "result": {}}
    late = {"_id": "recover-transactions", "next_at": long_ago, "runs": 1, "failures": 0, "last": last}
    ready_db["jobs"].insert_one(late)
    result = squinney("doctor")
    assert result.returncode == 0, "it is late because nobody serves: no fault of the data"
    assert re.search(r"notice jobs: recover-transactions has been due for 36\d\d s", result.stdout)
    failed = {**last, "outcome": "failed", "error": "RuntimeError: no"}
    ready_db["jobs"].update_one({"_id": late["_id"]}, {"$set": {"failures": 3, "last": failed}})
    assert problems(squinney("doctor", "--json")) == [
        "recover-transactions failed 3 times in a row: RuntimeError: no",
    ]


def test_recover_can_be_run_manually(squinney: Any, ready_db: Db) -> None:
    _stuck_transaction(ready_db)
    result = squinney("ledger", "recover", "--json")
    assert json.loads(result.stdout)["rolled back"] == 1
    assert Transactions(ready_db).recover() == {}
