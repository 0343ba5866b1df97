"""What can be wrong in a ledger, found and mended. The entries are the record; balances follow from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from squinney.ledger import queries
from squinney.mongo.schema import Db, Document
from squinney.patterns.problems import Problem
from squinney.patterns.transactions import Transactions, drop_orphans, find_orphans, find_stuck

MARKED_COLLECTIONS = ["accounts", "entries"]


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
    # Read after the rest, or a run that ends just now would show.
    yield from find_orphans(db, MARKED_COLLECTIONS)


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


def repair(db: Db) -> Counter[str]:
    """Settle unfinished transfers, drop orphan markers and stubs, and set each wrong balance to the sum of its entries.

    Atomic: each account by itself, only where it is still as it was found.
    After a crash: run it again.
    """
    done = Transactions(db).recover()
    done += drop_orphans(db, MARKED_COLLECTIONS)
    for account in _unlike_entries(db):
        done["balances set"] += _set_balance(db, account)
    return +done


def _unlike_entries(db: Db) -> list[Document]:
    """Accounts and entries of one moment: a transfer between two reads would look like a wrong balance."""
    with db.client.start_session(snapshot=True) as session:
        return list(db["accounts"].aggregate(queries.UNLIKE_ENTRIES(), session=session))


def _set_balance(db: Db, account: Document) -> int:
    if account["sum"] < 0:
        return 0
    unchanged = {"_id": account["_id"], "balance": account["balance"], "txns.0": {"$exists": False}, "txn_lock": None}
    return db["accounts"].update_one(unchanged, {"$set": {"balance": account["sum"]}}).modified_count
