"""All queries on files, uploads and removals."""

from __future__ import annotations

from datetime import UTC, datetime

from squinney.content.files.documents import CHUNKS, REMOVALS, UPLOADS
from squinney.mongo.queries import Query, declared
from squinney.transactions import visible

_SOME_TIME = datetime(2026, 1, 1, tzinfo=UTC)


STALLED = Query(
    "content.stalled-uploads",
    UPLOADS,
    where=lambda before: {"seen": {"$lt": before}},
    example={"before": _SOME_TIME},
    routing="broadcast",
    reason="the sweep looks on every shard",
)
DUE_REMOVALS = Query(
    "content.due-removals",
    REMOVALS,
    where=lambda now: visible({"due_at": {"$lte": now}}),
    example={"now": _SOME_TIME},
    sort=[("due_at", 1)],
    routing="broadcast",
    reason="the sweep looks on every shard",
)
CHUNKS_OF = Query("content.chunks", CHUNKS, where=lambda file_id: {"files_id": file_id}, example={"file_id": "f"})

QUERIES = declared(globals())
