"""Undoing an import, so that it can be repeated with other options."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

from squinney.analytics.errors import UnknownSource
from squinney.analytics.events.partitions import EVENTS, EventPartitions
from squinney.analytics.events.queries import OF_SOURCE
from squinney.analytics.events.sources import FORGETTING
from squinney.analytics.hits.feed import uncount_hits
from squinney.analytics.repair import rebuild_span
from squinney.analytics.rollups.rollups import Rollups
from squinney.mongo.connect import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db, Document

SECONDS = 3_600


@operation(SECONDS)
def forget(db: Db, source: str) -> Counter[str]:
    """Undo an import: delete its hits, events, rejects and its record, and rebuild the roll-ups of its time span.

    Do not call it while the log is being imported or followed. Hits of events that retention has dropped stay.

    Atomic: the update that marks the source as being forgotten, after which it cannot be imported; then each batch
    separately.
    After a crash: a part of the import is deleted; call it again.
    Raises: `UnknownSource`.
    """
    db = pinned(db)
    partitions = EventPartitions(db)
    where = OF_SOURCE(source=source)
    found = db["imports"].find_one({"_id": source})
    if found is None:
        raise UnknownSource(f"nothing was imported under {source}", source=source)
    if found["state"] != FORGETTING:
        marked: Document = {"state": FORGETTING, "forgetting": _span(partitions, where)}
        db["imports"].update_one({"_id": source}, {"$set": marked})
        found = {**found, **marked}
    done = Counter({"hits": uncount_hits(db, source)})
    done["events"] = sum(partition.delete_many(where).deleted_count for partition in partitions.spanning())
    done["rejects"] = db["rejects"].delete_many({"source": source}).deleted_count
    for rollups in Rollups.registered(db):
        if found["forgetting"] and rollups.config.source == EVENTS:
            start, end = found["forgetting"]
            rebuild_span(rollups, start, end + timedelta(milliseconds=1))
    db["imports"].delete_one({"_id": source})
    return +done


def _span(partitions: EventPartitions, where: Document) -> list[datetime]:
    """Return the first and last time of the source's events, or nothing where it has none."""
    group = {"_id": None, "first": {"$min": "$time"}, "last": {"$max": "$time"}}
    stages: list[Document] = [{"$match": where}, {"$group": group}]
    rows = [row for partition in partitions.spanning() for row in partition.aggregate(stages)]
    return [min(row["first"] for row in rows), max(row["last"] for row in rows)] if rows else []
