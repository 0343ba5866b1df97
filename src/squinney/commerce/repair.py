"""Finds and repairs everything that can be wrong in the shop's stored data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from squinney.commerce import cross_checks
from squinney.commerce.catalog import repair as catalog_repair
from squinney.commerce.categories import repair as tree_repair
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.problems import Problem, problems, repair_problems
from squinney.mongo.schema import Db

CHECKS = [*cross_checks.CHECKS, *tree_repair.CHECKS, *catalog_repair.CHECKS]


def find_problems(db: Db) -> Iterator[Problem]:
    """Yield every violated invariant. Each check reads one snapshot, so concurrent operations cause no false reports.

    Raises: `SnapshotTooOld`, `Unavailable`.
    """
    db = pinned(db)
    yield from tree_repair.find_problems(db)
    yield from problems(db, CHECKS)


@operation(None)
def repair(db: Db) -> Counter[str]:
    """Repair what `find_problems` reports as repairable; return counts.

    Atomic: each document separately, only if it has not changed since it was read; the category tree in one
    transaction.
    After a crash: call it again.
    """
    db = pinned(db)
    return tree_repair.repair(db) + repair_problems(db, CHECKS)
