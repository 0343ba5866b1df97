"""`EventLog`: record, import and read events."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, cast

from squinney import checks
from squinney.analytics import parsers, rules
from squinney.analytics.errors import UnknownSource
from squinney.analytics.events import durability as levels
from squinney.analytics.events import imports, queries
from squinney.analytics.events.documents import LONGEST_SITE, Event, Import, Reject
from squinney.analytics.events.durability import Durability
from squinney.analytics.events.follow import Follower
from squinney.analytics.events.imports import Imported, Progress
from squinney.analytics.events.partitions import EventPartitions, Failure
from squinney.analytics.events.readers import Readers, by_day_and_path
from squinney.analytics.events.reading import LONGEST_LINE
from squinney.analytics.events.storing import Options, as_text, with_storage_fields
from squinney.clock import Clock, utcnow
from squinney.errors import Invalid
from squinney.mongo.connect import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.queries import Query
from squinney.mongo.schema import Db, Document
from squinney.patterns.ids import new_id
from squinney.patterns.paging import Page, page
from squinney.transactions import Key, Plan, Transactions

MOST_AT_ONCE = 10_000
MOST_A_PAGE = 1_000
# A running import updates its record with every chunk, and each write may wait up to a minute for MongoDB.
SILENT_SECONDS = 180


@dataclass(frozen=True)
class Recorded:
    """The number of stored events, and the failures, each with the event's position in the call."""

    stored: int
    failures: list[Failure] = field(default_factory=list)


class EventLog:
    """The log store: events recorded one by one, in batches, or imported from log files exactly once."""

    def __init__(
        self,
        db: Db,
        *,
        partitions: EventPartitions | None = None,
        transactions: Transactions | None = None,
        clock: Clock = utcnow,
    ) -> None:
        self._db = pinned(db)
        self._transactions = transactions or Transactions(db)
        self._partitions = partitions or EventPartitions(db)
        self._readers = Readers(self._partitions)
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

        Atomic: one insert; with a key, first the key's record, which contains the event's id.
        After a crash: the event is stored or not; a repeat with the same key stores it if it is missing.
        Raises: `Invalid`, also for an event older than the retention policy keeps; with a key also `KeyReused` and
        `StillRunning`.
        """
        concern = levels.write_concern(durability)
        (document,) = self._identified([rules.checked_event(event)], key)
        failures = self._partitions.insert([document], concern)
        if failures:
            raise Invalid(failures[0].reason, field="event")
        return cast(Event, document)

    @operation(60)
    def record_many(
        self,
        events: Iterable[Mapping[str, object]],
        *,
        durability: Durability = "replicated",
        key: str | Key | None = None,
    ) -> Recorded:
        """Store up to 10,000 events, once per `key`, and report every event that was not stored.

        Atomic: each event separately, in no order; with a key, first the key's record, from which the ids are derived.
        After a crash: some events are stored. A repeat with the same key stores the others; without a key it would
        store all of them again.
        Raises: `Invalid` for too many events; problems of single events are in the result's `failures`. With a key also
        `KeyReused` and `StillRunning`.
        """
        concern = levels.write_concern(durability)
        checked: list[tuple[int, Document]] = []
        failures: list[Failure] = []
        for index, event in enumerate(events):
            if index >= MOST_AT_ONCE:
                raise Invalid(f"at most {MOST_AT_ONCE} events at once", field="events", limit=MOST_AT_ONCE)
            try:
                checked.append((index, rules.checked_event(event)))
            except Invalid as error:
                failures.append(Failure(index, error.message, dict(event) if isinstance(event, Mapping) else {}))
        documents = self._identified([event for _, event in checked], key)
        refused = self._partitions.insert(documents, concern) if documents else []
        failures += [Failure(checked[failure.index][0], failure.reason, failure.document) for failure in refused]
        return Recorded(len(documents) - len(refused), sorted(failures, key=lambda failure: failure.index))

    def _identified(self, events: list[Document], key: str | Key | None) -> list[Document]:
        """Return the events with new ids, or with the ids that the first use of the key gave them."""
        if key is None:
            return [with_storage_fields(event, new_id()) for event in events]
        plan = Plan([], result=new_id())
        arguments = {"events": events}
        first = self._transactions.run("record-events", plan, key=key, arguments=arguments).result
        return [with_storage_fields(event, f"{first}{index:04d}") for index, event in enumerate(events)]

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
        durability: Durability = "replicated",
        processes: int = 1,
        uri: str | None = None,
        progress: Callable[[Progress], None] | None = None,
        after_checkpoint: Callable[[Import], None] | None = None,
        take_unterminated: bool = False,
        title: str = "",
    ) -> Imported:
        """Import a log file (plain or compressed) or an open stream; each line is stored once, even if it is repeated.

        Lines that cannot be parsed are kept in `rejects` with their number and the reason. `fields` limits which fields
        of each event are stored. A last line without a line end is left for the next import, unless `take_unterminated`
        is set. More than one of `processes` needs the `uri`, since each process opens its own connection.
        `after_checkpoint` is called with the source after each checkpoint, and also when there is nothing new to
        import: this makes up for a call that a crash prevented.

        Atomic: the update of the checkpoint, after each chunk of about a megabyte.
        After a crash: there may be events beyond the checkpoint; a repeated import continues from the checkpoint and
        stores no event twice.
        Raises: `Invalid`, `NotALog`, `UnknownFormat`, `ImportRunning`, `Unavailable`.
        """
        concern = levels.write_concern(durability)
        if not concern.acknowledged:
            message = "durability: an import cannot fire and forget, because its checkpoints need acknowledged writes"
            raise Invalid(message, field="durability")
        options = Options(
            name=None if source is None else checks.text(source, "source", least=1, most=500),
            title=title or source or _title(path),
            site=checks.text(site, "site", most=LONGEST_SITE),
            format=format,
            field_map=field_map,
            fields=fields,
            concern=concern,
            processes=checks.integer(processes, "processes", least=1, most=64),
            uri=uri,
            take_unterminated=take_unterminated,
        )
        if processes > 1 and uri is None:
            raise Invalid("uri is required for more than one process", field="uri")
        if format != "auto" or field_map:
            parsers.parser_for(format, field_map)
        if unknown := set(fields or ()) - set(parsers.FIELDS):
            raise Invalid(f"fields: {min(unknown)} is not one of {', '.join(parsers.FIELDS)}", field="fields")
        with _opened(path) as raw:
            return imports.import_stream(
                self._partitions, raw, options, progress=progress, after_checkpoint=after_checkpoint, clock=self._clock
            )

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
        `on_import` is called after each import that read new lines.

        Atomic: as `import_file`.
        After a crash: follow the log again; it continues from its checkpoint.
        Raises: as `import_file`, but waits while MongoDB is unreachable or another import reads the same log.
        """

        checks.seconds(poll_seconds, "poll_seconds")
        if "source" in options:
            raise Invalid("source: a followed log is identified by its content, not by a name", field="source")

        def read(file: BinaryIO) -> Imported:
            file.seek(0)
            return self.import_file(file, title=_title(path), **options)

        def is_known(file: BinaryIO) -> bool:
            return imports.is_known(self._db, file)

        Follower(Path(path), read, is_known, on_import).run(stop or threading.Event(), poll_seconds)

    # ---- reading ----

    @operation(60, reads_only=True)
    def by_path(self, path: str, start: datetime | None = None, end: datetime | None = None) -> Iterator[Event]:
        """Stream the events with a path, oldest first.

        Raises: `Invalid`.
        """
        checks.text(path, "path", most=LONGEST_LINE)
        first, last = rules.checked_open_range(start, end)
        return self._readers.stream(queries.BY_PATH, path=path, start=first, end=last)

    @operation(60, reads_only=True)
    def by_host(self, host: str, start: datetime | None = None, end: datetime | None = None) -> Iterator[Event]:
        """Stream the events of a client host, oldest first.

        Raises: `Invalid`.
        """
        checks.text(host, "host", most=LONGEST_LINE)
        first, last = rules.checked_open_range(start, end)
        return self._readers.stream(queries.BY_HOST, host=host, start=first, end=last)

    @operation(60, reads_only=True)
    def between(self, start: datetime, end: datetime) -> Iterator[Event]:
        """Stream the events from `start` (included) to `end` (excluded), oldest first."""
        start, end = rules.checked_range(start, end)
        return self._readers.stream(queries.BETWEEN, start=start, end=end)

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

        Events with the same time are always on the same page, so that the indexes need not contain the id.
        """
        start, end = rules.checked_range(start, end)
        checks.integer(limit, "limit", least=1, most=MOST_A_PAGE)
        query, arguments = _narrowest(path, host)
        read = partial(self._readers.stream, query, **arguments)
        found = list(islice(read(start=start, end=end, limit=limit + 1), limit + 1))
        if len(found) <= limit:
            return Page(found)
        last = found[-1]["time"]
        whole = [event for event in found if event["time"] < last]
        if not whole:  # more events than `limit` have the same time: return all of them
            just_after = last + timedelta(milliseconds=1)
            whole = list(read(start=last, end=just_after))
            last = just_after
        return Page(whole, last.isoformat() if last < end else None)

    @operation(60, reads_only=True)
    def count_by_day_and_path(
        self, start: datetime, end: datetime, *, cursor: str | None = None, limit: int = MOST_A_PAGE
    ) -> Page[Document]:
        """Return the number of requests per day (UTC) and path: rows of `day`, `path` and `count`, sorted.

        Paths with the same first 512 characters are counted together.

        Raises: `Invalid`.
        """
        start, end = rules.checked_range(start, end)
        checks.integer(limit, "limit", least=1, most=MOST_A_PAGE)
        return by_day_and_path(self._readers, start, end, cursor=cursor, limit=limit)

    @operation(60, reads_only=True)
    def count_by_status(self, start: datetime, end: datetime, *, site: str | None = None) -> dict[int, int]:
        """Return the number of events per status, of one site or of all sites."""
        start, end = rules.checked_range(start, end)
        counts = self._readers.count(
            queries.BY_STATUS(start=start, end=end, site=site),
            start,
            end,
            of_row=lambda status: int(status or 0),
            of_event=lambda event: event.get("status") or 0 if site in (None, event.get("site", "")) else None,
        )
        return dict(sorted(counts.items()))

    @operation(reads_only=True)
    def count(self) -> int:
        """Return the estimated number of events, from collection metadata."""
        return sum(partition.estimated_document_count() for partition in self._partitions.spanning())

    @operation(reads_only=True)
    def index_sizes(self) -> dict[str, int]:
        """Return the size of each index in bytes, summed over all partitions of the events."""
        sizes: Counter[str] = Counter()
        for partition in self._partitions.spanning():
            for row in partition.aggregate([{"$collStats": {"storageStats": {}}}]):
                sizes.update(row["storageStats"]["indexSizes"])
        return dict(sizes)

    @operation(reads_only=True)
    def imports(self, *, cursor: str | None = None, limit: int = 50) -> Page[Import]:
        """Return a page of imported sources, the last updated first.

        A running import without an update for three minutes is shown as interrupted.
        """
        found = cast(Page[Import], page(self._db, queries.IMPORTS, cursor=cursor, limit=limit))
        silent = self._clock() - timedelta(seconds=SILENT_SECONDS)
        for source in found.items:
            if source["state"] == "running" and source["updated_at"] < silent:
                source["state"] = imports.INTERRUPTED
        return found

    @operation(reads_only=True)
    def rejects(self, source: str, *, cursor: str | None = None, limit: int = 50) -> Page[Reject]:
        """Return a page of a source's lines that could not be stored as events, in the order of the file.

        Raises: `Invalid`, `UnknownSource`.
        """
        checks.identifier(source, "source")
        found = page(self._db, queries.REJECTS, cursor=cursor, limit=limit, source=source)
        if not found.items and self._db["imports"].find_one({"_id": source}, {"_id": 1}) is None:
            raise UnknownSource(f"nothing was imported under {source}", source=source)
        return cast(Page[Reject], found)


def _title(path: str | Path | BinaryIO) -> str:
    r"""Return the file's name; bytes that are not UTF-8 become `\xff`, as in a line."""
    name = Path(path).name if isinstance(path, str | Path) else str(getattr(path, "name", "stream"))
    return as_text(os.fsencode(name))


def _opened(path: str | Path | BinaryIO) -> AbstractContextManager[BinaryIO]:
    if not isinstance(path, str | Path):
        return nullcontext(path)
    try:
        return Path(path).open("rb")
    except OSError as error:
        raise Invalid(f"{path}: {error.strerror}", field="path") from error


def _narrowest(path: str | None, host: str | None) -> tuple[Query, dict[str, Any]]:
    if path is not None and host is not None:
        raise Invalid("path and host cannot be combined: give one, not both", field="host")
    for query, name, value in ((queries.BY_PATH, "path", path), (queries.BY_HOST, "host", host)):
        if value is not None:
            return query, {name: checks.text(value, name, most=LONGEST_LINE)}
    return queries.BETWEEN, {}
