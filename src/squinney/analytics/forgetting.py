"""Taking an import back, so that it can be repeated with other options."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

from squinney.analytics.errors import UnknownSource
from squinney.analytics.events.partitions import EVENTS, EventPartitions
from squinney.analytics.events.queries import OF_SOURCE
from squinney.analytics.events.sources import FORGETTING
from squinney.analytics.hits.feed import take_back_hits
from squinney.analytics.repair import rebuild_span
from squinney.analytics.rollups.rollups import Rollups
from squinney.mongo.connect import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db, Document

SECONDS = 3_600


@operation(SECONDS)
def forget(db: Db, source: str) -> Counter[str]:
    """Take an import back: its hits, its events, its rejects, and that it was known; roll-ups are made anew.

    Not for a log that is being imported or followed. Hits of events that retention has dropped stay.

    Atomic: the update that says so, from which on the source is not imported any more; then each batch by itself.
    After a crash: some of it is gone; forget it again.
    Raises: `UnknownSource`.
    """
    db = pinned(db)
    partitions = EventPartitions(db)
    where = OF_SOURCE(source=source)
    known = db["imports"].find_one({"_id": source})
    if known is None:
        raise UnknownSource(f"nothing was imported under {source}", source=source)
    if known["state"] != FORGETTING:
        marked: Document = {"state": FORGETTING, "forgetting": _span(partitions, where)}
        db["imports"].update_one({"_id": source}, {"$set": marked})
        known = {**known, **marked}
    done = Counter({"hits": take_back_hits(db, source)})
    done["events"] = sum(partition.delete_many(where).deleted_count for partition in partitions.spanning())
    done["rejects"] = db["rejects"].delete_many({"source": source}).deleted_count
    for rollups in Rollups.registered(db):
        if known["forgetting"] and rollups.config.source == EVENTS:
            start, end = known["forgetting"]
            rebuild_span(rollups, start, end + timedelta(milliseconds=1))
    db["imports"].delete_one({"_id": source})
    return +done


def _span(partitions: EventPartitions, where: Document) -> list[datetime]:
    """The first and last time of the source's events."""
    group = {"_id": None, "first": {"$min": "$time"}, "last": {"$max": "$time"}}
    stages: list[Document] = [{"$match": where}, {"$group": group}]
    rows = [row for partition in partitions.spanning() for row in partition.aggregate(stages)]
    return [min(row["first"] for row in rows), max(row["last"] for row in rows)] if rows else []
