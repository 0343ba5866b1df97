"""`EventLog`: record, import and read events."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timedelta
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
from squinney.analytics.events.storing import Options, as_text, made_ready
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
OTHERS = -1  # the status of events of other sites, where they are counted one by one
MOST_A_PAGE = 1_000
# A running import says so with every chunk; two of them may each wait a minute for MongoDB.
SILENT_SECONDS = 180


@dataclass(frozen=True)
class Recorded:
    """How many events were stored, and each one that was not, by its position in the call."""

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
        """Store one event, once per `key`, and return it; its `time` must be given, with its zone.

        Atomic: one insert; with a key, first the key's record, which has the event's id.
        After a crash: it is stored or it is not; a repeat with the key stores it where it is not.
        Raises: `Invalid`; also for an event older than retention keeps; with a key also `KeyReused`, `StillRunning`.
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
        """Store up to 10,000 events, once per `key`, and report every one that cannot be.

        Atomic: each event by itself, in no order; with a key, first the key's record, from which their ids follow.
        After a crash: some are stored; a repeat with the key stores the others. Without one there is no telling which.
        Raises: `Invalid` for too many; what is wrong with single events is in the answer. With a key also `KeyReused`
        and `StillRunning`.
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
        """The events with ids: new ones, or those that the key's first use gave them."""
        if key is None:
            return [made_ready(event, new_id()) for event in events]
        plan = Plan([], result=new_id())
        arguments = {"events": events}
        first = self._transactions.run("record-events", plan, key=key, arguments=arguments).result
        return [made_ready(event, f"{first}{index:04d}") for index, event in enumerate(events)]

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
        """Read a log, plain or compressed, or an open stream, into events; each line once, however often it is run.

        What is no event is kept in `rejects` with its number and the reason. `fields` keeps only some of each event.
        The last line counts only when its end has come, or at once with `take_unterminated`.
        More `processes` than one connect by themselves and need the `uri`. `after_checkpoint` is called with the
        source each time that some more of it is stored for good, and once where there is no more: what died between a
        checkpoint and this call is made up for.

        Atomic: the checkpoint's update, behind each chunk of about a megabyte.
        After a crash: events beyond the checkpoint; importing the file again goes on there and adds none twice.
        Raises: `Invalid`, `NotALog`, `UnknownFormat`, `ImportRunning`, `Unavailable`.
        """
        options = Options(
            name=None if source is None else checks.text(source, "source", least=1, most=500),
            title=title or source or _title(path),
            site=checks.text(site, "site", most=LONGEST_SITE),
            format=format,
            field_map=field_map,
            fields=fields,
            concern=levels.for_import(durability),
            processes=checks.integer(processes, "processes", least=1, most=64),
            uri=uri,
            take_unterminated=take_unterminated,
        )
        if processes > 1 and uri is None:
            raise Invalid("more processes than one need the uri to connect to", field="uri")
        if format != "auto" or field_map:
            parsers.parser_for(format, field_map)
        if unknown := set(fields or ()) - set(parsers.FIELDS):
            raise Invalid(f"{min(unknown)} is none of {', '.join(parsers.FIELDS)}", field="fields")
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
        """Import what a log has and what is added to it, through rotations, until `stop` is set.

        `options` are those of `import_file`, but a `source`: each rotated log is known by its content. `on_import` is
        told whenever some lines were read.

        Atomic: as `import_file`.
        After a crash: follow it again; it goes on where it stood.
        Raises: as `import_file`, but waits while MongoDB is away or another import reads the same log.
        """

        checks.seconds(poll_seconds, "poll_seconds")
        if "source" in options:
            raise Invalid("a log that is followed is known by its content, not by a name", field="source")

        def read(file: BinaryIO) -> Imported:
            return self.import_file(file, title=_title(path), **options)

        def knows(file: BinaryIO) -> bool:
            return imports.is_known(self._db, file)

        Follower(Path(path), read, knows, on_import).run(stop or threading.Event(), poll_seconds)

    # ---- reading ----

    @operation(60, reads_only=True)
    def by_path(self, path: str, start: datetime | None = None, end: datetime | None = None) -> Iterator[Event]:
        """Stream the events of a path, oldest first.

        Raises: `Invalid`.
        """
        checks.text(path, "path", most=LONGEST_LINE)
        return self._readers.stream(queries.BY_PATH, *rules.checked_sides(start, end), path=path)

    @operation(60, reads_only=True)
    def by_host(self, host: str, start: datetime | None = None, end: datetime | None = None) -> Iterator[Event]:
        """Stream the events of a visitor's host, oldest first.

        Raises: `Invalid`.
        """
        checks.text(host, "host", most=LONGEST_LINE)
        return self._readers.stream(queries.BY_HOST, *rules.checked_sides(start, end), host=host)

    @operation(60, reads_only=True)
    def between(self, start: datetime, end: datetime) -> Iterator[Event]:
        """Stream the events from `start` to before `end`, oldest first."""
        return self._readers.stream(queries.BETWEEN, *rules.checked_range(start, end))

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
        """About `limit` events from `start`, oldest first; `next` is the time (ISO 8601) to go on from.

        A page ends between two instants, never within one, so that the indexes need not hold the id as well.
        """
        start, end = rules.checked_range(start, end)
        checks.integer(limit, "limit", least=1, most=MOST_A_PAGE)
        query, arguments = _narrowest(path, host)
        found = list(islice(self._readers.stream(query, start, end, limit=limit + 1, **arguments), limit + 1))
        if len(found) <= limit:
            return Page(found)
        last = found[-1]["time"]
        whole = [event for event in found if event["time"] < last]
        if not whole:  # more events in this instant than the page holds: give them all
            just_behind = last + timedelta(milliseconds=1)
            whole = list(self._readers.stream(query, last, just_behind, **arguments))
            last = just_behind
        return Page(whole, last.isoformat() if last < end else None)

    @operation(60, reads_only=True)
    def count_by_day_and_path(
        self, start: datetime, end: datetime, *, cursor: str | None = None, limit: int = MOST_A_PAGE
    ) -> Page[Document]:
        """How often each path was asked for on each day (UTC): rows of `day`, `path` and `count`, by day and path.

        Paths that are alike in their first 512 characters are one.

        Raises: `Invalid`.
        """
        start, end = rules.checked_range(start, end)
        checks.integer(limit, "limit", least=1, most=MOST_A_PAGE)
        return by_day_and_path(self._readers, start, end, cursor=cursor, limit=limit)

    @operation(60, reads_only=True)
    def count_by_status(self, start: datetime, end: datetime, *, site: str | None = None) -> dict[int, int]:
        """How many events have each status, of one site or of all."""
        start, end = rules.checked_range(start, end)
        counts = self._readers.count(
            queries.BY_STATUS(start=start, end=end, site=site),
            start,
            end,
            of_row=lambda status: int(status or 0),
            of_event=lambda event: event.get("status") or 0 if site in (None, event.get("site", "")) else OTHERS,
        )
        return {status: count for status, count in sorted(counts.items()) if status != OTHERS}

    @operation(reads_only=True)
    def count(self) -> int:
        """How many events there are, from the collections' own figures."""
        return sum(partition.estimated_document_count() for partition in self._partitions.spanning())

    @operation(reads_only=True)
    def index_sizes(self) -> dict[str, int]:
        """The bytes of each index, over all partitions of the events."""
        sizes: Counter[str] = Counter()
        for partition in self._partitions.spanning():
            for row in partition.aggregate([{"$collStats": {"storageStats": {}}}]):
                sizes.update(row["storageStats"]["indexSizes"])
        return dict(sizes)

    @operation(reads_only=True)
    def imports(self, *, cursor: str | None = None, limit: int = 50) -> Page[Import]:
        """The imported sources, the last used first. One that is silent in the middle was interrupted."""
        found = cast(Page[Import], page(self._db, queries.IMPORTS, cursor=cursor, limit=limit))
        silent = self._clock() - timedelta(seconds=SILENT_SECONDS)
        for one in found.items:
            if one["state"] == "running" and one["updated_at"] < silent:
                one["state"] = imports.INTERRUPTED
        return found

    @operation(reads_only=True)
    def rejects(self, source: str, *, cursor: str | None = None, limit: int = 50) -> Page[Reject]:
        """The lines of a source that are no events, in the order of the file.

        Raises: `Invalid`, `UnknownSource`.
        """
        checks.identifier(source, "source")
        found = page(self._db, queries.REJECTS, cursor=cursor, limit=limit, source=source)
        if not found.items and self._db["imports"].find_one({"_id": source}, {"_id": 1}) is None:
            raise UnknownSource(f"nothing was imported under {source}", source=source)
        return cast(Page[Reject], found)


def _title(path: str | Path | BinaryIO) -> str:
    """The name of the file; what of it is not UTF-8 stays as in a line."""
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
        raise Invalid("choose by path or by host, not both", field="host")
    if path is not None:
        return queries.BY_PATH, {"path": checks.text(path, "path", most=LONGEST_LINE)}
    if host is not None:
        return queries.BY_HOST, {"host": checks.text(host, "host", most=LONGEST_LINE)}
    return queries.BETWEEN, {}
