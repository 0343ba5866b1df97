"""The ledger: transfers between the same accounts, and what else touches these."""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from unittest.mock import patch

from bson import ObjectId
from pymongo.errors import AutoReconnect

from squinney import assembly, ledger
from squinney.errors import Unavailable
from squinney.ledger import Accounts
from squinney.mongo.schema import Db
from squinney.testing.protocol import expire_deadlines
from squinney.transactions import Mode, drop_orphans, recovery, two_phase
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

# ---- what dead processes left ----


def _interrupted(db: Db) -> list[str]:
    """Leave one transfer undecided and one committed but not finished, both past their deadlines."""
    ids = _prepare(db)
    for src, dst, interrupted in ((0, 1, (two_phase, "_flip")), (1, 0, (recovery, "finish"))):
        with patch.object(*interrupted, side_effect=AutoReconnect), suppress(Unavailable):
            _accounts(db, "two-phase").transfer(ids[src], ids[dst], 20)
    expire_deadlines(db, {})
    return ids


def _orphaned(db: Db) -> list[str]:
    """Leave markers on two accounts, a lock on the third and a stub, all of runs without a record."""
    ids = _prepare(db)
    run = ObjectId()
    db["accounts"].update_many({"_id": {"$in": ids[:2]}}, {"$set": {"txns": [run]}})
    db["accounts"].update_one({"_id": ids[2]}, {"$set": {"txns": [run], "txn_lock": run}})
    db["entries"].insert_one({"_id": "late", "txn_stub": run, "txn_lock": run}, bypass_document_validation=True)
    return ids


def _recover(db: Db, mode: Mode, ids: Any) -> None:
    next(job for job in assembly.CORE_JOBS if job.name == "recover-transactions").run(db)


def _drop_orphans(db: Db, mode: Mode, ids: Any) -> None:
    drop_orphans(db, ["accounts", "entries"])


def _then(act: Act, repair: Act) -> Act:
    """Return the operation, followed by the repair, which nobody else runs in some of the pairs."""

    def both(db: Db, mode: Mode, ids: Any) -> None:
        act(db, mode, ids)
        repair(db, mode, ids)

    return both


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
    Scene(
        "ledger, interrupted",
        "ledger",
        _interrupted,
        {
            "recover": _recover,
            "a to b": _then(_transfer(0, 1, 10), _recover),
            "b to a": _then(_transfer(1, 0, 10), _recover),
        },
        check=_same_total,
    ),
    Scene(
        "ledger, orphaned",
        "ledger",
        _orphaned,
        {"drop orphans": _drop_orphans, "a to b": _then(_transfer(0, 1, 10), _drop_orphans), "close c": _close},
        check=_same_total,
        age=ledger.repair,
    ),
]
