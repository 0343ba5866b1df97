"""What can be wrong in the network's data, found and mended. The counters are the record of what was spent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from squinney.ads import queries
from squinney.mongo.pinned import pinned
from squinney.mongo.problems import Problem, found
from squinney.mongo.schema import Db, Document
from squinney.transactions import Transactions, drop_orphans, find_orphans, find_stuck

MARKED_COLLECTIONS = ["ad_campaigns", "ad_budgets"]


def find_problems(db: Db) -> Iterator[Problem]:
    """Everything that breaks an invariant now; what is under way is no problem.

    Raises: `SnapshotTooOld`.
    """
    db = pinned(db)
    yield from find_stuck(db)
    for budget in found(db, queries.WRONG_SUMS):
        yield from _wrong(budget)
    for placement in found(db, queries.LOST_PLACEMENTS):
        yield Problem(
            "lost-placement",
            f"an ad of {placement['campaign_id']}, which is no campaign, is in a zone",
            documents={"ad_placements": placement["_id"]},
        )
    yield from find_orphans(db, MARKED_COLLECTIONS)


def _wrong(budget: Document) -> Iterator[Problem]:
    where = {"ad_budgets": budget["_id"]}
    if budget["spent"] != budget["spend"]:
        message = f"{budget['_id']} has spent {budget['spent']}, its counters add up to {budget['spend']}"
        yield Problem("wrong-spend", message, documents=where, repairable=True)
    if budget["committed"] != budget["spent"] + budget["amount"]:
        message = (
            f"{budget['_id']} has {budget['committed']} committed, {budget['spent']} spent, {budget['amount']} leased"
        )
        yield Problem("wrong-commitment", message, documents=where, repairable=True)
    if budget["committed"] > budget["total"]:
        message = f"{budget['_id']} has {budget['committed']} committed of {budget['total']}"
        yield Problem("over-budget", message, documents=where)


def repair(db: Db) -> Counter[str]:
    """Settle unfinished runs, and set what is spent to the counters' sum and what is committed to that and the leases'.

    Atomic: each budget by itself, only where it is still as it was found.
    After a crash: run it again.
    Raises: `Unavailable`, as `find_problems` does.
    """
    db = pinned(db)
    done = Transactions(db).recover()
    done += drop_orphans(db, MARKED_COLLECTIONS)
    for budget in found(db, queries.WRONG_SUMS):
        unchanged = {name: budget[name] for name in ("_id", "spent", "committed")}
        right = {"spent": budget["spend"], "committed": budget["spend"] + budget["amount"]}
        if any(budget[name] != right[name] for name in right):
            done["budgets set"] += db["ad_budgets"].update_one(unchanged, {"$set": right}).modified_count
    return +done
