"""What can be wrong in a ledger, found and mended. The entries are the record; balances follow from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from squinney.ledger import queries
from squinney.mongo.schema import Db, Document
from squinney.patterns.problems import Problem
from squinney.patterns.transactions import Transactions, find_stuck, is_open


def find_problems(db: Db) -> Iterator[Problem]:
    """Everything that breaks an invariant now; reads one snapshot, so live transfers are no problem."""
    yield from find_stuck(db)
    with db.client.start_session(snapshot=True) as session:
        for account in db["accounts"].aggregate(queries.UNLIKE_ENTRIES(), session=session):
            yield _unlike(account)
        for account in db["accounts"].find(queries.IMPOSSIBLE(), session=session):
            yield _impossible(account)
        for transfer in db["entries"].aggregate(queries.UNBALANCED(), session=session):
            yield _unbalanced(transfer)
        yield from _orphans(db)


def _unlike(account: Document) -> Problem:
    return Problem(
        "wrong-balance",
        f"account {account['_id']} says {account['balance']}, its entries add up to {account['sum']}",
        documents={"accounts": account["_id"]},
        repairable=account["sum"] >= 0,
    )


def _impossible(account: Document) -> Problem:
    if account["balance"] < 0:
        return Problem(
            "negative-balance",
            f"account {account['_id']} holds {account['balance']}",
            documents={"accounts": account["_id"]},
        )
    return Problem(
        "closed-with-money",
        f"account {account['_id']} is closed and holds {account['balance']}",
        documents={"accounts": account["_id"]},
    )


def _unbalanced(transfer: Document) -> Problem:
    return Problem(
        "unbalanced-transfer",
        f"transfer {transfer['_id']} has {transfer['entries']} entries that add up to {transfer['sum']}",
        documents={"entries": transfer["_id"]},
    )


def _orphans(db: Db) -> Iterator[Problem]:
    """Markers whose run has no record any more: read after the accounts, or a run that ends just now would show."""
    for account in list(queries.MARKED.find(db)):
        for txn in [*account.get("txns", []), account.get("txn_lock")]:
            if txn is not None and _is_orphan(db, account["_id"], txn):
                yield Problem(
                    "orphan-marker",
                    f"account {account['_id']} is marked by {txn}, which is no transaction",
                    documents={"accounts": account["_id"], "transactions": txn},
                    repairable=True,
                )


def _is_orphan(db: Db, account_id: str, txn: object) -> bool:
    if is_open(db, txn):
        return False
    return db["accounts"].find_one({"_id": account_id, "$or": [{"txns": txn}, {"txn_lock": txn}]}) is not None


def repair(db: Db) -> Counter[str]:
    """Settle unfinished transfers, drop orphan markers, and set each wrong balance to the sum of its entries.

    Atomic: each account by itself, only where it is still as it was found.
    After a crash: run it again.
    """
    done = Transactions(db).recover()
    orphans = [problem.documents for problem in find_problems(db) if problem.code == "orphan-marker"]
    for orphan in orphans:
        done["markers dropped"] += _drop_marker(db, orphan["accounts"], orphan["transactions"])
    for account in db["accounts"].aggregate(queries.UNLIKE_ENTRIES()):
        done["balances set"] += _set_balance(db, account)
    return +done


def _drop_marker(db: Db, account_id: str, txn: object) -> int:
    dropped = db["accounts"].update_one({"_id": account_id, "txns": txn}, {"$pull": {"txns": txn}}).modified_count
    unlocked = db["accounts"].update_one({"_id": account_id, "txn_lock": txn}, {"$unset": {"txn_lock": ""}})
    return int(dropped or unlocked.modified_count)


def _set_balance(db: Db, account: Document) -> int:
    if account["sum"] < 0:
        return 0
    unchanged = {"_id": account["_id"], "balance": account["balance"], "txns.0": {"$exists": False}, "txn_lock": None}
    return db["accounts"].update_one(unchanged, {"$set": {"balance": account["sum"]}}).modified_count
