"""A two-phase ledger under the sweep."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch

from pymongo.errors import AutoReconnect

from squinney import ledger
from squinney.errors import Unavailable
from squinney.ledger import Accounts
from squinney.mongo.schema import Db
from squinney.testing import Case
from squinney.transactions import two_phase
from squinney.transactions.two_phase import TwoPhase, records, runner
from squinney.transactions.two_phase.documents import NAME, PROTOCOL_FIELDS

KEY = "once"
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


def _accounts(db: Db) -> Accounts:
    return Accounts(db, transactions=TwoPhase(db))


def _expire(db: Db) -> None:
    db[NAME].update_many({"due_at": {"$exists": True}}, {"$set": {"deadline": LONG_AGO, "due_at": LONG_AGO}})


def _nothing_is_held(db: Db) -> None:
    for name in ("ledger.accounts", "ledger.entries"):
        assert db[name].find_one({"$or": [{field: {"$exists": True}} for field in PROTOCOL_FIELDS]}) is None
    assert db[NAME].find_one({"due_at": {"$exists": True}}) is None


def _two_accounts(db: Db) -> Any:
    accounts = _accounts(db)
    return accounts.open("EUR", 1_000)["_id"], accounts.open("EUR", 50)["_id"]


def _balances(db: Db, state: Any) -> list[int]:
    return [_accounts(db).get(account_id)["balance"] for account_id in state]


def _transfer(db: Db, state: Any) -> None:
    _accounts(db).transfer(*state, 300, key=KEY)


def _moved_whole_or_not(db: Db, state: Any) -> None:
    _nothing_is_held(db)
    assert _balances(db, state) in ([1_000, 50], [700, 350])


def _repeat_moves_once(db: Db, state: Any) -> None:
    """Check that repeating the key moves the money once, whether or not the first call succeeded."""
    _moved_whole_or_not(db, state)
    for _ in range(2):
        _transfer(db, state)
    assert _balances(db, state) == [700, 350]


def _refused(db: Db, state: Any) -> None:
    src, dst = state
    try:
        _accounts(db).transfer(dst, src, 51)
    except ledger.InsufficientFunds:
        return
    raise AssertionError("the transfer was not refused")


def _nothing_moved(db: Db, state: Any) -> None:
    _nothing_is_held(db)
    assert _balances(db, state) == [1_000, 50]


def _open(db: Db, state: Any) -> None:
    _accounts(db).open("EUR", 70, key=KEY)


def _opened_once(db: Db, state: Any) -> None:
    _nothing_is_held(db)
    assert len(_accounts(db).all().items) <= 1
    for _ in range(2):
        _open(db, state)
    assert [account["balance"] for account in _accounts(db).all().items] == [70]


def _left_at(db: Db, *interrupted: Any) -> Any:
    """A transfer that was left where `interrupted` would have begun."""
    state = _two_accounts(db)
    with patch.object(*interrupted, side_effect=AutoReconnect), suppress(Unavailable):
        _accounts(db).transfer(*state, 300)
    _expire(db)
    return state


def _left_undecided(db: Db) -> Any:
    return _left_at(db, records, "commit")


def _left_decided(db: Db) -> Any:
    return _left_at(db, runner, "finish")


def _recover(db: Db, state: Any) -> None:
    two_phase.recover(db)


def _all_moved(db: Db, state: Any) -> None:
    _nothing_is_held(db)
    assert _balances(db, state) == [700, 350]


def _wait_for_the_dead(db: Db, state: Any) -> None:
    """A transfer that meets the accounts of a run that died, and settles it."""
    _accounts(db).transfer(*state, 1)


def _one_moved(db: Db, state: Any) -> None:
    _nothing_is_held(db)
    assert _balances(db, state) in ([1_000, 50], [999, 51])


def _with_a_late_stub(db: Db) -> Any:
    """An entry whose run is rolled back, and an account whose run has no record."""
    state = _two_accounts(db)
    run = TwoPhase(db).run("note", [])
    db[NAME].update_one({"_id": run.id}, {"$set": {"state": "rolled back"}})
    db["ledger.entries"].insert_one(
        {"_id": "late", "account_id": state[0], "amount": 1, "at": LONG_AGO, "txn_lock": run.id, "txn_stub": run.id}
    )
    db["ledger.accounts"].update_one({"_id": state[1]}, {"$set": {"txn_lock": "lost"}})
    return state


def _stuck(db: Db) -> Any:
    return *_left_decided(db), str(db[NAME].find_one({"state": "commit"})["_id"])


CASES = [
    Case(
        "Accounts.transfer in two phases",
        "ledger",
        _two_accounts,
        _transfer,
        _repeat_moves_once,
        age=_expire,
        covers=["TwoPhase.run"],
    ),
    Case(
        "Accounts.transfer in two phases without a key",
        "ledger",
        _two_accounts,
        lambda db, state: _accounts(db).transfer(*state, 300),
        _moved_whole_or_not,
        age=_expire,
    ),
    Case("Accounts.transfer in two phases refused", "ledger", _two_accounts, _refused, _nothing_moved, age=_expire),
    Case("Accounts.open in two phases", "ledger", lambda db: None, _open, _opened_once, age=_expire),
    Case(
        "job:recover-two-phase undoes",
        "ledger",
        _left_undecided,
        _recover,
        _nothing_moved,
        age=_expire,
        covers=["two_phase.recover"],
    ),
    Case("job:recover-two-phase finishes", "ledger", _left_decided, _recover, _all_moved, age=_expire),
    Case(
        "Accounts.transfer settles a dead run", "ledger", _left_undecided, _wait_for_the_dead, _one_moved, age=_expire
    ),
    Case(
        "two_phase.drop_orphans",
        "ledger",
        _with_a_late_stub,
        lambda db, state: ledger.repair(db),
        _nothing_moved,
        age=ledger.repair,
    ),
    Case(
        "two_phase.finish_stuck",
        "ledger",
        _stuck,
        lambda db, state: two_phase.finish_stuck(db, state[2]),
        lambda db, state: _all_moved(db, state[:2]),
    ),
    Case(
        "two_phase.undo_stuck",
        "ledger",
        _stuck,
        lambda db, state: two_phase.undo_stuck(db, state[2]),
        lambda db, state: _moved_whole_or_not(db, state[:2]),
    ),
]
