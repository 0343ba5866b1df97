"""Content in a few numbers."""

from __future__ import annotations

from squinney.content.files.documents import FILES
from squinney.content.nodes.documents import NODES, REVISIONS
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db


def figures(db: Db) -> dict[str, int]:
    """Counts from the collections' own statistics: they cost the same however much there is."""
    db = pinned(db)
    return {
        "pages": db[NODES].estimated_document_count(),
        "versions": db[REVISIONS].estimated_document_count(),
        "files": db[FILES].estimated_document_count(),
    }
