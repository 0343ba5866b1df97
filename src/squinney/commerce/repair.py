"""What can be wrong in a shop, found and mended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from squinney.commerce.carts import repair as cart_repair
from squinney.commerce.catalog import repair as catalog_repair
from squinney.commerce.categories import repair as tree_repair
from squinney.mongo.pinned import pinned
from squinney.mongo.problems import Problem, mend, problems
from squinney.mongo.schema import Db
from squinney.transactions import Transactions, drop_orphans, find_orphans, find_stuck

MARKED = ("stock", "movements", "carts", "reservations", "payments", "orders", "products")
CHECKS = [*cart_repair.CHECKS, *tree_repair.CHECKS, *catalog_repair.CHECKS]


def find_problems(db: Db) -> Iterator[Problem]:
    """Everything that breaks an invariant now; each check reads one snapshot, so live operations are no problem.

    Raises: `SnapshotTooOld`, `Unavailable`.
    """
    db = pinned(db)
    yield from find_stuck(db)
    yield from tree_repair.find_problems(db)
    yield from problems(db, CHECKS)
    yield from find_orphans(db, MARKED)  # after the rest, or a run that ends just now would show


def repair(db: Db) -> Counter[str]:
    """Settle unfinished runs and mend what `find_problems` calls repairable.

    Atomic: each document by itself, only where it is still as it was found; the category tree in one transaction.
    After a crash: run it again.
    """
    db = pinned(db)
    done = Transactions(db).recover() + drop_orphans(db, MARKED) + tree_repair.repair(db)
    return done + mend(db, CHECKS)
