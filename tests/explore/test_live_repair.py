"""The ledger's repair may run while transfers do."""

from __future__ import annotations

from typing import Any

from squinney import ledger
from squinney.mongo.schema import Db
from squinney.testing import Explorer
from squinney.transactions import COLLECTIONS, Transactions
from tests.sizes import IN_FULL


def _two_accounts(db: Db) -> list[str]:
    accounts = ledger.Accounts(db)
    return [accounts.open("EUR", 100)["_id"] for _ in range(2)]


def _transfer(db: Db, state: Any) -> None:
    transactions = Transactions(db, timeout_seconds=600)
    src, dst = state
    # Without the time limit of the public method, since each command takes long here.
    ledger.Accounts.transfer.__wrapped__(ledger.Accounts(db, transactions=transactions), src, dst, 70)  # type: ignore[attr-defined]


def test_repair_changes_nothing_on_a_live_ledger(own_explorer: Explorer) -> None:
    """The transfer also continues while the server reads the accounts and entries, from one to the next."""
    own_explorer(
        [_transfer],
        between=[ledger.repair],
        prepare=_two_accounts,
        collections=[*COLLECTIONS, *ledger.COLLECTIONS],
        problems=ledger.find_problems,
        crashes=0,
        inside=["ledger.accounts", "ledger.entries"],
        schedules=500 if IN_FULL else 20,
    )
