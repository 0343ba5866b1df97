"""The queries of the ledger, each declared once."""

from __future__ import annotations

from typing import Any

from squinney.ledger import documents
from squinney.mongo.queries import Pipeline, Query, problem_query
from squinney.mongo.schema import Document
from squinney.mongo.shapes import mismatches
from squinney.transactions import two_phase
from squinney.transactions.two_phase import STUB_FIELD, UNLOCKED, visible

ACCOUNT = Query(
    "ledger.account",
    "ledger.accounts",
    where=lambda account_id: visible({"_id": account_id}),
    example={"account_id": "a"},
)
SOME_ACCOUNTS = Query(
    "ledger.some-accounts",
    "ledger.accounts",
    where=lambda account_ids: visible({"_id": {"$in": account_ids}}),
    example={"account_ids": ["a", "b"]},
    routing="few",
    reason="the two accounts of a transfer, or those named in a statement, may be on several shards",
)
ACCOUNTS = Query(
    "ledger.accounts",
    "ledger.accounts",
    where=lambda: visible({}),
    sort=[("_id", 1)],
    routing="broadcast",
    reason="lists accounts from all shards, a page at a time",
)
ACCOUNTS_OF = Query(
    "ledger.accounts-of",
    "ledger.accounts",
    where=lambda owner: visible({"owner": owner}),
    example={"owner": "p"},
    sort=[("_id", 1)],
    routing="broadcast",
    reason="an owner's accounts are on all shards; they are listed a page at a time",
)
STATEMENT = Query(
    "ledger.statement",
    "ledger.entries",
    where=lambda account_id: visible({"account_id": account_id}),
    example={"account_id": "a"},
    # guard: a statement is sorted by the order in which the money moved
    sort=[("order", -1), ("_id", -1)],
)


# The balance of a damaged account may not be a number; it is left out.
_AS_DECIMAL = {"$convert": {"input": "$balance", "to": "decimal", "onError": None, "onNull": None}}


def _total(currency: str) -> list[Document]:
    """Sum balances as decimals: a sum of integers beyond int64 would become a float and be rounded."""
    return [
        # guard: an account that is being opened is not part of the total
        {"$match": visible({"currency": currency})},
        {"$group": {"_id": None, "total": {"$sum": _AS_DECIMAL}}},
    ]


TOTAL = Pipeline(
    "ledger.total",
    "ledger.accounts",
    stages=_total,
    example={"currency": "EUR"},
    routing="broadcast",
    reason="sums the accounts of a currency on all shards",
)


Part = tuple[Any, Any]  # a range of ids: greater than the first, up to and including the second


def _in(part: Part) -> Document:
    """Match ids of every type: a plain comparison would skip ids of another type than the bounds."""
    after, last = ({"$literal": bound} for bound in part)
    return {"$expr": {"$and": [{"$gt": ["$_id", after]}, {"$lte": ["$_id", last]}]}}


ACCOUNT_IDS = Query(
    "ledger.account-ids",
    "ledger.accounts",
    where=_in,
    example={"part": ("a", "b")},
    sort=[("_id", 1)],
    routing="broadcast",
    reason="find_problems() reads everything",
)


def _unlike_entries(part: Part) -> list[Document]:
    """Find accounts without a running transfer whose balance is not the sum of their entries."""
    entries_of_account: list[Any] = [
        {"$match": visible({"$expr": {"$eq": ["$account_id", "$$account"]}})},
        {"$group": {"_id": None, "sum": {"$sum": "$amount"}}},
    ]
    return [
        {"$match": {**_in(part), **UNLOCKED}},
        {
            "$lookup": {
                "from": "ledger.entries",
                "let": {"account": "$_id"},
                "pipeline": entries_of_account,
                "as": "entries",
            }
        },
        {"$set": {"sum": {"$ifNull": [{"$first": "$entries.sum"}, 0]}}},
        {"$match": {"$expr": {"$ne": ["$sum", "$balance"]}}},
        {"$project": {"balance": 1, "sum": 1}},
    ]


UNLIKE_ENTRIES = problem_query("ledger.unlike-entries", "ledger.accounts", _unlike_entries, {"part": ("a", "b")})


def _unbalanced(part: Part) -> list[Document]:
    """Find transfers that do not consist of two entries with the expected ids that add up to zero.

    Transfers whose entries include a stub are skipped: they are not over. The ids of a transfer's two entries are
    adjacent, so that a part contains both. An entry with an unexpected id may be in any part, and is reported for its
    id.
    """
    one_if_stub = {"$cond": [{"$eq": [{"$ifNull": [f"${STUB_FIELD}", None]}, None]}, 0, 1]}
    transfer_id = {"$convert": {"input": "$transfer_id", "to": "string", "onError": ""}}
    own_ids = [{"$concat": [transfer_id, side]} for side in ("-in", "-out")]
    one_if_unexpected = {"$cond": [{"$in": ["$_id", own_ids]}, 0, 1]}
    counts = {
        "sum": {"$sum": "$amount"},
        "entries": {"$sum": 1},
        "stubs": {"$sum": one_if_stub},
        "unexpected": {"$sum": one_if_unexpected},
    }
    accounts = {"written": {"$addToSet": "$account_id"}, "named": {"$addToSet": "$other_id"}}
    wrong = [{"sum": {"$ne": 0}}, {"entries": {"$ne": 2}}, {"unexpected": {"$gt": 0}}]
    return [
        {"$match": {**_in(part), "transfer_id": {"$ne": None}}},
        {"$group": {"_id": "$transfer_id", **counts, **accounts}},
        {"$match": {"stubs": 0, "$or": wrong}},
    ]


UNBALANCED = problem_query("ledger.unbalanced", "ledger.entries", _unbalanced, {"part": ("a", "b")})


def _missing(part: Part) -> list[Document]:
    """Find accounts that do not exist although they have entries.

    `account_id` is always a string, so a plain comparison is enough, which the server answers from the index alone.
    """
    after, last = part
    entry_of_account: list[Any] = [
        {"$match": visible({"$expr": {"$eq": ["$account_id", "$$account"]}})},
        {"$limit": 1},
    ]
    return [
        {"$match": {"account_id": {"$gt": after, "$not": {"$gt": last}}}},
        {"$group": {"_id": "$account_id"}},
        {"$lookup": {"from": "ledger.accounts", "localField": "_id", "foreignField": "_id", "as": "accounts"}},
        {"$match": {"accounts": []}},
        {
            "$lookup": {
                "from": "ledger.entries",
                "let": {"account": "$_id"},
                "pipeline": entry_of_account,
                "as": "entries",
            }
        },
        {"$match": {"entries": {"$ne": []}}},
        {"$project": {"_id": 1}},
    ]


MISSING = problem_query("ledger.missing", "ledger.entries", _missing, {"part": ("a", "b")})
IMPOSSIBLE = Query(
    "ledger.impossible",
    "ledger.accounts",
    where=lambda: {"$or": [{"balance": {"$lt": 0}}, {"closed_at": {"$ne": None}, "balance": {"$ne": 0}}]},
    routing="broadcast",
    reason="find_problems() reads everything",
)

MALFORMED = Query(
    "ledger.malformed",
    "ledger.accounts",
    where=lambda: visible({"$or": mismatches(documents.ACCOUNT)}),
    routing="broadcast",
    reason="find_problems() reads everything",
)

QUERIES: list[Query | Pipeline] = [ACCOUNT, SOME_ACCOUNTS, ACCOUNTS, ACCOUNTS_OF, STATEMENT, TOTAL, *two_phase.QUERIES]
