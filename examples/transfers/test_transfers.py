"""Two transfers. The sweep and the explorer find bugs in the first, and none in the second, which uses `Transactions`.

pip install '.[embedded,testing]'  # in a clone
pytest test_transfers.py
"""

import pytest

from squinney.errors import Conflict
from squinney.testing import NotCrashSafe, Refuted
from squinney.transactions import COLLECTIONS, Step, Transactions


class NotEnough(Conflict):
    """The account's balance is too low."""


def two_accounts(db):
    db["ledger.accounts"].insert_many([{"_id": "ada", "balance": 100}, {"_id": "bob", "balance": 0}])


def nothing_is_lost(db):
    balances = [account["balance"] for account in db["ledger.accounts"].find()]
    assert sum(balances) == 100, f"{sum(balances)} of 100 are left"
    assert min(balances) >= 0, "an account is overdrawn"


# ---- with the plain driver ----


def plain_transfer(db):
    if db["ledger.accounts"].find_one({"_id": "ada"})["balance"] < 70:
        raise NotEnough
    db["ledger.accounts"].update_one({"_id": "ada"}, {"$inc": {"balance": -70}})
    db["ledger.accounts"].update_one({"_id": "bob"}, {"$inc": {"balance": 70}})


def test_a_crash_between_the_two_writes_loses_money(sweep):
    with pytest.raises(NotCrashSafe) as refuted:
        sweep(two_accounts, plain_transfer, nothing_is_lost)
    assert [(point.write, point.way) for point in refuted.value.points] == [
        (2, "before"),
        (1, "after"),
        (1, "reply-lost"),
        (1, "reconnected"),
    ]


def test_two_concurrent_transfers_overdraw_the_account(explore):
    with pytest.raises(Refuted) as refuted:
        explore([plain_transfer, plain_transfer], nothing_is_lost, prepare=two_accounts, crashes=0)
    assert refuted.value.schedule == "a b3 a2"  # a reads; b reads and writes; a writes by the balance it has read


# ---- as guarded steps ----


def transfer(db):
    taken, given = {"$inc": {"balance": -70}}, {"$inc": {"balance": 70}}
    steps = [
        Step("ledger.accounts", "ada", guard={"balance": {"$gte": 70}}, update=taken, refused=NotEnough),
        Step("ledger.accounts", "bob", update=given),
    ]
    Transactions(db).run("transfer", steps)


def test_a_crash_at_any_write_loses_nothing(sweep):
    sweep(two_accounts, transfer, nothing_is_lost, collections=COLLECTIONS)


def test_two_concurrent_transfers_end_as_if_one_came_after_the_other(explore):
    explore([transfer, transfer], nothing_is_lost, prepare=two_accounts, collections=COLLECTIONS, schedules=25)


def test_it_takes_two_round_trips_and_every_query_has_an_index(audit):
    two_accounts(audit.db)
    audit.round_trips()
    transfer(audit.db)
    assert audit.round_trips() == ["update", "commitTransaction"]
    assert audit.slow_queries() == []
