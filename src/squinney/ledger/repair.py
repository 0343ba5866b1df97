"""Finds and repairs problems of a ledger. The entries are the source of truth; balances are derived from them.

A server keeps a snapshot for a few minutes, but reading a ledger may take hours. So it is read in parts, each in its
own snapshot: an account with all its entries, or a transfer with both of its entries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from bson.max_key import MaxKey
from bson.min_key import MinKey

from squinney.ledger import queries
from squinney.ledger.protocol import TWO_PHASE, protocol_of
from squinney.ledger.queries import Part
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.problems import ADVICE, Check, Problem, SnapshotTooOld, problems, read_findings, repair_problems
from squinney.mongo.schema import Db, Document
from squinney.transactions.two_phase import UNLOCKED, drop_orphans, find_orphans, find_stuck, recover

HELD_COLLECTIONS = ["ledger.accounts", "ledger.entries"]
ACCOUNTS_A_PART = 100  # each with all its entries
ENTRIES_A_PART = 20_000
MAX_AT_ONCE = 10_000  # wrong balances held in memory
EVERYTHING: Part = (MinKey(), MaxKey())


def find_problems(db: Db) -> Iterator[Problem]:
    """Find everything that violates an invariant. Running transfers are not problems.

    Raises: `SnapshotTooOld` if one account has more entries than the server can sum in one snapshot.
    """
    db = pinned(db)
    is_two_phase = protocol_of(db) == TWO_PHASE
    if is_two_phase:
        yield from find_stuck(db)
    yield from problems(db, CHECKS)
    if is_two_phase:  # last, because the lock of a run that ends during the checks is not an orphan
        yield from find_orphans(db, HELD_COLLECTIONS)


def _with_doubtful_entries(db: Db, accounts: Sequence[Document]) -> set[str]:
    """Return the ids of accounts with a missing or superfluous entry: their entries do not determine the balance.

    This runs after the balances were read, so that it sees every entry that was already missing then.
    """
    named = (name for transfer in _unbalanced(db) for name in (*transfer["written"], *transfer["named"]))
    return {account["_id"] for account in accounts}.intersection(named)


# ---- reading in parts ----


def _unbalanced(db: Db) -> Iterator[Document]:
    for part in _parts(db, "ledger.entries", ENTRIES_A_PART):
        yield from read_findings(db, queries.UNBALANCED, part=part)


def _wrong_balances(db: Db) -> Iterator[Document]:
    """Yield accounts with a wrong balance, in batches; `doubted` is set if the entries are in doubt too."""
    wrong = (
        account for part in _parts(db, "ledger.accounts", ACCOUNTS_A_PART) for account in _unlike_entries(db, part)
    )
    while batch := list(islice(wrong, MAX_AT_ONCE)):
        doubted = _with_doubtful_entries(db, batch)
        yield from ({**account, "doubted": account["_id"] in doubted} for account in batch)


def _unlike_entries(db: Db, part: Part) -> Iterator[Document]:
    """Check the accounts of a part; if they take too long for one snapshot, check them one by one."""
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
    for part in _parts(db, "ledger.accounts", ACCOUNTS_A_PART):
        yield from read_findings(db, queries.MISSING, part=part)


def _parts(db: Db, name: str, size: int) -> Iterator[Part]:
    """Split all possible ids into parts with about `size` documents each."""
    after, last = EVERYTHING
    ids = db[name].find({}, {"_id": 1}).sort("_id", 1).hint("_id_").skip(size).limit(1)
    while entry := next(ids.clone().min([("_id", after)]), None):
        # guard: a part contains both entries of a transfer
        end = _after_transfer(entry["_id"])
        yield after, end
        after = end
    yield after, last


def _after_transfer(entry_id: object) -> object:
    """Return the last id of a transfer's two adjacent entries, so that a part contains both."""
    if isinstance(entry_id, str) and entry_id.endswith("-in"):
        return entry_id.removesuffix("-in") + "-out"
    return entry_id


# ---- repairing ----


@operation(None)
def repair(db: Db) -> Counter[str]:
    """Set each wrong balance to the sum of its entries; in a two-phase ledger, first settle unfinished transfers.

    If an entry of one of the account's transfers is missing, the balance is not changed: a person must decide.

    Atomic: each account separately, if it has not changed since it was read.
    After a crash: run it again.
    Raises: `Unavailable`, `SnapshotTooOld`.
    """
    db = pinned(db)
    done: Counter[str] = Counter()
    if protocol_of(db) == TWO_PHASE:
        done = recover(db) + drop_orphans(db, HELD_COLLECTIONS)
    return +(done + repair_problems(db, CHECKS))


def _set_balance(db: Db, account: Document) -> int:
    # guard: repair does not overwrite a balance that has changed
    unchanged = {"_id": account["_id"], "balance": account["balance"], **UNLOCKED}
    return db["ledger.accounts"].update_one(unchanged, {"$set": {"balance": account["sum"]}}).modified_count


def _impossible(db: Db) -> Iterator[Document]:
    """Yield accounts with an impossible balance, except those whose balance is not a number: they are malformed."""
    return (account for account in queries.IMPOSSIBLE.find(db) if isinstance(account.get("balance"), int))


CHECKS = [
    Check(
        "malformed-account",
        queries.MALFORMED.find,
        "account {_id} has a missing or malformed name, currency, balance or opening time",
        collection="ledger.accounts",
    ),
    Check(
        "unbalanced-transfer",
        _unbalanced,
        "transfer {_id} has {entries} entries that add up to {sum}",
        collection="ledger.entries",
    ),
    Check(
        "wrong-balance",
        _wrong_balances,
        "account {_id} has the balance {balance}, but its entries add up to {sum}",
        repair=_set_balance,
        # guard: repair does not set a balance if an entry is missing
        # guard: repair does not set a negative balance
        repairable=lambda account: account["sum"] >= 0 and not account["doubted"],
        counted_as="balances set",
        collection="ledger.accounts",
    ),
    Check("missing-account", _missing, "account {_id} has entries but does not exist", collection="ledger.accounts"),
    Check(
        "negative-balance",
        lambda db: (account for account in _impossible(db) if account["balance"] < 0),
        "account {_id} has the negative balance {balance}",
        collection="ledger.accounts",
    ),
    Check(
        "closed-with-money",
        lambda db: (account for account in _impossible(db) if account["balance"] >= 0),
        "account {_id} is closed but has the balance {balance}",
        collection="ledger.accounts",
    ),
]
