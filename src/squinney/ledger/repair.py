"""What can be wrong in a ledger, found and mended. The entries are the record; balances follow from them.

A server remembers a snapshot for some minutes, and a ledger may take hours to read. So it is read in parts, each in a
snapshot of its own: an account with all its entries, a transfer with both of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

from bson.max_key import MaxKey
from bson.min_key import MinKey

from squinney.ledger import queries
from squinney.ledger.queries import Part
from squinney.mongo.pinned import pinned
from squinney.mongo.problems import ADVICE, Problem, SnapshotTooOld, found, mended_each, told_each
from squinney.mongo.schema import Db, Document
from squinney.transactions import AT_REST, Transactions, drop_orphans, find_orphans, find_stuck

MARKED_COLLECTIONS = ["accounts", "entries"]
ACCOUNTS_A_PART = 100  # with all their entries
ENTRIES_A_PART = 20_000
MOST_AT_ONCE = 10_000  # wrong balances, in memory
EVERYTHING: Part = (MinKey(), MaxKey())


def find_problems(db: Db) -> Iterator[Problem]:
    """Everything that breaks an invariant now; live transfers are no problem.

    Raises: `SnapshotTooOld` where a single account has more entries than the server can add up in one snapshot.
    """
    db = pinned(db)
    yield from find_stuck(db)
    yield from told_each("accounts", queries.MALFORMED.find(db), _malformed_problem)
    yield from told_each("entries", _unbalanced(db), _unbalanced_problem)
    for wrong in _wrong_balances(db):
        doubted = _doubted(db, wrong)
        yield from told_each("accounts", wrong, partial(_unlike_problem, doubted=doubted))
    yield from map(_missing_problem, _missing(db))
    yield from told_each("accounts", queries.IMPOSSIBLE.find(db), _impossible_problem)
    # Read after the rest, or a run that ends just now would show.
    yield from find_orphans(db, MARKED_COLLECTIONS)


def _doubted(db: Db, accounts: Sequence[Document]) -> set[str]:
    """Those that have lost an entry, or have one too many: theirs cannot tell what they hold.

    Looked for after the balances were read, so that no entry is missing there that is not missed here.
    """
    named = (name for transfer in _unbalanced(db) for name in (*transfer["written"], *transfer["named"]))
    return {account["_id"] for account in accounts}.intersection(named)


def _entries_say(account: Document, doubted: set[str]) -> bool:
    """Whether the account's entries can be taken for what it holds."""
    return account["sum"] >= 0 and account["_id"] not in doubted


# ---- reading in parts ----


def _unbalanced(db: Db) -> Iterator[Document]:
    for part in _parts(db, "entries", ENTRIES_A_PART):
        yield from found(db, queries.UNBALANCED, part=part)


def _wrong_balances(db: Db) -> Iterator[list[Document]]:
    """As many at once as fit into memory."""
    wrong = (account for part in _parts(db, "accounts", ACCOUNTS_A_PART) for account in _unlike_entries(db, part))
    while batch := list(islice(wrong, MOST_AT_ONCE)):
        yield batch


def _unlike_entries(db: Db, part: Part) -> Iterator[Document]:
    """One by one where the accounts of the part are too much for one snapshot."""
    try:
        yield from found(db, queries.UNLIKE_ENTRIES, part=part)
    except SnapshotTooOld:
        after = part[0]
        for account in queries.ACCOUNT_IDS.find(db, part=part, projection={"_id": 1}):
            yield from _unlike_its_entries(db, after, account["_id"])
            after = account["_id"]


def _unlike_its_entries(db: Db, after: Any, account_id: Any) -> list[Document]:
    try:
        return found(db, queries.UNLIKE_ENTRIES, part=(after, account_id))
    except SnapshotTooOld as error:
        raise SnapshotTooOld(f"account {account_id} has too many entries for one snapshot: {ADVICE}") from error


def _missing(db: Db) -> Iterator[Document]:
    for part in _parts(db, "accounts", ACCOUNTS_A_PART):
        yield from found(db, queries.MISSING, part=part)


def _parts(db: Db, name: str, size: int) -> Iterator[Part]:
    """Parts with about `size` documents each, which together have all ids there can be."""
    after, last = EVERYTHING
    ids = db[name].find({}, {"_id": 1}).sort("_id", 1).hint("_id_").skip(size).limit(1)
    while found := next(ids.clone().min([("_id", after)]), None):
        end = _with_twin(found["_id"])
        yield after, end
        after = end
    yield after, last


def _with_twin(entry_id: object) -> object:
    """Behind both entries of a transfer, which follow each other."""
    if isinstance(entry_id, str) and entry_id.endswith("-in"):
        return entry_id.removesuffix("-in") + "-out"
    return entry_id


# ---- telling ----


def _malformed_problem(account: Document) -> Problem:
    return Problem(
        "malformed-account",
        f"account {account['_id']} lacks its name, currency, balance or opening time, or has them as something else",
        documents={"accounts": account["_id"]},
    )


def _unlike_problem(account: Document, *, doubted: set[str]) -> Problem:
    repairable = _entries_say(account, doubted)
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


def _missing_problem(account: Document) -> Problem:
    return Problem(
        "missing-account",
        f"account {account['_id']} is gone, though it has entries",
        documents={"accounts": account["_id"]},
    )


# ---- mending ----


def repair(db: Db) -> Counter[str]:
    """Settle unfinished transfers, drop orphan markers and stubs, and set each wrong balance to the sum of its entries.

    A balance stays as it is where an entry of one of the account's transfers is missing: a person must decide.

    Atomic: each account by itself, only where it is still as it was found.
    After a crash: run it again.
    Raises: `Unavailable`, as `find_problems` does.
    """
    db = pinned(db)
    done = Transactions(db).recover()
    done += drop_orphans(db, MARKED_COLLECTIONS)
    for wrong in _wrong_balances(db):
        doubted = _doubted(db, wrong)
        done["balances set"] += mended_each("accounts", wrong, partial(_set_balance, db, doubted=doubted))
    return +done


def _set_balance(db: Db, account: Document, *, doubted: set[str]) -> int:
    if not _entries_say(account, doubted):
        return 0
    unchanged = {"_id": account["_id"], "balance": account["balance"], **AT_REST}
    return db["accounts"].update_one(unchanged, {"$set": {"balance": account["sum"]}}).modified_count
