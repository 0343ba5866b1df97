"""All queries on files, uploads and removals."""

from __future__ import annotations

from datetime import UTC, datetime

from squinney.content.files.documents import CHUNKS, UPLOADS
from squinney.content.removals import REMOVALS
from squinney.mongo.queries import Query, declared

_SOME_TIME = datetime(2026, 1, 1, tzinfo=UTC)


STALLED = Query(
    "content.stalled-uploads",
    UPLOADS,
    where=lambda before: {"seen": {"$lt": before}},
    example={"before": _SOME_TIME},
    routing="broadcast",
    reason="the job looks on every shard",
)
DUE_REMOVALS = Query(
    "content.due-removals",
    REMOVALS,
    where=lambda now: {"due_at": {"$lte": now}},
    example={"now": _SOME_TIME},
    sort=[("due_at", 1)],
    routing="broadcast",
    reason="the job looks on every shard",
)
CHUNKS_OF = Query("content.chunks", CHUNKS, where=lambda file_id: {"files_id": file_id}, example={"file_id": "f"})

QUERIES = declared(globals())
