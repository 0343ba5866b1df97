"""Puts events into pages that an older version stored as a document each."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from threading import Event as Signal
from typing import Any

from pymongo.client_session import ClientSession
from pymongo.collection import Collection as Stored

from squinney.analytics.events.documents import EVENTS, FLAT_INDEXES, IMPORTS, LIVE, PAGE_INDEXES
from squinney.analytics.events.pages import PageBuilder
from squinney.analytics.rules import checked_moment
from squinney.errors import Invalid
from squinney.mongo.ownership import RECORDS, drop_record, is_prepared
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db, Document
from squinney.patterns.batches import Batches, Progress
from squinney.transactions import in_transaction

BATCH = 2_000
SECONDS = 60
_PART = re.compile(r"(\.(capped|[dm]\d{6,8}))?")
_NOT_OF_THE_EVENT = ("_id", "arrived", "ssk")


def migrations(db: Db) -> list[Batches]:
    """Return the migrations that are needed: of the main collection, and of each that retention had made."""
    db = pinned(db)
    flat = [*([db[EVENTS]] if _has_flat_events(db[EVENTS]) else []), *_parts(db)]
    return [EventsIntoPages(db, collection, later=flat[number:]) for number, collection in enumerate(flat, start=1)]


def _has_flat_events(collection: Stored[Document]) -> bool:
    """Return whether an older version made the collection, as its indexes tell until all events are in pages."""
    return FLAT_INDEXES[0].name in collection.index_information()


def _parts(db: Db) -> Iterator[Stored[Document]]:
    """Yield the collections of single days and months, of this database or of databases of their own."""
    names = db.list_collection_names(filter={"name": {"$regex": rf"^{re.escape(EVENTS)}\."}})
    inside = [db[name] for name in sorted(names) if _PART.fullmatch(name.removeprefix(EVENTS))]
    databases = [name for name in db.client.list_database_names() if name.startswith(f"{db.name}_")]
    others = [name for name in sorted(databases) if re.fullmatch(r"_[dm]\d{6,8}", name.removeprefix(db.name))]
    for part in [*inside, *(pinned(db.client[name])[EVENTS] for name in others)]:
        # guard: events of somebody else are not migrated
        if is_prepared(part.database, part.name):
            yield part


class EventsIntoPages(Batches):
    """Moves the events of one collection into pages. Until it has run, readers do not see them.

    Lines beyond the checkpoint of their source, which an interrupted import left, are deleted: it imports them again.
    An event that a move between two collections left in both is put into a page when the last of these is migrated.
    """

    is_required = True

    def __init__(self, db: Db, collection: Stored[Document], later: Sequence[Stored[Document]] = ()) -> None:
        super().__init__(collection, {"pages": 1}, batch=BATCH)
        self._db = db
        self._later = later

    def run(self, *, stop: Signal | None = None, report: Callable[[Progress], None] = lambda _: None) -> Progress:
        """Put the rest of the events into pages, then drop what is left of the old layout.

        Atomic: each batch, in one transaction.
        After a crash: some events are in pages and the others as they were; run it again.
        Raises: `Unavailable` if MongoDB cannot be reached; run it again.
        """
        progress = self._run_batches(stop, report)
        if progress.finished_at and not progress.failed:
            self._drop_old()
        return progress

    def _upgrade(self, ids: list[Any]) -> tuple[int, list[Document]]:
        return in_transaction(self._db, partial(self._move, ids), seconds=SECONDS)

    def _move(self, ids: list[Any], session: ClientSession) -> tuple[int, list[Document]]:
        # guard: pages are left as they are
        flat = {"_id": {"$in": ids}, "events": {"$exists": False}}
        flat_events = list(self._collection.find(flat, session=session).sort("_id", 1))
        copied = {
            document["_id"] for other in self._later for document in other.find(flat, {"_id": 1}, session=session)
        }
        by_source: dict[str, list[Document]] = defaultdict(list)
        failures: list[Document] = []
        # guard: an event that is in another collection too is stored once
        for event in (event for event in flat_events if event["_id"] not in copied):
            try:
                checked_moment(event.get("time"), "time")
            except Invalid as error:
                failures.append({"id": event["_id"], "reason": error.message})
            else:
                by_source[_source_of(event)].append(event)
        records = self._db[IMPORTS].find({"_id": {"$in": list(by_source)}}, session=session)
        known = {record["_id"]: record for record in records}
        pages = [page for source, events in by_source.items() for page in _pages(source, events, known.get(source))]
        moved = [event["_id"] for events in by_source.values() for event in events] + list(copied)
        if moved:
            self._collection.delete_many({"_id": {"$in": moved}}, session=session)
        if pages:
            self._db[EVENTS].insert_many(pages, session=session)
        return len(moved), failures

    def _drop_old(self) -> None:
        """Drop the indexes of the old layout, or the whole collection where it was one of a day or month."""
        if self._collection.full_name == f"{self._db.name}.{EVENTS}":
            kept = {"_id_", *(index.name for index in PAGE_INDEXES)}
            old = {index.name for index in FLAT_INDEXES} | {"time_-1"}
            for name in (old & self._collection.index_information().keys()) - kept:
                self._collection.drop_index(name)
            return
        part = self._collection.database
        self._collection.drop()
        # guard: a database in which somebody else has collections is not dropped
        if part.name != self._db.name and not {*part.list_collection_names()} - {RECORDS, "squinney.migrations"}:
            part.client.drop_database(part.name)
        else:
            drop_record(part, self._collection.name)


def _source_of(event: Document) -> str:
    """Return the source of an imported event, whose id is that and the offset of its line."""
    return str(event["_id"]).rpartition("-")[0] or LIVE


def _pages(source: str, events: list[Document], known: Mapping[str, Any] | None) -> list[Any]:
    """Return the events in pages, none of which is on both sides of the offset up to which hits are counted."""
    if source == LIVE:
        builder = PageBuilder(LIVE, lambda number: str(events[number]["_id"]))
        for number, event in enumerate(events):
            builder.add_document(_plain(event), number)
        return [page.document for page in builder.finish()]
    builder = PageBuilder(source)
    counted, pages = (known or {}).get("hits_offset", 0), []
    for event in events:
        offset = int(str(event["_id"]).rpartition("-")[2], 16)
        if known is not None and offset >= known["offset"]:
            continue
        if offset >= counted > 0:
            pages, counted = builder.finish(), 0
        builder.add_document(_plain(event), offset, end=offset + 1)
    return [page.document for page in [*pages, *builder.finish()]]


def _plain(event: Document) -> Document:
    return {name: value for name, value in event.items() if name not in _NOT_OF_THE_EVENT}
