"""The network in a few numbers."""

from __future__ import annotations

from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db


def figures(db: Db) -> dict[str, int]:
    """Counts from the collections' own statistics: they cost the same however much there is."""
    db = pinned(db)
    return {
        "members": db["social.users"].estimated_document_count(),
        "posts": db["social.posts"].estimated_document_count(),
        "deliveries": db["social.news"].estimated_document_count(),
    }
