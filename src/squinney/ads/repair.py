"""What can be wrong in the network's data, found and mended. The counters are the record of what was spent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from squinney.ads import queries
from squinney.mongo.pinned import pinned
from squinney.mongo.problems import Check, Problem, problems, read_findings, repair_problems
from squinney.mongo.schema import Db, Document
from squinney.transactions import Transactions, drop_orphans, find_orphans, find_stuck

MARKED_COLLECTIONS = ["ad_campaigns", "ad_budgets"]


def find_problems(db: Db) -> Iterator[Problem]:
    """Everything that breaks an invariant now; what is under way is no problem.

    Raises: `SnapshotTooOld`.
    """
    db = pinned(db)
    yield from find_stuck(db)
    yield from problems(db, CHECKS)
    yield from find_orphans(db, MARKED_COLLECTIONS)


def repair(db: Db) -> Counter[str]:
    """Settle unfinished runs, and set what is spent to the counters' sum and what is committed to that and the leases'.

    Atomic: each budget by itself, only where it is still as it was found.
    After a crash: run it again.
    Raises: `Unavailable`, as `find_problems` does.
    """
    db = pinned(db)
    done = Transactions(db).recover()
    done += drop_orphans(db, MARKED_COLLECTIONS)
    return +(done + repair_problems(db, CHECKS))


def _budgets(is_wrong: Callable[[Document], bool]) -> Callable[[Db], Iterator[Document]]:
    return lambda db: (budget for budget in read_findings(db, queries.WRONG_SUMS) if is_wrong(budget))


def _set(db: Db, budget: Document) -> int:
    unchanged = {name: budget[name] for name in ("_id", "spent", "committed")}
    right = {"spent": budget["spend"], "committed": budget["spend"] + budget["amount"]}
    return db["ad_budgets"].update_one(unchanged, {"$set": right}).modified_count


CHECKS = [
    Check(
        "wrong-spend",
        _budgets(lambda budget: budget["spent"] != budget["spend"]),
        "{_id} has spent {spent}, its counters add up to {spend}",
        repair=_set,
        counted_as="budgets set",
        collection="ad_budgets",
    ),
    Check(
        "wrong-commitment",
        _budgets(lambda budget: budget["committed"] != budget["spent"] + budget["amount"]),
        "{_id} has {committed} committed, {spent} spent, {amount} leased",
        repair=_set,
        counted_as="budgets set",
        collection="ad_budgets",
    ),
    Check(
        "over-budget",
        _budgets(lambda budget: budget["total"] is None or budget["committed"] > budget["total"]),
        "{_id} has {committed} committed of {total}",
        collection="ad_budgets",
    ),
    Check(
        "lost-placement",
        lambda db: read_findings(db, queries.LOST_PLACEMENTS),
        "an ad of {campaign_id}, which is no campaign, is in a zone",
        collection="ad_placements",
    ),
]
