"""Find and repair wrong budgets. The counters are the record of what was spent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from squinney.ads import queries
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.problems import Check, Problem, problems, read_findings, repair_problems
from squinney.mongo.schema import Db, Document


def find_problems(db: Db) -> Iterator[Problem]:
    """Find everything that breaks an invariant. Operations under way are not reported.

    Raises: `SnapshotTooOld`.
    """
    db = pinned(db)
    yield from problems(db, CHECKS)


@operation(None)
def repair(db: Db) -> Counter[str]:
    """Set `spent` to the sum of the counters, and `committed` to `spent` plus the leases.

    Atomic: each budget separately, and only if it has not changed since it was found.
    After a crash: some budgets are repaired; run it again.
    Raises: `Unavailable`, as `find_problems` does.
    """
    db = pinned(db)
    return +repair_problems(db, CHECKS)


def _budgets(is_wrong: Callable[[Document], bool]) -> Callable[[Db], Iterator[Document]]:
    return lambda db: (budget for budget in read_findings(db, queries.WRONG_SUMS) if is_wrong(budget))


def _set(db: Db, budget: Document) -> int:
    unchanged = {name: budget[name] for name in ("_id", "spent", "committed")}
    right = {"spent": budget["spend"], "committed": budget["spend"] + budget["amount"]}
    return db["ads.budgets"].update_one(unchanged, {"$set": right}).modified_count


CHECKS = [
    Check(
        "wrong-spend",
        _budgets(lambda budget: budget["spent"] != budget["spend"]),
        "campaign {_id} has {spent} spent, but its counters add up to {spend}",
        repair=_set,
        counted_as="budgets set",
        collection="ads.budgets",
    ),
    Check(
        "wrong-commitment",
        _budgets(lambda budget: budget["committed"] != budget["spent"] + budget["amount"]),
        "campaign {_id} has {committed} committed, but {spent} spent and {amount} leased",
        repair=_set,
        counted_as="budgets set",
        collection="ads.budgets",
    ),
    Check(
        "over-budget",
        _budgets(lambda budget: budget["total"] is None or budget["committed"] > budget["total"]),
        "campaign {_id} has {committed} committed, more than its total of {total}",
        collection="ads.budgets",
    ),
    Check(
        "lost-placement",
        lambda db: read_findings(db, queries.LOST_PLACEMENTS),
        "an ad in a zone belongs to {campaign_id}, but there is no such campaign",
        collection="ads.placements",
    ),
]
