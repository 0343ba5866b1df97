"""The live numbers of the card on the home page."""

from __future__ import annotations

from squinney.analytics.events.log import EventLog
from squinney.analytics.hits.documents import DAILY_HITS
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db


def figures(db: Db) -> dict[str, int]:
    """Counts from the collections' own statistics: they cost the same however much there is."""
    db = pinned(db)
    return {
        "events": EventLog(db).count(),
        "sources": db["imports"].estimated_document_count(),
        "pages counted": db[DAILY_HITS].estimated_document_count(),
    }
