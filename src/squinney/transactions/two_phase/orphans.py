"""Locks and stubs whose run is rolled back or has no record: nothing would release their documents but a waiting run.

The protocol leaves them only if a write was on its way until long after its deadline, or if records were lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from pymongo.client_session import ClientSession

from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.problems import Problem
from squinney.mongo.schema import Db, Document
from squinney.transactions.attempts import in_transaction
from squinney.transactions.two_phase.documents import LOCK_FIELD, NAME, ROLLED_BACK, STUB_FIELD
from squinney.transactions.two_phase.settling import settle_holder

HELD: Document = {LOCK_FIELD: {"$ne": None}}


def find_orphans(db: Db, collections: Iterable[str]) -> Iterator[Problem]:
    """Yield the problems `orphan-lock` and `orphan-stub` of the named collections; scans each collection."""
    db = pinned(db)
    for name in collections:
        for document in list(db[name].find(HELD, {LOCK_FIELD: 1, STUB_FIELD: 1})):
            run_id = document[LOCK_FIELD]
            if _is_orphan(db, name, document["_id"], run_id):
                is_stub = STUB_FIELD in document
                yield Problem(
                    "orphan-stub" if is_stub else "orphan-lock",
                    f"{name} {document['_id']} is {'a stub of' if is_stub else 'locked by'} {run_id}, which is over",
                    documents={name: document["_id"], NAME: run_id},
                    repairable=True,
                )


def _is_orphan(db: Db, name: str, document_id: Any, run_id: Any) -> bool:
    """Return whether the lock is still there although nothing is left to do for its run, seen in one transaction."""

    def look(session: ClientSession) -> bool:
        record = db[NAME].find_one({"_id": run_id}, session=session)
        open_run = record is not None and (record["state"] != ROLLED_BACK or "due_at" in record)
        held = {"_id": document_id, LOCK_FIELD: run_id}
        return not open_run and db[name].find_one(held, {"_id": 1}, session=session) is not None

    return in_transaction(db, look)


def drop_orphans(db: Db, collections: Iterable[str]) -> Counter[str]:
    """Remove orphan locks from their documents, and delete orphan stubs; return a count.

    Atomic: each document by itself, after its run's record says that the run is rolled back.
    After a crash: run it again.
    """
    db = pinned(db)
    problems = list(find_orphans(db, collections))
    freed = 0
    with operation(None):
        for problem in problems:
            (name, document_id), (_, run_id) = problem.documents.items()
            freed += settle_holder(db, name, document_id, run_id)
    return Counter({"documents freed": freed})
