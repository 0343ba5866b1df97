"""Undoing an import, so that it can be repeated with other options."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

from squinney.analytics.errors import UnknownSource
from squinney.analytics.events.documents import EVENTS, FORGETTING
from squinney.analytics.events.queries import OF_SOURCE
from squinney.analytics.hits.feed import uncount_hits
from squinney.analytics.repair import rebuild_span
from squinney.analytics.reports.days import ReportDays
from squinney.analytics.rollups.rollups import Rollups
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db, Document

SECONDS = 3_600


@operation(SECONDS)
def forget(db: Db, source: str) -> Counter[str]:
    """Undo an import: delete its hits, events, rejects and its record, and rebuild the roll-ups and reports
    of its time span.

    Do not call it while the log is being imported or followed. Hits of events that retention has dropped stay.

    Atomic: the update that marks the source as being forgotten, after which it cannot be imported; then each batch
    separately.
    After a crash: a part of the import is deleted; call it again.
    Raises: `UnknownSource`.
    """
    db = pinned(db)
    span = _marked(db, source)["forgetting"]
    done = Counter({"hits": uncount_hits(db, source)})
    done["events"] = _delete_events(db, source)
    done["rejects"] = db["analytics.rejects"].delete_many({"source": source}).deleted_count
    for rollups in Rollups.registered(db):
        if span and rollups.config.source == EVENTS:
            rebuild_span(rollups, span[0], span[1] + timedelta(milliseconds=1))
    if span:
        ReportDays(db).rebuild(span[0], span[1] + timedelta(milliseconds=1))
    db["analytics.imports"].delete_one({"_id": source})
    return +done


def _marked(db: Db, source: str) -> Document:
    """Mark the source as being forgotten, with the time span of its events, and return it.

    Another call may have marked it meanwhile and deleted events: the span that it stored first stays.
    """
    record = db["analytics.imports"].find_one({"_id": source})
    if record and record["state"] != FORGETTING:
        marked: Document = {"state": FORGETTING, "forgetting": _span(db, source)}
        # guard: the time span that was stored first stays
        db["analytics.imports"].update_one({"_id": source, "state": {"$ne": FORGETTING}}, {"$set": marked})
        record = db["analytics.imports"].find_one({"_id": source})
    if record is None:
        raise UnknownSource(f"nothing was imported under {source}", source=source)
    return record


def _span(db: Db, source: str) -> list[datetime]:
    """Return the first and last time of the source's events, or nothing where it has none."""
    group = {"_id": None, "first": {"$min": "$from"}, "last": {"$max": "$to"}}
    rows = list(db[EVENTS].aggregate([{"$match": OF_SOURCE(source=source)}, {"$group": group}]))
    return [rows[0]["first"], rows[0]["last"]] if rows else []


def _delete_events(db: Db, source: str) -> int:
    """Delete the source's pages until none is left, as some may be packed meanwhile; return the number of events."""
    where = OF_SOURCE(source=source)
    total: Document = {"_id": None, "events": {"$sum": "$n"}}
    rows = list(db[EVENTS].aggregate([{"$match": where}, {"$group": total}]))
    # guard: pages are deleted until none is left
    while db[EVENTS].find_one(where, {"_id": 1}):
        db[EVENTS].delete_many(where)
    return int(rows[0]["events"]) if rows else 0
