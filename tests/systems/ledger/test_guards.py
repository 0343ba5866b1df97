"""Guards of the ledger that other checks normally hide, each tested separately."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.patterns.interrupt import meanwhile

from squinney.errors import SquinneyError
from squinney.ledger import Accounts, repair
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db

CLOSED = {"closed_at": datetime(2026, 1, 1, tzinfo=UTC)}
DOLLARS = {"currency": "USD"}


@pytest.fixture
def two(ledger_db: Db) -> list[str]:
    accounts = Accounts(ledger_db)
    return [accounts.open("EUR", 100)["_id"] for _ in range(2)]


@pytest.mark.parametrize("change", [CLOSED, DOLLARS], ids=["closed", "dollars"])
@pytest.mark.parametrize("side", [0, 1], ids=["src", "dst"])
def test_each_guard_of_a_transfer_works_on_its_own(
    accounts: Accounts, ledger_db: Db, two: Any, side: int, change: Any
) -> None:
    """The first transfer fills the cache, so that only the guards can notice the change of an account."""
    accounts.transfer(*two, 1)
    ledger_db["ledger.accounts"].update_one({"_id": two[side]}, {"$set": change}, bypass_document_validation=True)
    with pytest.raises(SquinneyError):
        accounts.transfer(*two, 1)
    assert [accounts.get(account_id)["balance"] for account_id in two] == [99, 101]


def test_repair_does_not_overwrite_a_changed_balance(ledger_db: Db, two: Any, mongod: Embedded) -> None:
    accounts = Accounts(ledger_db)
    ledger_db["ledger.accounts"].update_one({"_id": two[0]}, {"$inc": {"balance": 5}})
    with meanwhile(mongod, ledger_db, lambda: accounts.transfer(*two, 30), "update", "ledger.accounts") as db:
        assert not repair(db)
    assert accounts.get(two[0])["balance"] == 75, "100 would be money out of nothing"
    assert repair(ledger_db) == {"balances set": 1}
    assert accounts.get(two[0])["balance"] == 70
