"""Reading events from all partitions at once: merged by time, each once, also while they move to another one."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any, TypeVar, cast

from pymongo.client_session import ClientSession
from pymongo.errors import OperationFailure, PyMongoError

from squinney.analytics.calendar import floor
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
        self, query: Query, start: datetime, end: datetime, *, limit: int = 0, **arguments: Any
    ) -> Iterator[Event]:
        """The partitions' streams, merged by time here; an event that is just being moved between two comes once."""

        def read(partition: Events, session: ClientSession | None) -> Iterator[Document]:
            where = query(start=start, end=end, **arguments)
            return partition.find(where, limit=limit, session=session).sort(list(query.sort))

        streams = self.streams(read, start, end)
        if len(streams) == 1:
            return _with_clear_errors(cast(Iterable[Event], streams[0]))
        return _with_clear_errors(_each_once(heapq.merge(*streams, key=lambda event: event["time"])))

    def count(
        self,
        pipeline: list[Document],
        start: datetime,
        end: datetime,
        *,
        of_row: Callable[[Any], K],
        of_event: Callable[[Event], K],
    ) -> Counter[K]:
        """How many events there are of each kind: the pipeline's `count`s on the server, summed over the partitions.

        While events move to or from a capped partition some are in both, so they are counted here one by one, and once
        more where a move began or ended meanwhile.
        """
        while True:
            policy = self._partitions.policy()
            if policy.moving and self._is_capped_part_of_it(policy, start, end):
                counts = Counter(of_event(event) for event in self.stream(queries.BETWEEN, start, end))
            else:
                counts = self._sum(pipeline, start, end, of_row)
            if self._partitions.policy() == policy:
                return counts

    def _is_capped_part_of_it(self, policy: Policy, start: datetime, end: datetime) -> bool:
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
        self, read: Read, start: datetime | None = None, end: datetime | None = None
    ) -> list[Iterable[Document]]:
        """What `read` finds in each partition; while events move, one that is being moved is in one or two."""
        if not self._partitions.policy().moving:
            return [read(partition, None) for partition in self._partitions.spanning(start, end)]
        while True:
            try:
                partitions = self._partitions.spanning(start, end)
                streams = self._as_of_one_moment(read, partitions)
            except OperationFailure as error:  # a partition is being made at this moment
                if error.code != SNAPSHOT_UNAVAILABLE:
                    raise
                continue
            # What moved, before that moment, to a partition that was made after the list would be missed.
            if set(self._partitions.spanning(start, end)) <= set(partitions):
                return streams

    def _as_of_one_moment(self, read: Read, partitions: list[Events]) -> list[Iterable[Document]]:
        """All partitions as of one moment. A capped one cannot be, but events are inserted before they are deleted.

        So those that leave it are read, all of them, before that moment, and those that come to it after.
        """
        capped = [partition for partition in partitions if partition.name == CAPPED]
        leaving = self._partitions.policy().strategy != "capped"
        left: list[Iterable[Document]] = [list(read(partition, None)) for partition in capped] if leaving else []
        session = self._partitions.db.client.start_session(snapshot=True)
        moment = [_begun(read(partition, session)) for partition in partitions if partition.name != CAPPED]
        came: list[Iterable[Document]] = [] if leaving else [read(partition, None) for partition in capped]
        return [*left, *moment, *came]


def _begun(stream: Iterator[Document]) -> Iterable[Document]:
    """The stream, asked for its first event by now: that fixes the session's moment."""
    first = next(stream, None)
    return [] if first is None else chain([first], stream)


def _with_clear_errors(events: Iterable[Event]) -> Iterator[Event]:
    """The events; what fails when more of them are fetched, long after the call that asked for them, is told alike."""
    try:
        yield from events
    except PyMongoError as error:
        if not is_away(error):
            raise
        raise Unavailable("MongoDB cannot be reached") from error


def _each_once(events: Iterator[Document]) -> Iterator[Event]:
    """Drop what comes twice: both copies have the same time, so only that instant's ids need be known."""
    instant: datetime | None = None
    seen: set[str] = set()
    for event in events:
        if event["time"] != instant:
            instant, seen = event["time"], set()
        if event["_id"] not in seen:
            seen.add(event["_id"])
            yield cast(Event, event)


# ---- reports ----


def by_day_and_path(
    readers: Readers, start: datetime, end: datetime, *, cursor: str | None, limit: int
) -> Page[Document]:
    """The rows behind the cursor, by day and path; a page looks at the days that it takes, and some more."""
    behind = None if cursor is None else _behind(cursor)
    found: list[Document] = []
    for first, last in _spans(max(start, behind[0]) if behind else start, end):
        counts = readers.count(
            queries.BY_DAY_AND_PATH(start=first, end=last, behind=behind, limit=limit + 1),
            first,
            last,
            of_row=lambda row: (row["day"], row["path"]),
            of_event=lambda event: (floor(event["time"], "day", UTC), _cut(event.get("path"))),
        )
        rows = sorted(row for row in counts if behind is None or row > behind)
        found += [{"day": day, "path": path, "count": counts[day, path]} for day, path in rows]
        if len(found) > limit:
            break
    return page_from(found, DAY_AND_PATH, limit=limit)


def _behind(cursor: str) -> Row:
    day, path = cursor_keys(DAY_AND_PATH, cursor).values()
    if not isinstance(day, datetime) or not isinstance(path, str):
        raise Invalid("cursor is not a cursor of this list", field="cursor")
    return day, path


def _cut(path: str | None) -> str:
    return (path or "")[: queries.LONGEST_IN_A_REPORT]


def _spans(start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """One day, then two, four and so on: a few full days fill a page, and many that are empty take few questions."""
    days = 1
    while start < end:
        last = floor(start, "day", UTC) + timedelta(days=min(days, (end - start).days + 1))
        yield start, min(last, end)
        start, days = last, days * 2
