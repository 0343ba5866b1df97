"""Bugs of an earlier protocol do not occur any more, in any schedule that is played."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest
from bson import ObjectId

from squinney import ledger
from squinney.mongo.schema import Db
from squinney.testing import Explorer, counts
from squinney.transactions import COLLECTIONS, Mode, Transactions
from tests.explore.faults import FAULTS, Fault
from tests.sizes import IN_FULL

MODES: list[Mode] = ["native", "two-phase"]
CASES = [(fault, modes) for fault in FAULTS for modes in product(MODES, repeat=len(fault.plans))]
NAMES = [f"{fault.name}, {', '.join(modes)}" for fault, modes in CASES]
SCHEDULES = 300 if IN_FULL else 20


@pytest.mark.parametrize(("fault", "modes"), CASES, ids=NAMES)
def test_a_former_bug_does_not_occur(
    fault: Fault, modes: tuple[Mode, ...], explorer: Explorer, pytestconfig: pytest.Config
) -> None:
    explored = explorer.explore(
        fault.operations(modes), prepare=fault.prepare, collections=fault.collections, schedules=SCHEDULES
    )
    counts.count(pytestconfig, "schedules", explored.schedules)


def _busy_ledger(db: Db) -> list[str]:
    """Open two accounts, and insert unfinished records of other runs, which a search for open runs must read."""
    soon = datetime.now(UTC) + timedelta(minutes=5)
    for _ in range(3):
        txn = ObjectId()
        times = {"at": soon, "deadline": soon, "due_at": soon}
        db["transactions"].insert_one({"_id": txn, "txn": txn, "kind": "other", "state": "new", "steps": [], **times})
    accounts = ledger.Accounts(db)
    return [accounts.open("EUR", 100)["_id"] for _ in range(2)]


def _transfer(db: Db, state: Any) -> None:
    transactions = Transactions(db, "two-phase", timeout_seconds=600)
    src, dst = state
    # Without the time limit of the public method, since each command takes long here.
    ledger.Accounts.transfer.__wrapped__(ledger.Accounts(db, transactions=transactions), src, dst, 70)  # type: ignore[attr-defined]


def test_repair_changes_nothing_on_a_live_ledger(own_explorer: Explorer) -> None:
    """The transfer continues while the server searches for a marker's run."""
    own_explorer.explore(
        [_transfer],
        between=[ledger.repair],
        prepare=_busy_ledger,
        collections=[*COLLECTIONS, *ledger.COLLECTIONS],
        problems=ledger.find_problems,
        crashes=0,
        inside=["transactions"],
        schedules=500 if IN_FULL else 20,
    )
