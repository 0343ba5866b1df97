"""The live counts on the home page's card of analytics."""

from __future__ import annotations

from squinney.analytics.events.log import EventLog
from squinney.analytics.hits.documents import DAILY_HITS
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db


def figures(db: Db) -> dict[str, int]:
    """Return estimated counts from collection metadata, whose cost does not depend on the amount of data."""
    db = pinned(db)
    return {
        "events": EventLog(db).count(),
        "sources": db["imports"].estimated_document_count(),
        "pages counted": db[DAILY_HITS].estimated_document_count(),
    }
