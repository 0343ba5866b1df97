"""The ledger: transfers between the same accounts, and what else touches these."""

from __future__ import annotations

from typing import Any

from squinney import ledger
from squinney.ledger import Accounts
from squinney.mongo.schema import Db
from squinney.transactions import Mode
from tests.explore.scene import Act, Scene, transactions


def _accounts(db: Db, mode: Mode = "native") -> Accounts:
    return Accounts(db, transactions=transactions(db, mode))


def _prepare(db: Db) -> list[str]:
    return [_accounts(db).open("EUR", opening)["_id"] for opening in (100, 50, 0)]


def _transfer(src: int, dst: int, amount: int, key: str | None = None) -> Act:
    def act(db: Db, mode: Mode, ids: Any) -> None:
        _accounts(db, mode).transfer(ids[src], ids[dst], amount, key=key)

    return act


def _close(db: Db, mode: Mode, ids: Any) -> None:
    _accounts(db, mode).close(ids[2])


def _open(db: Db, mode: Mode, ids: Any) -> None:
    _accounts(db, mode).open("EUR", 20, key="open")


def _same_total(db: Db, ids: Any) -> None:
    opened = db["accounts"].count_documents({}) - len(ids)
    assert _accounts(db).total("EUR") == 150 + 20 * opened


OPERATIONS: dict[str, Act] = {
    "a to b": _transfer(0, 1, 70),
    "b to a": _transfer(1, 0, 60),
    "a to c": _transfer(0, 2, 60),
    "c to b": _transfer(2, 1, 10),
    "a to b by key": _transfer(0, 1, 40, "once"),
    "open by key": _open,
    "close c": _close,
}

SCENES = [
    Scene("ledger", "ledger", _prepare, OPERATIONS, check=_same_total),
    Scene(
        "ledger, recovered",
        "ledger",
        _prepare,
        {name: OPERATIONS[name] for name in ("a to b", "b to a", "a to b by key")},
        check=_same_total,
        between=[lambda db: transactions(db, "native").recover()],
    ),
    Scene(
        "ledger, repaired",
        "ledger",
        _prepare,
        {name: OPERATIONS[name] for name in ("a to b", "close c")},
        check=_same_total,
        between=[ledger.repair],
    ),
]
