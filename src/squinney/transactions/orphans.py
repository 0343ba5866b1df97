"""Markers, locks and stubs whose run has no record any more, so that no process can finish or undo the run.

The protocol leaves none. They come from a damaged or partly restored `transactions` collection, or from a server that
was suspended during an insert until long after its deadline.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from squinney.mongo.pinned import pinned
from squinney.mongo.problems import Problem
from squinney.mongo.schema import Db, Document
from squinney.transactions.records import NAME, open_run

MARKED: Document = {"$or": [{"txns.0": {"$exists": True}}, {"txn_lock": {"$ne": None}}, {"txn_stub": {"$ne": None}}]}


def find_orphans(db: Db, collections: Iterable[str]) -> Iterator[Problem]:
    """Yield the problems `orphan-marker` and `orphan-stub` of the named collections; scans each collection."""
    db = pinned(db)
    for name in collections:
        for document in list(db[name].find(MARKED, {"txns": 1, "txn_lock": 1, "txn_stub": 1})):
            yield from _orphans_of(db, name, document)


def _orphans_of(db: Db, name: str, document: Document) -> Iterator[Problem]:
    marks = dict.fromkeys([*document.get("txns", []), document.get("txn_lock")])
    for txn in marks:
        if txn is not None and _is_orphan(db, name, document["_id"], txn):
            is_stub = document.get("txn_stub") == txn
            yield Problem(
                "orphan-stub" if is_stub else "orphan-marker",
                f"{name} {document['_id']} is {'a stub of' if is_stub else 'marked by'} {txn}, which has no record",
                documents={name: document["_id"], NAME: txn},
                repairable=True,
            )


def _is_orphan(db: Db, name: str, document_id: Any, txn: Any) -> bool:
    """Return whether the marker has no record and still exists: a run may have ended since the marker was read."""
    if open_run(db, txn) is not None:
        return False
    return db[name].find_one({"_id": document_id, "$or": [{"txns": txn}, {"txn_lock": txn}]}, {"_id": 1}) is not None


def drop_orphans(db: Db, collections: Iterable[str]) -> Counter[str]:
    """Delete orphan stubs and remove orphan markers from their documents; amounts they took are not given back.

    Atomic: each document by itself. A run without a record cannot continue, so there is no race.
    After a crash: run it again.
    """
    db = pinned(db)
    done: Counter[str] = Counter()
    for problem in find_orphans(db, collections):
        (name, document_id), (_, txn) = problem.documents.items()
        if problem.code == "orphan-stub":
            done["stubs removed"] += db[name].delete_one({"_id": document_id, "txn_stub": txn}).deleted_count
            continue
        pulled = db[name].update_one({"_id": document_id, "txns": txn}, {"$pull": {"txns": txn}})
        unlocked = db[name].update_one({"_id": document_id, "txn_lock": txn}, {"$unset": {"txn_lock": ""}})
        done["markers dropped"] += bool(pulled.modified_count or unlocked.modified_count)
    return +done
