"""What can be wrong in a ledger, found and mended. The entries are the record; balances follow from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from pymongo.client_session import ClientSession

from squinney.ledger import queries
from squinney.mongo.schema import Db, Document
from squinney.patterns.problems import Problem
from squinney.patterns.transactions import Transactions, drop_orphans, find_orphans, find_stuck

MARKED_COLLECTIONS = ["accounts", "entries"]


def find_problems(db: Db) -> Iterator[Problem]:
    """Everything that breaks an invariant now; reads one snapshot, so live transfers are no problem."""
    yield from find_stuck(db)
    with db.client.start_session(snapshot=True) as session:
        unbalanced = _unbalanced(db, session)
        yield from map(_unbalanced_problem, unbalanced)
        for account in db["accounts"].aggregate(queries.UNLIKE_ENTRIES(), session=session):
            yield _unlike_problem(account, repairable=_entries_say(account, _doubted(unbalanced)))
        for account in db["accounts"].find(queries.IMPOSSIBLE(), session=session):
            yield _impossible_problem(account)
    # Read after the rest, or a run that ends just now would show.
    yield from find_orphans(db, MARKED_COLLECTIONS)


def _unbalanced(db: Db, session: ClientSession) -> list[Document]:
    return list(db["entries"].aggregate(queries.UNBALANCED(), session=session))


def _doubted(unbalanced: list[Document]) -> set[str]:
    """Accounts that have lost an entry, or have one too many: theirs cannot tell what they hold."""
    return {account_id for transfer in unbalanced for account_id in (*transfer["written"], *transfer["named"])}


def _entries_say(account: Document, doubted: set[str]) -> bool:
    """Whether the account's entries can be taken for what it holds."""
    return account["sum"] >= 0 and account["_id"] not in doubted


def _unlike_problem(account: Document, *, repairable: bool) -> Problem:
    return Problem(
        "wrong-balance",
        f"account {account['_id']} says {account['balance']}, its entries add up to {account['sum']}",
        documents={"accounts": account["_id"]},
        repairable=repairable,
    )


def _impossible_problem(account: Document) -> Problem:
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


def _unbalanced_problem(transfer: Document) -> Problem:
    return Problem(
        "unbalanced-transfer",
        f"transfer {transfer['_id']} has {transfer['entries']} entries that add up to {transfer['sum']}",
        documents={"entries": transfer["_id"]},
    )


def repair(db: Db) -> Counter[str]:
    """Settle unfinished transfers, drop orphan markers and stubs, and set each wrong balance to the sum of its entries.

    A balance stays as it is where an entry of one of the account's transfers is missing: a person must decide.

    Atomic: each account by itself, only where it is still as it was found.
    After a crash: run it again.
    """
    done = Transactions(db).recover()
    done += drop_orphans(db, MARKED_COLLECTIONS)
    for account in _wrong_balances(db):
        done["balances set"] += _set_balance(db, account)
    return +done


def _wrong_balances(db: Db) -> list[Document]:
    """Accounts and entries of one moment: a transfer between two reads would look like a wrong balance."""
    with db.client.start_session(snapshot=True) as session:
        doubted = _doubted(_unbalanced(db, session))
        unlike = list(db["accounts"].aggregate(queries.UNLIKE_ENTRIES(), session=session))
    return [account for account in unlike if _entries_say(account, doubted)]


def _set_balance(db: Db, account: Document) -> int:
    unchanged = {"_id": account["_id"], "balance": account["balance"], "txns.0": {"$exists": False}, "txn_lock": None}
    return db["accounts"].update_one(unchanged, {"$set": {"balance": account["sum"]}}).modified_count
