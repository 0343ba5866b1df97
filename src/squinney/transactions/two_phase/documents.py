"""The collection `squinney.two_phase_runs`, with one record per run, and the fields that runs set in documents.

```
squinney.two_phase_runs { _id: the run's id, which locks and stubs name; kind, steps, at, deadline,
                 key?, fingerprint?, result?: of a run with an idempotency key that is not rolled back,
                 state: new | commit | done | rolled back,
                 due_at: from when on anybody may settle the run; missing if it is settled,
                 expires_at: of a settled run }
```
A document that a run holds has `txn_lock`: the run's id. One that it will insert has `txn_stub` too: a stub.
"""

from __future__ import annotations

from datetime import datetime

from squinney.mongo.queries import Pipeline, Query
from squinney.mongo.schema import Collection, Document, Index

NAME = "squinney.two_phase_runs"
NEW, COMMIT, DONE, ROLLED_BACK = "new", "commit", "done", "rolled back"
LOCK_FIELD, STUB_FIELD = "txn_lock", "txn_stub"
PROTOCOL_FIELDS = frozenset({LOCK_FIELD, STUB_FIELD})
UNLOCKED: Document = {LOCK_FIELD: None}
KEEP_SETTLED_SECONDS = 3_600  # of runs without a key: what still arrives late is recognised at once

COLLECTIONS = [
    Collection(
        NAME,
        formerly="two_phase.runs",
        indexes=[
            Index([("key", 1)], unique=True, partial={"key": {"$exists": True}}, why="a key belongs to one run"),
            Index([("due_at", 1)], partial={"due_at": {"$exists": True}}, why="what recover() has to do"),
            Index([("expires_at", 1)], expire_after_seconds=0, why="deletes the records of settled runs"),
        ],
        unsharded="a unique index over keys must see every run",
    )
]

KEYED = Query("two_phase.keyed", NAME, where=lambda key: {"key": key}, example={"key": "k"})
DUE = Query(
    "two_phase.due",
    NAME,
    where=lambda until: {"due_at": {"$lte": until}},
    example={"until": datetime(2026, 1, 1)},  # noqa: DTZ001 - a sample value
    sort=[("due_at", 1)],
)
QUERIES: list[Query | Pipeline] = [KEYED, DUE]


def visible(where: Document) -> Document:
    """Return the filter, extended to skip stubs: documents that an undecided run inserted."""
    return {**where, STUB_FIELD: None}
