"""The ledger: transfers between the same accounts, and what else touches these."""

from __future__ import annotations

from typing import Any

from squinney import ledger
from squinney.ledger import Accounts, NewTransfer
from squinney.mongo.schema import Db
from squinney.transactions import AlreadyExists, Step
from tests.explore.scene import Act, Scene


def _prepare(db: Db) -> list[str]:
    return [Accounts(db).open("EUR", opening)["_id"] for opening in (100, 60, 0)]


def _transfer(src: int, dst: int, amount: int, key: str | None = None) -> Act:
    def act(db: Db, ids: Any) -> None:
        Accounts(db).transfer(ids[src], ids[dst], amount, key=key)

    return act


def _close(db: Db, ids: Any) -> None:
    Accounts(db).close(ids[2])


def _same_total(db: Db, ids: Any) -> None:
    opened = db["ledger.accounts"].count_documents({}) - len(ids)
    assert Accounts(db).total("EUR") == 160 + 20 * opened


OPERATIONS: dict[str, Act] = {
    "a to b": _transfer(0, 1, 70),
    "b to a": _transfer(1, 0, 60),
    "a to c": _transfer(0, 2, 60),
    "c to b": _transfer(2, 1, 10),
    "a to b by key": _transfer(0, 1, 40, "once"),
    "open by key": lambda db, ids: Accounts(db).open("EUR", 20, key="open"),
    "close c": _close,
}

# ---- many transfers at once, and writes of the caller's ----


def _prepare_invoice(db: Db) -> list[str]:
    db["invoices"].insert_one({"_id": 7, "paid": False})
    return [Accounts(db).open("EUR", opening)["_id"] for opening in (100, 50, 0, 30, 30)]


def _pays() -> Step:
    return Step("invoices", 7, guard={"paid": False}, update={"$set": {"paid": True}}, refused=AlreadyExists)


def _many(*moves: tuple[int, int, int], key: str | None = None, pays: bool = False) -> Act:
    def act(db: Db, ids: Any) -> None:
        wanted: list[NewTransfer] = [{"src": ids[src], "dst": ids[dst], "amount": amount} for src, dst, amount in moves]
        Accounts(db).transfer_many(wanted, key=key, also=[_pays()] if pays else ())

    return act


def _no_money_lost(db: Db, ids: Any) -> None:
    assert Accounts(db).total("EUR") == 210


MANY: dict[str, Act] = {
    "many": _many((0, 1, 70), (0, 1, 70), (1, 2, 100)),
    "many by key": _many((1, 0, 50), (0, 2, 120), key="once"),
    "many, c refused": _many((2, 0, 10), (3, 1, 30)),  # the next one gives c what it needs, and the other way round
    "many, b refused": _many((1, 0, 60), (4, 2, 30)),
    "many pay": _many((0, 1, 10), key="pay", pays=True),
    "b to a pays": lambda db, ids: Accounts(db).transfer(ids[1], ids[0], 50, also=[_pays()]),
    "a to b": _transfer(0, 1, 70),
    "close c": _close,
}

SCENES = [
    Scene("ledger", "ledger", _prepare, OPERATIONS, check=_same_total),
    Scene("ledger, many", "ledger", _prepare_invoice, MANY, check=_no_money_lost),
    Scene(
        "ledger, repaired",
        "ledger",
        _prepare,
        {name: OPERATIONS[name] for name in ("a to b", "close c")},
        check=_same_total,
        between=[ledger.repair],
    ),
]
