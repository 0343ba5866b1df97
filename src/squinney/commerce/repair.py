"""Finds and repairs everything that can be wrong in the shop's stored data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from squinney.commerce.carts import repair as cart_repair
from squinney.commerce.catalog import repair as catalog_repair
from squinney.commerce.categories import repair as tree_repair
from squinney.mongo.pinned import pinned
from squinney.mongo.problems import Problem, problems, repair_problems
from squinney.mongo.schema import Db
from squinney.transactions import Transactions, drop_orphans, find_orphans, find_stuck

MARKED = ("stock", "movements", "carts", "reservations", "payments", "orders", "products")
CHECKS = [*cart_repair.CHECKS, *tree_repair.CHECKS, *catalog_repair.CHECKS]


def find_problems(db: Db) -> Iterator[Problem]:
    """Yield every violated invariant. Each check reads one snapshot, so concurrent operations cause no false reports.

    Raises: `SnapshotTooOld`, `Unavailable`.
    """
    db = pinned(db)
    yield from find_stuck(db)
    yield from tree_repair.find_problems(db)
    yield from problems(db, CHECKS)
    yield from find_orphans(db, MARKED)  # last, so that runs which finish during the checks are not reported


def repair(db: Db) -> Counter[str]:
    """Settle unfinished runs and repair what `find_problems` reports as repairable; return counts.

    Atomic: each document separately, only if it has not changed since it was read; the category tree in one
    transaction.
    After a crash: call it again.
    """
    db = pinned(db)
    done = Transactions(db).recover() + drop_orphans(db, MARKED) + tree_repair.repair(db)
    return done + repair_problems(db, CHECKS)
