"""What can be wrong with polls, found and mended: the votes are the record, the counts follow from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from polls import queries
from squinney.mongo.problems import Check, Problem, problems, repair_problems
from squinney.mongo.schema import Db, Document
from squinney.transactions import UNLOCKED


def find_problems(db: Db) -> Iterator[Problem]:
    """Polls whose counts are not those of their votes."""
    return problems(db, CHECKS)


def repair(db: Db) -> Counter[str]:
    """Count again.

    Atomic: each poll by itself, where it is still as it was found.
    After a crash: run it again.
    """
    return +repair_problems(db, CHECKS)


def _count_again(db: Db, poll: Document) -> int:
    as_found = {"_id": poll["_id"], "options": poll["options"], **UNLOCKED}
    return db["polls"].update_one(as_found, {"$set": {"options": poll["counted"]}}).modified_count


CHECKS = [
    Check(
        "miscounted-poll",
        queries.MISCOUNTED,
        "poll {_id} counts other votes than it has",
        repair=_count_again,
        counted_as="polls",
    )
]
