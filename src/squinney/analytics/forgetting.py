"""Undoing an import, so that it can be repeated with other options."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import chain

from pymongo.client_session import ClientSession

from squinney.analytics.errors import UnknownSource
from squinney.analytics.events.partitions import EVENTS, EventPartitions, Events
from squinney.analytics.events.queries import OF_SOURCE
from squinney.analytics.events.readers import Readers
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
    span = _marked(db, source)["forgetting"]
    done = Counter({"hits": uncount_hits(db, source)})
    done["events"] = _delete_events(db, source)
    done["rejects"] = db["rejects"].delete_many({"source": source}).deleted_count
    for rollups in Rollups.registered(db):
        if span and rollups.config.source == EVENTS:
            rebuild_span(rollups, span[0], span[1] + timedelta(milliseconds=1))
    db["imports"].delete_one({"_id": source})
    return +done


def _marked(db: Db, source: str) -> Document:
    """Mark the source as being forgotten, with the time span of its events, and return it.

    Another call may have marked it meanwhile and deleted events: the span that it stored first stays.
    """
    found = db["imports"].find_one({"_id": source})
    if found and found["state"] != FORGETTING:
        marked: Document = {"state": FORGETTING, "forgetting": _span(db, source)}
        db["imports"].update_one({"_id": source, "state": {"$ne": FORGETTING}}, {"$set": marked})
        found = db["imports"].find_one({"_id": source})
    if found is None:
        raise UnknownSource(f"nothing was imported under {source}", source=source)
    return found


def _span(db: Db, source: str) -> list[datetime]:
    """Return the first and last time of the source's events, or nothing where it has none."""
    group = {"_id": None, "first": {"$min": "$time"}, "last": {"$max": "$time"}}
    stages: list[Document] = [{"$match": OF_SOURCE(source=source)}, {"$group": group}]

    def read(partition: Events, session: ClientSession | None) -> Iterator[Document]:
        return iter(partition.aggregate(stages, session=session))

    rows = list(chain.from_iterable(Readers(EventPartitions(db)).streams(read, in_snapshot=True)))
    return [min(row["first"] for row in rows), max(row["last"] for row in rows)] if rows else []


def _delete_events(db: Db, source: str) -> int:
    """Delete the source's events from all partitions until none is left: they may move behind the deletion."""
    partitions = EventPartitions(db)
    where = OF_SOURCE(source=source)

    def read(partition: Events, session: ClientSession | None) -> Iterator[Document]:
        return iter(partition.find(where, {"_id": 1}, limit=1, session=session))

    deleted = 0
    while any(map(list, Readers(partitions).streams(read, in_snapshot=True))):
        deleted += sum(partition.delete_many(where).deleted_count for partition in partitions.spanning())
    return deleted
