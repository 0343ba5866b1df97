"""Every query of the ledger, named once."""

from __future__ import annotations

from typing import Any

from squinney.mongo.queries import Pipeline, Query
from squinney.mongo.schema import Document
from squinney.patterns.transactions import visible

ACCOUNT = Query(
    "ledger.account",
    "accounts",
    where=lambda account_id: visible({"_id": account_id}),
    example={"account_id": "a"},
)
CURRENCIES = Query(
    "ledger.currencies",
    "accounts",
    where=lambda account_ids: {"_id": {"$in": account_ids}, "txn_stub": None},
    example={"account_ids": ["a", "b"]},
    routing="few",
    reason="the two accounts of a transfer may live on two shards",
)
ACCOUNTS = Query(
    "ledger.accounts",
    "accounts",
    where=lambda: visible({}),
    sort=[("_id", 1)],
    routing="broadcast",
    reason="lists accounts of all shards, a page at a time",
)
STATEMENT = Query(
    "ledger.statement",
    "entries",
    where=lambda account_id: visible({"account_id": account_id}),
    example={"account_id": "a"},
    sort=[("at", -1), ("_id", -1)],
)


def _total(currency: str) -> list[Document]:
    return [
        {"$match": visible({"currency": currency})},
        {"$group": {"_id": None, "total": {"$sum": "$balance"}, "accounts": {"$sum": 1}}},
    ]


TOTAL = Pipeline(
    "ledger.total",
    "accounts",
    stages=_total,
    example={"currency": "EUR"},
    routing="broadcast",
    reason="sums every account of a currency, wherever it lives",
)


def _unlike_entries() -> list[Document]:
    """Accounts at rest whose balance is not the sum of their entries."""
    entries_of_account: list[Any] = [
        {"$match": {"$expr": {"$eq": ["$account_id", "$$account"]}, "txn_stub": None}},
        {"$group": {"_id": None, "sum": {"$sum": "$amount"}}},
    ]
    return [
        {"$match": {"txns.0": {"$exists": False}, "txn_lock": None}},
        {"$lookup": {"from": "entries", "let": {"account": "$_id"}, "pipeline": entries_of_account, "as": "entries"}},
        {"$set": {"sum": {"$ifNull": [{"$first": "$entries.sum"}, 0]}}},
        {"$match": {"$expr": {"$ne": ["$sum", "$balance"]}}},
        {"$project": {"balance": 1, "sum": 1}},
    ]


UNLIKE_ENTRIES = Pipeline(
    "ledger.unlike-entries",
    "accounts",
    stages=_unlike_entries,
    routing="broadcast",
    reason="find_problems() reads everything",
)


def _unbalanced() -> list[Document]:
    """Transfers whose two entries do not cancel out; those that come to light one by one just now do as well."""
    one_if_stub = {"$cond": [{"$eq": [{"$ifNull": ["$txn_stub", None]}, None]}, 0, 1]}
    counts = {"sum": {"$sum": "$amount"}, "entries": {"$sum": 1}, "stubs": {"$sum": one_if_stub}}
    accounts = {"written": {"$addToSet": "$account_id"}, "named": {"$addToSet": "$other_id"}}
    return [
        {"$match": {"transfer_id": {"$ne": None}}},
        {"$group": {"_id": "$transfer_id", **counts, **accounts}},
        {"$match": {"stubs": 0, "$or": [{"sum": {"$ne": 0}}, {"entries": {"$ne": 2}}]}},
    ]


UNBALANCED = Pipeline(
    "ledger.unbalanced",
    "entries",
    stages=_unbalanced,
    routing="broadcast",
    reason="find_problems() reads everything",
)
IMPOSSIBLE = Query(
    "ledger.impossible",
    "accounts",
    where=lambda: {"$or": [{"balance": {"$lt": 0}}, {"closed_at": {"$ne": None}, "balance": {"$ne": 0}}]},
    routing="broadcast",
    reason="find_problems() reads everything",
)

QUERIES: list[Query | Pipeline] = [ACCOUNT, CURRENCIES, ACCOUNTS, STATEMENT, TOTAL]
CHECKS: list[Query | Pipeline] = [UNLIKE_ENTRIES, UNBALANCED, IMPOSSIBLE]
