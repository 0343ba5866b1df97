"""Content in a few numbers."""

from __future__ import annotations

from squinney.content.documents import COMMENTS, FILES, NODES
from squinney.mongo.schema import Db


def figures(db: Db) -> dict[str, int]:
    """Counts from the collections' own statistics: they cost the same however much there is."""
    return {
        "pages": db[NODES].estimated_document_count(),
        "comments": db[COMMENTS].estimated_document_count(),
        "files": db[FILES].estimated_document_count(),
    }
