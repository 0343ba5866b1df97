"""What can be wrong with polls, found and mended: the votes are the record, the counts follow from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from polls import queries
from squinney.mongo.problems import Problem, found
from squinney.mongo.schema import Db
from squinney.transactions import AT_REST


def find_problems(db: Db) -> Iterator[Problem]:
    """Polls whose counts are not those of their votes."""
    for poll in found(db, queries.MISCOUNTED):
        documents = {"poll": poll["_id"], "says": poll["options"], "has": poll["counted"]}
        yield Problem("miscounted-poll", f"poll {poll['_id']} counts other votes than it has", documents, True)


def repair(db: Db) -> Counter[str]:
    """Count again.

    Atomic: each poll by itself, where it is still as it was found.
    After a crash: run it again.
    """
    done: Counter[str] = Counter()
    for poll in found(db, queries.MISCOUNTED):
        as_found = {"_id": poll["_id"], "options": poll["options"], **AT_REST}
        done["polls"] += db["polls"].update_one(as_found, {"$set": {"options": poll["counted"]}}).modified_count
    return +done
