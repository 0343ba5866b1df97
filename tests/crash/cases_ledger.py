"""The ledger under the sweep."""

from __future__ import annotations

from typing import Any

from squinney.ledger import Accounts
from squinney.ledger.demo import demo
from squinney.mongo.schema import Db
from squinney.testing import Case
from squinney.transactions import Step

KEY = "once"


def _two_accounts(db: Db) -> Any:
    accounts = Accounts(db)
    return accounts.open("EUR", 1_000)["_id"], accounts.open("EUR", 50)["_id"]


def _transfer(db: Db, state: Any) -> None:
    Accounts(db).transfer(*state, 300, key=KEY)


def _moved_whole_or_not(db: Db, state: Any) -> None:
    balances = [Accounts(db).get(account_id)["balance"] for account_id in state]
    assert balances in ([1_000, 50], [700, 350])
    assert Accounts(db).total("EUR") == 1_050


def _repeat_moves_once(db: Db, state: Any) -> None:
    """Check that repeating the key moves the money once, whether or not the first call succeeded."""
    _moved_whole_or_not(db, state)
    for _ in range(2):
        _transfer(db, state)
    assert [Accounts(db).get(account_id)["balance"] for account_id in state] == [700, 350]


def _transfer_many(db: Db, state: Any) -> None:
    src, dst = state
    moves = ((src, dst, 200), (src, dst, 5_000), (src, dst, 150), (dst, src, 50))
    Accounts(db).transfer_many([{"src": one, "dst": other, "amount": n} for one, other, n in moves], key=KEY)


def _many_moved_once(db: Db, state: Any) -> None:
    _moved_whole_or_not(db, state)
    for _ in range(2):
        _transfer_many(db, state)
    assert [Accounts(db).get(account_id)["balance"] for account_id in state] == [700, 350]
    assert db["ledger.entries"].count_documents({"transfer_id": {"$ne": None}}) == 6


# ---- with a write of the caller's ----


def _with_invoice(db: Db) -> Any:
    db["invoices"].insert_one({"_id": 7, "paid": False})
    return _two_accounts(db)


def _pay(db: Db, state: Any) -> None:
    paid = Step("invoices", 7, guard={"paid": False}, update={"$set": {"paid": True}})
    Accounts(db).transfer(*state, 300, key=KEY, also=[paid])


def _pay_by_many(db: Db, state: Any) -> None:
    src, dst = state
    paid = Step("invoices", 7, guard={"paid": False}, update={"$set": {"paid": True}})
    Accounts(db).transfer_many([{"src": src, "dst": dst, "amount": 300}], key=KEY, also=[paid])


def _paid_if_moved(db: Db, state: Any) -> None:
    _moved_whole_or_not(db, state)
    assert next(db["invoices"].find({"_id": 7}))["paid"] == (Accounts(db).get(state[0])["balance"] == 700)


def _open(db: Db, state: Any) -> None:
    Accounts(db).open("EUR", 70, key=KEY)


def _opened_once(db: Db, state: Any) -> None:
    assert len(Accounts(db).all().items) <= 1
    for _ in range(2):
        _open(db, state)
    assert [account["balance"] for account in Accounts(db).all().items] == [70]


def _is_closed_or_not(db: Db, state: Any) -> None:
    assert Accounts(db).get(state)["balance"] == 0


def _demo_goes_on(db: Db, state: Any) -> None:
    demo(db)
    assert len(Accounts(db).all().items) == 4
    assert Accounts(db).total("EUR") == 220_000


def _close_case() -> Case:
    return Case(
        "Accounts.close",
        "ledger",
        prepare=lambda db: Accounts(db).open("EUR")["_id"],
        act=lambda db, state: Accounts(db).close(state),
        check=_is_closed_or_not,
    )


CASES = [
    Case("Accounts.transfer", "ledger", _two_accounts, _transfer, _repeat_moves_once, covers=["Transactions.run"]),
    Case(
        "Accounts.transfer without a key",
        "ledger",
        _two_accounts,
        lambda db, state: Accounts(db).transfer(*state, 300),
        _moved_whole_or_not,
    ),
    Case("Accounts.transfer_many", "ledger", _two_accounts, _transfer_many, _many_moved_once),
    Case("Accounts.transfer also", "ledger", _with_invoice, _pay, _paid_if_moved),
    Case(
        "Accounts.transfer_many also",
        "ledger",
        _with_invoice,
        _pay_by_many,
        _paid_if_moved,
        covers=["transactions.apply_steps"],
    ),
    Case("Accounts.open", "ledger", lambda db: None, _open, _opened_once),
    _close_case(),
    Case("ledger.demo", "ledger", lambda db: None, lambda db, state: demo(db), _demo_goes_on),
]
