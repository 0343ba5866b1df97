"""Find and repair polls with wrong counts. The votes are the truth; the counts are derived from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from polls import queries
from squinney.mongo.deadlines import operation
from squinney.mongo.problems import Check, Problem, problems, repair_problems
from squinney.mongo.schema import Db, Document


def find_problems(db: Db) -> Iterator[Problem]:
    """Find polls whose counts differ from their votes."""
    return problems(db, CHECKS)


@operation(None)
def repair(db: Db) -> Counter[str]:
    """Count the votes of wrong polls again.

    Atomic: each poll separately, and only if it has not changed since it was found.
    After a crash: some polls are repaired; run it again.
    """
    return +repair_problems(db, CHECKS)


def _count_again(db: Db, poll: Document) -> int:
    as_found = {"_id": poll["_id"], "options": poll["options"]}
    return db["polls"].update_one(as_found, {"$set": {"options": poll["counted"]}}).modified_count


CHECKS = [
    Check(
        "miscounted-poll",
        queries.MISCOUNTED,
        "poll {_id} has counts that differ from its votes",
        repair=_count_again,
        counted_as="polls",
    )
]
