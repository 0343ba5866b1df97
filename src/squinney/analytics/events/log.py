"""`EventLog`: record, import and read events."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, cast

from bson.raw_bson import RawBSONDocument
from pymongo.client_session import ClientSession
from pymongo.errors import BulkWriteError
from pymongo.write_concern import WriteConcern

from squinney import checks
from squinney.analytics import parsers, rules
from squinney.analytics.errors import NotUnderstood, UnknownSource
from squinney.analytics.events import imports, queries, readers
from squinney.analytics.events.documents import EVENTS, IMPORTS, LIVE, Event, Import, Reject
from squinney.analytics.events.imports import Imported, Progress
from squinney.analytics.events.lines import Options, decoded_line
from squinney.analytics.events.pages import PageBuilder
from squinney.analytics.events.sources import known_source
from squinney.analytics.log_files.chunks import MAX_LINE_LENGTH
from squinney.analytics.log_files.log_follower import LogFollower
from squinney.analytics.policy import REFRESH_SECONDS, RecentPolicy
from squinney.clock import Clock, utcnow
from squinney.errors import Invalid, Unavailable
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.queries import Pipeline
from squinney.mongo.schema import Db, Document
from squinney.patterns.ids import new_id
from squinney.patterns.paging import Page, page
from squinney.transactions import Key, once

log = logging.getLogger(__name__)

MAX_AT_ONCE = 10_000
MAX_PAGE_SIZE = 1_000
# A running import updates its record with every chunk, and each write may wait up to a minute for MongoDB.
SILENT_SECONDS = 180
SECONDS = 60

Durability = str | int

LEVELS = {
    "fire-and-forget": WriteConcern(w=0),
    "acknowledged": WriteConcern(w=1),
    "journaled": WriteConcern(w=1, j=True),
    "replicated": WriteConcern(w="majority"),
}


@dataclass(frozen=True)
class Failure:
    """An event that was not stored: its position in the call, and the reason."""

    index: int
    reason: str
    document: Document


@dataclass(frozen=True)
class Recorded:
    """The number of stored events, and the failures, each with the event's position in the call."""

    stored: int
    failures: list[Failure] = field(default_factory=list)


class EventLog:
    """The log store: events recorded one by one, in batches, or imported from log files exactly once."""

    def __init__(self, db: Db, *, refresh_seconds: float = REFRESH_SECONDS, clock: Clock = utcnow) -> None:
        self._db = pinned(db)
        self._policy = RecentPolicy(self._db, refresh_seconds=refresh_seconds)
        self._clock = clock

    # ---- writing ----

    @operation()
    def record(
        self,
        event: Mapping[str, object],
        *,
        durability: Durability = "replicated",
        key: str | Key | None = None,
    ) -> Event:
        """Store one event, once per `key`, and return it; its `time` is required, with a time zone.

        Atomic: one insert; with a key, one transaction with the key's record.
        After a crash: the event is stored or not; a repeat with the same key stores it if it is missing.
        Raises: `Invalid`, also for an event older than the retention policy keeps; with a key also `KeyReused`.
        """
        checked = rules.checked_event(event)
        failures = self._store([checked], durability, key)
        if failures:
            raise Invalid(failures[0].reason, field="event")
        return cast(Event, checked)

    @operation(SECONDS)
    def record_many(
        self,
        events: Iterable[Mapping[str, object]],
        *,
        durability: Durability = "replicated",
        key: str | Key | None = None,
    ) -> Recorded:
        """Store up to 10,000 events, once per `key`, and report every event that was not stored.

        Atomic: the events of each site and hour, in pages; with a key, all of them in one transaction with its record.
        After a crash: some pages are stored. A repeat with the same key stores all events or none; without a key it
        would store all of them again.
        Raises: `Invalid` for too many events; problems of single events are in the result's `failures`. With a key also
        `KeyReused`.
        """
        checked: list[Document] = []
        positions: list[int] = []
        failures: list[Failure] = []
        for index, event in enumerate(events):
            if index >= MAX_AT_ONCE:
                raise Invalid(f"at most {MAX_AT_ONCE} events at once", field="events", limit=MAX_AT_ONCE)
            try:
                checked.append(rules.checked_event(event))
                positions.append(index)
            except Invalid as error:
                failures.append(Failure(index, error.message, dict(event) if isinstance(event, Mapping) else {}))
        refused = self._store(checked, durability, key)
        failures += [Failure(positions[failure.index], failure.reason, failure.document) for failure in refused]
        return Recorded(len(checked) - len(refused), sorted(failures, key=lambda failure: failure.index))

    def _store(self, events: list[Document], durability: Durability, key: str | Key | None) -> list[Failure]:
        """Store the events, and return those that were refused."""
        concern = write_concern(durability)
        policy = self._policy()
        reasons = {index: reason for index, event in enumerate(events) if (reason := policy.refusal(event["time"]))}
        block = new_id()
        builder = PageBuilder(LIVE, lambda index: f"{block}-{index:04d}")
        for index, event in enumerate(events):
            if index not in reasons:
                builder.add_document(event, index)
        pages = builder.finish()
        insert = self._insert if key is None else partial(self._insert_once, key, events)
        refused = insert([page.document for page in pages], concern) if pages else {}
        reasons |= {index: reason for number, reason in refused.items() for index in pages[number].numbers}
        return [Failure(index, reason, events[index]) for index, reason in sorted(reasons.items())]

    def _insert(self, pages: Sequence[RawBSONDocument], concern: WriteConcern) -> dict[int, str]:
        """Insert the pages; return the positions of those that the server refused, with its reasons."""
        try:
            self._db[EVENTS].with_options(write_concern=concern).insert_many(cast(Any, pages), ordered=False)
        except BulkWriteError as error:
            return _refused(error)
        return {}

    def _insert_once(
        self, key: str | Key, events: list[Document], pages: Sequence[RawBSONDocument], _: WriteConcern
    ) -> dict[int, str]:
        """Insert all pages or none, once per key."""

        def work(session: ClientSession) -> int:
            self._db[EVENTS].insert_many(cast(Any, pages), session=session)
            return len(events)

        try:
            once(self._db, "record-events", work, key=key, arguments={"events": events}, own={EVENTS}, seconds=SECONDS)
        except BulkWriteError as error:
            reason = next(iter(_refused(error).values()))
            return dict.fromkeys(range(len(pages)), reason)
        return {}

    @operation(None)
    def import_file(
        self,
        path: str | Path | BinaryIO,
        *,
        source: str | None = None,
        site: str = "",
        format: str = "auto",
        field_map: Mapping[str, str] | None = None,
        fields: Collection[str] | None = None,
        progress: Callable[[Progress], None] | None = None,
        after_checkpoint: Callable[[Import], None] | None = None,
        take_unterminated: bool = False,
        title: str = "",
    ) -> Imported:
        """Import a log file (plain or compressed) or an open stream; each line is stored once, even if it is repeated.

        Lines that cannot be parsed are kept in `rejects` with their number and the reason. `fields` limits which fields
        of each event are stored. A last line without a line end is left for the next import, unless `take_unterminated`
        is set. `after_checkpoint` is called with the source after each checkpoint, and also when nothing is new: this
        makes up for a call that a crash prevented. If every line of the log is rejected, this is an error; imported
        again with another format, the log starts over.

        Atomic: each chunk of about a megabyte, in one transaction with the checkpoint.
        After a crash: some chunks are stored; a repeated import continues from the checkpoint.
        Raises: `Invalid`, `NotALog`, `NotUnderstood`, `UnknownFormat`, `ImportRunning`, `Unavailable`.
        """
        return self._import(
            path,
            source=source,
            site=site,
            format=format,
            field_map=field_map,
            fields=fields,
            progress=progress,
            after_checkpoint=after_checkpoint,
            take_unterminated=take_unterminated,
            title=title,
            by_hand=True,
        )

    def _import(
        self,
        path: str | Path | BinaryIO,
        *,
        by_hand: bool,
        title: str = "",
        source: str | None = None,
        site: str = "",
        format: str = "auto",
        field_map: Mapping[str, str] | None = None,
        progress: Callable[[Progress], None] | None = None,
        after_checkpoint: Callable[[Import], None] | None = None,
        fields: Collection[str] | None = None,
        take_unterminated: bool = False,
    ) -> Imported:
        options = Options(
            name=None if source is None else checks.text(source, "source", min_length=1, max_length=500),
            title=title or source or _title(path),
            site=checks.text(site, "site", max_length=rules.MAX_SITE_LENGTH),
            format=format,
            field_map=field_map,
            fields=fields,
            take_unterminated=take_unterminated,
            by_hand=by_hand,
        )
        if format != "auto" or field_map:
            parsers.parser_for(format, field_map)
        if unknown := set(fields or ()) - set(parsers.FIELDS):
            raise Invalid(f"fields: {min(unknown)} is not one of {', '.join(parsers.FIELDS)}", field="fields")
        with _opened(path) as raw:
            imported = imports.import_stream(
                self._db, raw, options, progress=progress, after_checkpoint=after_checkpoint, clock=self._clock
            )
        # guard: an import that rejects every line is an error
        imports.require_events(self._db, imported)
        return imported

    @operation(None)
    def follow(
        self,
        path: str | Path,
        *,
        stop: threading.Event | None = None,
        poll_seconds: float = 1,
        on_import: Callable[[Imported], None] | None = None,
        **options: Any,
    ) -> None:
        """Import a log and keep importing what is appended to it, across rotations, until `stop` is set.

        `options` are those of `import_file` except `source`: a followed log is always identified by its content.
        `on_import` is called after each import that read new lines. A log of which every line is rejected gives a
        warning, not an error, since later lines may be events.

        Atomic: as `import_file`.
        After a crash: follow the log again; it continues from its checkpoint.
        Raises: as `import_file`, but waits while MongoDB is unreachable or another import reads the same log.
        """
        warned: set[str] = set()
        checks.seconds(poll_seconds, "poll_seconds")
        if "source" in options:
            raise Invalid("source: a followed log is identified by its content, not by a name", field="source")

        def read(file: BinaryIO) -> Imported:
            file.seek(0)
            try:
                return self._import(file, title=_title(path), by_hand=False, **options)
            except NotUnderstood as error:  # later lines may be events
                source = error.details["source"]
                if source not in warned:
                    log.warning("following %s: %s", path, error.message)
                warned.add(source)
                return cast(Imported, error.imported)

        def find_source(file: BinaryIO, by_beginning: bool = False) -> Import | None:
            file.seek(0)
            return known_source(self._db, file, by_beginning=by_beginning)

        def was_followed(other_than: str | None) -> bool:
            with operation(60, reads_only=True):
                named = queries.IMPORTS_NAMED.find(self._db, name=_title(path), projection={"by_hand": 1})
                return any(source["_id"] != other_than and not source.get("by_hand") for source in named)

        LogFollower(Path(path), read, find_source, was_followed, on_import).run(stop or threading.Event(), poll_seconds)

    # ---- reading ----

    @operation(SECONDS, reads_only=True)
    def by_path(self, path: str, start: datetime | None = None, end: datetime | None = None) -> Iterator[Event]:
        """Stream the events with a path, oldest first.

        Raises: `Invalid`.
        """
        checks.text(path, "path", max_length=MAX_LINE_LENGTH)
        return readers.stream(self._db, queries.BY_PATH, *rules.checked_open_range(start, end), path=path)

    @operation(SECONDS, reads_only=True)
    def by_host(self, host: str, start: datetime | None = None, end: datetime | None = None) -> Iterator[Event]:
        """Stream the events of a client host, oldest first.

        Raises: `Invalid`.
        """
        checks.text(host, "host", max_length=MAX_LINE_LENGTH)
        return readers.stream(self._db, queries.BY_HOST, *rules.checked_open_range(start, end), host=host)

    @operation(SECONDS, reads_only=True)
    def between(self, start: datetime, end: datetime) -> Iterator[Event]:
        """Stream the events from `start` (included) to `end` (excluded), oldest first."""
        return readers.stream(self._db, queries.BETWEEN, *rules.checked_range(start, end))

    @operation(reads_only=True)
    def page(
        self,
        start: datetime,
        end: datetime,
        *,
        path: str | None = None,
        host: str | None = None,
        limit: int = 100,
    ) -> Page[Event]:
        """Return a page of about `limit` events, oldest first; `next` is the `start` (ISO 8601) of the next page.

        Events with the same time are always on the same page.
        """
        start, end = rules.checked_range(start, end)
        checks.integer(limit, "limit", minimum=1, maximum=MAX_PAGE_SIZE)
        query, wanted = _narrowest(path, host)
        events = list(islice(readers.stream(self._db, query, start, end, **wanted), limit + 1))
        if len(events) <= limit:
            return Page(events)
        last = events[-1]["time"]
        whole = [event for event in events if event["time"] < last]
        if not whole:  # more events than `limit` have the same time: return all of them
            just_after = last + timedelta(milliseconds=1)
            whole = list(readers.stream(self._db, query, last, just_after, **wanted))
            last = just_after
        return Page(whole, last.isoformat() if last < end else None)

    @operation(SECONDS, reads_only=True)
    def count_by_day_and_path(
        self, start: datetime, end: datetime, *, cursor: str | None = None, limit: int = MAX_PAGE_SIZE
    ) -> Page[Document]:
        """Return the number of requests per day (UTC) and path: rows of `day`, `path` and `count`, sorted.

        Paths with the same first 512 characters are counted together.

        Raises: `Invalid`.
        """
        start, end = rules.checked_range(start, end)
        checks.integer(limit, "limit", minimum=1, maximum=MAX_PAGE_SIZE)
        return readers.by_day_and_path(self._db, start, end, cursor=cursor, limit=limit)

    @operation(SECONDS, reads_only=True)
    def count_by_status(self, start: datetime, end: datetime, *, site: str | None = None) -> dict[int, int]:
        """Return the number of events per status, of one site or of all sites."""
        start, end = rules.checked_range(start, end)
        counts: dict[int, int] = {}
        for row in queries.BY_STATUS.run(self._db, start=start, end=end, site=site):
            status = int(row["_id"] or 0)
            counts[status] = counts.get(status, 0) + row["count"]
        return dict(sorted(counts.items()))

    @operation(reads_only=True)
    def count(self) -> int:
        """Return the number of events, estimated if there are millions."""
        return readers.count(self._db)

    @operation(reads_only=True)
    def index_sizes(self) -> dict[str, int]:
        """Return the size of each index of the events in bytes."""
        sizes: dict[str, int] = {}
        for row in self._db[EVENTS].aggregate([{"$collStats": {"storageStats": {}}}]):  # one row per shard
            for name, size in row["storageStats"]["indexSizes"].items():
                sizes[name] = sizes.get(name, 0) + size
        return sizes

    @operation(reads_only=True)
    def imports(self, *, cursor: str | None = None, limit: int = 50) -> Page[Import]:
        """Return a page of imported sources, the last updated first.

        A running import without an update for three minutes is shown as interrupted.
        """
        sources = cast(Page[Import], page(self._db, queries.IMPORTS, cursor=cursor, limit=limit))
        silent = self._clock() - timedelta(seconds=SILENT_SECONDS)
        for source in sources.items:
            if source["state"] == "running" and source["updated_at"] < silent:
                source["state"] = imports.INTERRUPTED
        return sources

    @operation(reads_only=True)
    def rejects(self, source: str, *, cursor: str | None = None, limit: int = 50) -> Page[Reject]:
        """Return a page of a source's lines that could not be stored as events, in the order of the file.

        Raises: `Invalid`, `UnknownSource`.
        """
        checks.identifier(source, "source")
        rejects = page(self._db, queries.REJECTS, cursor=cursor, limit=limit, source=source)
        if not rejects.items and self._db[IMPORTS].find_one({"_id": source}, {"_id": 1}) is None:
            raise UnknownSource(f"nothing was imported under {source}", source=source)
        return cast(Page[Reject], rejects)


def _title(path: str | Path | BinaryIO) -> str:
    r"""Return the file's name; bytes that are not UTF-8 become `\xff`, as in a line."""
    name = Path(path).name if isinstance(path, str | Path) else str(getattr(path, "name", "stream"))
    return decoded_line(os.fsencode(name))


def _opened(path: str | Path | BinaryIO) -> AbstractContextManager[BinaryIO]:
    if not isinstance(path, str | Path):
        return nullcontext(path)
    try:
        return Path(path).open("rb")
    except OSError as error:
        raise Invalid(f"{path}: {error.strerror}", field="path") from error


def write_concern(durability: Any) -> WriteConcern:
    """Return the write concern for a level's name, or for a number of members that must confirm the write."""
    if isinstance(durability, int) and not isinstance(durability, bool) and 1 <= durability <= 50:
        return WriteConcern(w=durability)
    if isinstance(durability, str) and durability in LEVELS:
        return LEVELS[durability]
    message = f"durability must be one of {', '.join(LEVELS)}, or a number of members from 1 to 50"
    raise Invalid(message, field="durability")


def _refused(error: BulkWriteError) -> dict[int, str]:
    """Return the reasons of the server, by the positions of the documents that it refused.

    Raises: `Unavailable` if too few members confirmed the other documents.
    """
    details: Any = error.details or {}
    if details.get("writeConcernErrors"):
        raise Unavailable("too few members have confirmed a write", outcome_unknown=True) from error
    return {failed["index"]: failed["errmsg"] for failed in details.get("writeErrors", [])}


def _narrowest(path: str | None, host: str | None) -> tuple[Pipeline, dict[str, str]]:
    if path is not None and host is not None:
        raise Invalid("path and host cannot be combined: give one, not both", field="host")
    for query, name, value in ((queries.BY_PATH, "path", path), (queries.BY_HOST, "host", host)):
        if value is not None:
            return query, {name: checks.text(value, name, max_length=MAX_LINE_LENGTH)}
    return queries.BETWEEN, {}
