"""The ledger under the sweep."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch

from pymongo.errors import AutoReconnect

from squinney import ledger
from squinney.errors import Unavailable
from squinney.ledger import Accounts
from squinney.ledger.demo import demo
from squinney.mongo.schema import Db
from squinney.testing import Case
from squinney.testing.crash.cases import transactions
from squinney.transactions import Mode, Transactions, recovery, two_phase

KEY = "once"


def _accounts(db: Db, mode: Mode = "auto") -> Accounts:
    return Accounts(db, transactions=transactions(db, mode))


def _two_accounts(db: Db) -> Any:
    accounts = _accounts(db)
    return accounts.open("EUR", 1_000)["_id"], accounts.open("EUR", 50)["_id"]


def _transfer(db: Db, mode: Mode, state: Any) -> None:
    _accounts(db, mode).transfer(*state, 300, key=KEY)


def _transfer_without_key(db: Db, mode: Mode, state: Any) -> None:
    _accounts(db, mode).transfer(*state, 300)


def _moved_whole_or_not(db: Db, state: Any) -> None:
    balances = [_accounts(db).get(account_id)["balance"] for account_id in state]
    assert balances in ([1_000, 50], [700, 350])
    assert _accounts(db).total("EUR") == 1_050


def _repeat_moves_once(db: Db, state: Any) -> None:
    """Check that repeating the key moves the money once, whether or not the first call succeeded."""
    _moved_whole_or_not(db, state)
    _transfer(db, "native", state)
    _transfer(db, "two-phase", state)
    assert [_accounts(db).get(account_id)["balance"] for account_id in state] == [700, 350]


def _refused(db: Db, mode: Mode, state: Any) -> None:
    src, dst = state
    try:
        _accounts(db, mode).transfer(dst, src, 51)
    except ledger.InsufficientFunds:
        return
    raise AssertionError("the transfer was not refused")


def _nothing_moved(db: Db, state: Any) -> None:
    assert [_accounts(db).get(account_id)["balance"] for account_id in state] == [1_000, 50]


def _open(db: Db, mode: Mode, state: Any) -> None:
    _accounts(db, mode).open("EUR", 70, key=KEY)


def _opened_once(db: Db, state: Any) -> None:
    assert len(_accounts(db).all().items) <= 1
    _open(db, "native", state)
    _open(db, "two-phase", state)
    assert [account["balance"] for account in _accounts(db).all().items] == [70]


def _close(db: Db, mode: Mode, state: Any) -> None:
    _accounts(db, mode).close(state)


def _is_closed_or_not(db: Db, state: Any) -> None:
    assert _accounts(db).get(state)["balance"] == 0


def _demo(db: Db, mode: Mode, state: Any) -> None:
    demo(db)


def _demo_goes_on(db: Db, state: Any) -> None:
    demo(db)
    assert len(_accounts(db).all().items) == 4
    assert _accounts(db).total("EUR") == 220_000


def _left_in(db: Db, interrupted: Any) -> Any:
    """Two transfers that were left where `interrupted` would have begun, one way and the other."""
    state = _two_accounts(db)
    for src, dst in (state, state[::-1]):
        with patch.object(*interrupted, side_effect=AutoReconnect), suppress(Unavailable):
            _accounts(db, "two-phase").transfer(src, dst, 20)
    long_ago = datetime(2000, 1, 1, tzinfo=UTC)
    db["transactions"].update_many({}, {"$set": {"deadline": long_ago, "due_at": long_ago}})
    return state


def _recover(db: Db, mode: Mode, state: Any) -> None:
    Transactions(db).recover()


def _sum_is_kept(db: Db, state: Any) -> None:
    assert [_accounts(db).get(account_id)["balance"] for account_id in state] == [1_000, 50]


def _close_case() -> Case:
    return Case(
        "Accounts.close",
        "ledger",
        prepare=lambda db: _accounts(db).open("EUR")["_id"],
        act=_close,
        check=_is_closed_or_not,
        modes=["native"],
    )


def _recover_case(what: str, *interrupted: Any) -> Case:
    return Case(
        f"job:recover-transactions {what}",
        "ledger",
        prepare=lambda db: _left_in(db, interrupted),
        act=_recover,
        check=_sum_is_kept,
        modes=["native"],
        covers=["Transactions.recover"],
    )


CASES = [
    Case("Accounts.transfer", "ledger", _two_accounts, _transfer, _repeat_moves_once, covers=["Transactions.run"]),
    Case("Accounts.transfer without a key", "ledger", _two_accounts, _transfer_without_key, _moved_whole_or_not),
    Case("Accounts.transfer refused", "ledger", _two_accounts, _refused, _nothing_moved),
    Case("Accounts.open", "ledger", lambda db: None, _open, _opened_once),
    _close_case(),
    _recover_case("undoes", two_phase, "_flip"),
    _recover_case("finishes", recovery, "finish"),
    Case("ledger.demo", "ledger", lambda db: None, _demo, _demo_goes_on, ["native"]),
]
