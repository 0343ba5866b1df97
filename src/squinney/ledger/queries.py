"""Every query of the ledger, named once."""

from __future__ import annotations

from typing import Any

from squinney.ledger import documents
from squinney.mongo.queries import Pipeline, Query, problem_query
from squinney.mongo.schema import Document
from squinney.mongo.shapes import mismatches
from squinney.transactions import UNLOCKED, visible

ACCOUNT = Query(
    "ledger.account",
    "accounts",
    where=lambda account_id: visible({"_id": account_id}),
    example={"account_id": "a"},
)
SOME_ACCOUNTS = Query(
    "ledger.some-accounts",
    "accounts",
    where=lambda account_ids: visible({"_id": {"$in": account_ids}}),
    example={"account_ids": ["a", "b"]},
    routing="few",
    reason="the two accounts of a transfer, or those that a statement names, may live on several shards",
)
ACCOUNTS = Query(
    "ledger.accounts",
    "accounts",
    where=lambda: visible({}),
    sort=[("_id", 1)],
    routing="broadcast",
    reason="lists accounts of all shards, a page at a time",
)
ACCOUNTS_OF = Query(
    "ledger.accounts-of",
    "accounts",
    where=lambda owner: visible({"owner": owner}),
    example={"owner": "p"},
    sort=[("_id", 1)],
    routing="broadcast",
    reason="an owner's accounts lie on all shards; they are listed a page at a time",
)
STATEMENT = Query(
    "ledger.statement",
    "entries",
    where=lambda account_id: visible({"account_id": account_id}),
    example={"account_id": "a"},
    sort=[("at", -1), ("_id", -1)],
)


# What is no number, in a damaged account, is left out.
_AS_DECIMAL = {"$convert": {"input": "$balance", "to": "decimal", "onError": None, "onNull": None}}


def _total(currency: str) -> list[Document]:
    """As a decimal: a sum of whole numbers that outgrows them would become a float, and be rounded."""
    return [
        {"$match": visible({"currency": currency})},
        {"$group": {"_id": None, "total": {"$sum": _AS_DECIMAL}}},
    ]


TOTAL = Pipeline(
    "ledger.total",
    "accounts",
    stages=_total,
    example={"currency": "EUR"},
    routing="broadcast",
    reason="sums every account of a currency, wherever it lives",
)


Part = tuple[Any, Any]  # of ids: behind the first, up to the second


def _in(part: Part) -> Document:
    """Ids of every type: a plain comparison passes over those of another type than its bounds."""
    after, last = ({"$literal": bound} for bound in part)
    return {"$expr": {"$and": [{"$gt": ["$_id", after]}, {"$lte": ["$_id", last]}]}}


ACCOUNT_IDS = Query(
    "ledger.account-ids",
    "accounts",
    where=_in,
    example={"part": ("a", "b")},
    sort=[("_id", 1)],
    routing="broadcast",
    reason="find_problems() reads everything",
)


def _unlike_entries(part: Part) -> list[Document]:
    """Accounts at rest whose balance is not the sum of their entries."""
    entries_of_account: list[Any] = [
        {"$match": {"$expr": {"$eq": ["$account_id", "$$account"]}, "txn_stub": None}},
        {"$group": {"_id": None, "sum": {"$sum": "$amount"}}},
    ]
    return [
        {"$match": {**_in(part), **UNLOCKED}},
        {"$lookup": {"from": "entries", "let": {"account": "$_id"}, "pipeline": entries_of_account, "as": "entries"}},
        {"$set": {"sum": {"$ifNull": [{"$first": "$entries.sum"}, 0]}}},
        {"$match": {"$expr": {"$ne": ["$sum", "$balance"]}}},
        {"$project": {"balance": 1, "sum": 1}},
    ]


UNLIKE_ENTRIES = problem_query("ledger.unlike-entries", "accounts", _unlike_entries, {"part": ("a", "b")})


def _unbalanced(part: Part) -> list[Document]:
    """Transfers that are not two entries, under the two ids that are theirs, which cancel out.

    Those that come to light one by one just now do as well. By their ids a transfer's entries lie next to each other,
    so that a part has both; one under another id, which may lie in any part, is told by that.
    """
    one_if_stub = {"$cond": [{"$eq": [{"$ifNull": ["$txn_stub", None]}, None]}, 0, 1]}
    transfer_id = {"$convert": {"input": "$transfer_id", "to": "string", "onError": ""}}
    own_ids = [{"$concat": [transfer_id, side]} for side in ("-in", "-out")]
    one_if_alien = {"$cond": [{"$in": ["$_id", own_ids]}, 0, 1]}
    counts = {
        "sum": {"$sum": "$amount"},
        "entries": {"$sum": 1},
        "stubs": {"$sum": one_if_stub},
        "aliens": {"$sum": one_if_alien},
    }
    accounts = {"written": {"$addToSet": "$account_id"}, "named": {"$addToSet": "$other_id"}}
    wrong = [{"sum": {"$ne": 0}}, {"entries": {"$ne": 2}}, {"aliens": {"$gt": 0}}]
    return [
        {"$match": {**_in(part), "transfer_id": {"$ne": None}}},
        {"$group": {"_id": "$transfer_id", **counts, **accounts}},
        {"$match": {"stubs": 0, "$or": wrong}},
    ]


UNBALANCED = problem_query("ledger.unbalanced", "entries", _unbalanced, {"part": ("a", "b")})


def _missing(part: Part) -> list[Document]:
    """Accounts that are gone though their entries are there. Entries name them by texts, so a plain comparison will do,
    for which the server reads the index alone."""
    after, last = part
    entry_of_account: list[Any] = [
        {"$match": {"$expr": {"$eq": ["$account_id", "$$account"]}, "txn_stub": None}},
        {"$limit": 1},
    ]
    return [
        {"$match": {"account_id": {"$gt": after, "$not": {"$gt": last}}}},
        {"$group": {"_id": "$account_id"}},
        {"$lookup": {"from": "accounts", "localField": "_id", "foreignField": "_id", "as": "accounts"}},
        {"$match": {"accounts": []}},
        {"$lookup": {"from": "entries", "let": {"account": "$_id"}, "pipeline": entry_of_account, "as": "entries"}},
        {"$match": {"entries": {"$ne": []}}},
        {"$project": {"_id": 1}},
    ]


MISSING = problem_query("ledger.missing", "entries", _missing, {"part": ("a", "b")})
IMPOSSIBLE = Query(
    "ledger.impossible",
    "accounts",
    where=lambda: {"$or": [{"balance": {"$lt": 0}}, {"closed_at": {"$ne": None}, "balance": {"$ne": 0}}]},
    routing="broadcast",
    reason="find_problems() reads everything",
)

MALFORMED = Query(
    "ledger.malformed",
    "accounts",
    where=lambda: visible({"$or": mismatches(documents.ACCOUNT)}),
    routing="broadcast",
    reason="find_problems() reads everything",
)

QUERIES: list[Query | Pipeline] = [ACCOUNT, SOME_ACCOUNTS, ACCOUNTS, ACCOUNTS_OF, STATEMENT, TOTAL]
