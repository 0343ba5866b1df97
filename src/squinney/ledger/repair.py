"""What can be wrong in a ledger, found and mended. The entries are the record; balances follow from them.

A server remembers a snapshot for some minutes, and a ledger may take hours to read. So it is read in parts, each in a
snapshot of its own: an account with all its entries, a transfer with both of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from bson.max_key import MaxKey
from bson.min_key import MinKey

from squinney.ledger import queries
from squinney.ledger.queries import Part
from squinney.mongo.pinned import pinned
from squinney.mongo.problems import ADVICE, Check, Problem, SnapshotTooOld, problems, read_findings, repair_problems
from squinney.mongo.schema import Db, Document
from squinney.transactions import UNLOCKED, Transactions, drop_orphans, find_orphans, find_stuck

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
    yield from problems(db, CHECKS)
    # Read after the rest, or a run that ends just now would show.
    yield from find_orphans(db, MARKED_COLLECTIONS)


def _doubted(db: Db, accounts: Sequence[Document]) -> set[str]:
    """Those that have lost an entry, or have one too many: theirs cannot tell what they hold.

    Looked for after the balances were read, so that no entry is missing there that is not missed here.
    """
    named = (name for transfer in _unbalanced(db) for name in (*transfer["written"], *transfer["named"]))
    return {account["_id"] for account in accounts}.intersection(named)


# ---- reading in parts ----


def _unbalanced(db: Db) -> Iterator[Document]:
    for part in _parts(db, "entries", ENTRIES_A_PART):
        yield from read_findings(db, queries.UNBALANCED, part=part)


def _wrong_balances(db: Db) -> Iterator[Document]:
    """Each with whether its entries are in doubt; looked at together are as many as fit into memory."""
    wrong = (account for part in _parts(db, "accounts", ACCOUNTS_A_PART) for account in _unlike_entries(db, part))
    while batch := list(islice(wrong, MOST_AT_ONCE)):
        doubted = _doubted(db, batch)
        yield from ({**account, "doubted": account["_id"] in doubted} for account in batch)


def _unlike_entries(db: Db, part: Part) -> Iterator[Document]:
    """One by one where the accounts of the part are too much for one snapshot."""
    try:
        yield from read_findings(db, queries.UNLIKE_ENTRIES, part=part)
    except SnapshotTooOld:
        after = part[0]
        for account in queries.ACCOUNT_IDS.find(db, part=part, projection={"_id": 1}):
            yield from _unlike_its_entries(db, after, account["_id"])
            after = account["_id"]


def _unlike_its_entries(db: Db, after: Any, account_id: Any) -> list[Document]:
    try:
        return read_findings(db, queries.UNLIKE_ENTRIES, part=(after, account_id))
    except SnapshotTooOld as error:
        raise SnapshotTooOld(f"account {account_id} has too many entries for one snapshot: {ADVICE}") from error


def _missing(db: Db) -> Iterator[Document]:
    for part in _parts(db, "accounts", ACCOUNTS_A_PART):
        yield from read_findings(db, queries.MISSING, part=part)


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
    return +(done + repair_problems(db, CHECKS))


def _set_balance(db: Db, account: Document) -> int:
    unchanged = {"_id": account["_id"], "balance": account["balance"], **UNLOCKED}
    return db["accounts"].update_one(unchanged, {"$set": {"balance": account["sum"]}}).modified_count


def _impossible(db: Db) -> Iterator[Document]:
    """Without those whose balance is no number, which are malformed."""
    return (account for account in queries.IMPOSSIBLE.find(db) if isinstance(account.get("balance"), int))


CHECKS = [
    Check(
        "malformed-account",
        queries.MALFORMED.find,
        "account {_id} lacks its name, currency, balance or opening time, or has them as something else",
        collection="accounts",
    ),
    Check(
        "unbalanced-transfer",
        _unbalanced,
        "transfer {_id} has {entries} entries that add up to {sum}",
        collection="entries",
    ),
    Check(
        "wrong-balance",
        _wrong_balances,
        "account {_id} says {balance}, its entries add up to {sum}",
        repair=_set_balance,
        repairable=lambda account: account["sum"] >= 0 and not account["doubted"],
        counted_as="balances set",
        collection="accounts",
    ),
    Check("missing-account", _missing, "account {_id} is gone, though it has entries", collection="accounts"),
    Check(
        "negative-balance",
        lambda db: (account for account in _impossible(db) if account["balance"] < 0),
        "account {_id} holds {balance}",
        collection="accounts",
    ),
    Check(
        "closed-with-money",
        lambda db: (account for account in _impossible(db) if account["balance"] >= 0),
        "account {_id} is closed and holds {balance}",
        collection="accounts",
    ),
]
