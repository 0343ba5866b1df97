"""Reading events from all partitions: merged by time, and each event once, even while events are being moved."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, TypeVar, cast

from pymongo.client_session import ClientSession
from pymongo.errors import OperationFailure, PyMongoError

from squinney.analytics.calendar import EARLIEST, LATEST, floor
from squinney.analytics.events import queries
from squinney.analytics.events.documents import Event
from squinney.analytics.events.partitions import CAPPED, EventPartitions, Events, Policy
from squinney.errors import Invalid, Unavailable
from squinney.mongo.connect import is_away
from squinney.mongo.queries import Query
from squinney.mongo.schema import Document
from squinney.patterns.paging import Page, cursor_keys, page_from

SNAPSHOT_UNAVAILABLE = 246
K = TypeVar("K", bound=Hashable)
Row = tuple[datetime, str]  # a day and a path

DAY_AND_PATH = [("day", 1), ("path", 1)]

# Reads one partition, within a session or without.
Read = Callable[[Events, ClientSession | None], Iterator[Document]]


class Readers:
    """Streams and counts over the partitions of a time range."""

    def __init__(self, partitions: EventPartitions) -> None:
        self._partitions = partitions

    def stream(
        self, query: Query, *, limit: int = 0, projection: Any = None, in_snapshot: bool = False, **arguments: Any
    ) -> Iterator[Event]:
        """Stream the query's events of all partitions in its order; an event that is being moved appears once."""
        ((field, _),) = query.sort

        def read(partition: Events, session: ClientSession | None) -> Iterator[Document]:
            found = partition.find(query(**arguments), projection, limit=limit, batch_size=limit, session=session)
            return found.sort(field, 1)

        start, end = arguments.get("start", EARLIEST), arguments.get("end", LATEST)
        streams = self.streams(read, start, end, in_snapshot=in_snapshot)
        if len(streams) == 1:
            return _with_clear_errors(cast(Iterable[Event], streams[0]))
        return _with_clear_errors(_each_once(heapq.merge(*streams, key=itemgetter(field)), field))

    def count(
        self,
        pipeline: list[Document],
        start: datetime,
        end: datetime,
        *,
        of_row: Callable[[Any], K],
        of_event: Callable[[Event], K | None],
    ) -> Counter[K]:
        """Return the number of events per group: the pipeline's `count` rows, summed over the partitions.

        While events move to or from a capped partition, some are in two partitions. Then the events are counted here
        one by one, except those of no group. The count is repeated if a move began or ended meanwhile.
        """
        while True:
            policy = self._partitions.policy()
            if policy.moving and self._moves_capped(policy, start, end):
                groups = map(of_event, self.stream(queries.BETWEEN, start=start, end=end))
                counts = Counter(group for group in groups if group is not None)
            else:
                counts = self._sum(pipeline, start, end, of_row)
            if self._partitions.policy() == policy:
                return counts

    def _moves_capped(self, policy: Policy, start: datetime, end: datetime) -> bool:
        return policy.strategy == "capped" or any(
            partition.name == CAPPED for partition in self._partitions.spanning(start, end)
        )

    def _sum(self, pipeline: list[Document], start: datetime, end: datetime, of_row: Callable[[Any], K]) -> Counter[K]:
        def read(partition: Events, session: ClientSession | None) -> Iterator[Document]:
            return iter(partition.aggregate(pipeline, allowDiskUse=True, session=session))

        counts: Counter[K] = Counter()
        for row in chain.from_iterable(self.streams(read, start, end)):
            counts[of_row(row["_id"])] += row["count"]
        return counts

    def streams(
        self, read: Read, start: datetime = EARLIEST, end: datetime = LATEST, *, in_snapshot: bool = False
    ) -> list[Iterable[Document]]:
        """Return the results of `read` per partition; an event that is being moved may appear in two of them.

        With `in_snapshot` none is missed, even by a reader that is suspended until events move.
        """
        if not in_snapshot and not self._partitions.policy().moving:
            return [read(partition, None) for partition in self._partitions.spanning(start, end)]
        while True:
            try:
                partitions = self._partitions.spanning(start, end)
                streams = self._in_one_snapshot(read, partitions)
            except OperationFailure as error:  # a partition was just created
                if error.code != SNAPSHOT_UNAVAILABLE:
                    raise
                continue
            # A partition that was created after the list may contain events that moved before the snapshot.
            if set(self._partitions.spanning(start, end)) <= set(partitions):
                return streams

    def _in_one_snapshot(self, read: Read, partitions: list[Events]) -> list[Iterable[Document]]:
        """Read all partitions in one snapshot, except a capped one, which snapshots do not support.

        Events are inserted into their new partition before they are deleted from the old one. So a capped partition
        that events leave is read completely before the snapshot, and one that events enter is read after it.
        """
        capped = [partition for partition in partitions if partition.name == CAPPED]
        leaving = self._partitions.policy().strategy != "capped"
        before: list[Iterable[Document]] = [list(read(partition, None)) for partition in capped] if leaving else []
        session = self._partitions.db.client.start_session(snapshot=True)
        snapshot = [_begun(read(partition, session)) for partition in partitions if partition.name != CAPPED]
        after: list[Iterable[Document]] = [] if leaving else [read(partition, None) for partition in capped]
        return [*before, *snapshot, *after]


def _begun(stream: Iterator[Document]) -> Iterable[Document]:
    """Fetch the first event now, because the first read sets the time of the session's snapshot."""
    first = next(stream, None)
    return [] if first is None else chain([first], stream)


def _with_clear_errors(events: Iterable[Event]) -> Iterator[Event]:
    """Yield the events; raise `Unavailable` if MongoDB cannot be reached when more of them are fetched."""
    try:
        yield from events
    except PyMongoError as error:
        if not is_away(error):
            raise
        raise Unavailable("MongoDB cannot be reached") from error


def _each_once(events: Iterator[Document], field: str) -> Iterator[Event]:
    """Drop duplicates. Both copies of an event are equal in the sort's field, so only the ids of one are remembered."""
    for _, equal in groupby(events, itemgetter(field)):
        seen: set[str] = set()
        for event in equal:
            if event["_id"] not in seen:
                seen.add(event["_id"])
                yield cast(Event, event)


# ---- reports ----


def by_day_and_path(
    readers: Readers, start: datetime, end: datetime, *, cursor: str | None, limit: int
) -> Page[Document]:
    """Return the page of rows after the cursor, sorted by day and path; it reads only as many days as needed."""
    after = None if cursor is None else _row_of(cursor)
    found: list[Document] = []
    for first, last in _spans(max(start, after[0]) if after else start, end):
        counts = readers.count(
            queries.BY_DAY_AND_PATH(start=first, end=last, after=after, limit=limit + 1),
            first,
            last,
            of_row=lambda row: (row["day"], row["path"]),
            of_event=lambda event: (floor(event["time"], "day", UTC), _cut(event.get("path"))),
        )
        rows = sorted(row for row in counts if after is None or row > after)
        found += [{"day": day, "path": path, "count": counts[day, path]} for day, path in rows]
        if len(found) > limit:
            break
    return page_from(found, DAY_AND_PATH, limit=limit)


def _row_of(cursor: str) -> Row:
    day, path = cursor_keys(DAY_AND_PATH, cursor).values()
    if not isinstance(day, datetime) or not isinstance(path, str):
        raise Invalid("cursor is not a cursor of this list", field="cursor")
    return day, path


def _cut(path: str | None) -> str:
    return (path or "")[: queries.LONGEST_IN_A_REPORT]


def _spans(start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Yield spans of one day, then two, four and so on, so that many empty days need only a few queries."""
    days = 1
    while start < end:
        last = floor(start, "day", UTC) + timedelta(days=min(days, (end - start).days + 1))
        yield start, min(last, end)
        start, days = last, days * 2
