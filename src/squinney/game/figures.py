"""The world in a few numbers."""

from __future__ import annotations

from squinney.game.documents import CHARACTERS, ITEMS, LOCATIONS
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db


def figures(db: Db) -> dict[str, int]:
    """Counts from the collections' own statistics: they cost the same however much there is."""
    db = pinned(db)
    return {
        "rooms": db[LOCATIONS].estimated_document_count(),
        "characters": db[CHARACTERS].estimated_document_count(),
        "things": db[ITEMS].estimated_document_count(),
    }
