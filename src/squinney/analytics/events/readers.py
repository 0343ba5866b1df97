"""Reading events from all their places at once: merged by time, each once, also while they move from one to another."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from datetime import datetime
from itertools import chain
from typing import Any, TypeVar, cast

from pymongo.client_session import ClientSession
from pymongo.errors import OperationFailure, PyMongoError

from squinney.analytics.documents import Event
from squinney.analytics.events.places import CAPPED, Events, Places, Policy
from squinney.errors import Unavailable
from squinney.mongo.connect import is_away
from squinney.mongo.queries import Query
from squinney.mongo.schema import Document

SNAPSHOT_UNAVAILABLE = 246
K = TypeVar("K", bound=Hashable)

# Reads one place, within a session or without.
Read = Callable[[Events, ClientSession | None], Iterator[Document]]


class Readers:
    """Streams and counts over the places of a time range."""

    def __init__(self, places: Places) -> None:
        self._places = places

    def stream(
        self, query: Query, start: datetime | None, end: datetime | None, *, limit: int = 0, **arguments: Any
    ) -> Iterator[Event]:
        """The places' streams, merged by time here; an event that is just being moved between two comes once."""

        def read(place: Events, session: ClientSession | None) -> Iterator[Document]:
            where = query(start=start, end=end, **arguments)
            return place.find(where, limit=limit, session=session).sort(list(query.sort))

        streams = self.streams(read, start, end)
        if len(streams) == 1:
            return _told(cast(Iterable[Event], streams[0]))
        return _told(_each_once(heapq.merge(*streams, key=lambda event: event["time"])))

    def count(
        self,
        pipeline: list[Document],
        query: Query,
        start: datetime,
        end: datetime,
        *,
        of_row: Callable[[Any], K],
        of_event: Callable[[Event], K],
    ) -> Counter[K]:
        """How many events there are of each kind: the pipeline's `count`s on the server, summed over the places.

        While events move to or from a capped place some are in both, so they are counted here one by one. Where a move
        began or ended meanwhile, they are counted again.
        """
        while True:
            policy = self._places.policy()
            if policy.moving and self._is_capped_part_of_it(policy, start, end):
                counts = Counter(of_event(event) for event in self.stream(query, start, end))
            else:
                counts = self._sum(pipeline, start, end, of_row)
            if self._places.policy() == policy:
                return counts

    def _is_capped_part_of_it(self, policy: Policy, start: datetime, end: datetime) -> bool:
        return policy.strategy == "capped" or any(place.name == CAPPED for place in self._places.spanning(start, end))

    def _sum(self, pipeline: list[Document], start: datetime, end: datetime, of_row: Callable[[Any], K]) -> Counter[K]:
        def read(place: Events, session: ClientSession | None) -> Iterator[Document]:
            return iter(place.aggregate(pipeline, allowDiskUse=True, session=session))

        counts: Counter[K] = Counter()
        for row in chain.from_iterable(self.streams(read, start, end)):
            counts[of_row(row["_id"])] += row["count"]
        return counts

    def streams(
        self, read: Read, start: datetime | None = None, end: datetime | None = None
    ) -> list[Iterable[Document]]:
        """What `read` finds in each place; while events move, one that is being moved is in one of them, or in two."""
        if not self._places.policy().moving:
            return [read(place, None) for place in self._places.spanning(start, end)]
        while True:
            try:
                places = self._places.spanning(start, end)
                streams = self._as_of_one_moment(read, places)
            except OperationFailure as error:  # a place is being made at this moment
                if error.code != SNAPSHOT_UNAVAILABLE:
                    raise
                continue
            # What moved, before that moment, to a place that was made after the list would be missed.
            if set(self._places.spanning(start, end)) <= set(places):
                return streams

    def _as_of_one_moment(self, read: Read, places: list[Events]) -> list[Iterable[Document]]:
        """All places as of one moment. A capped one cannot be, but events are always inserted before they are deleted.

        So those that leave it are read, all of them, before that moment, and those that come to it after.
        """
        capped = [place for place in places if place.name == CAPPED]
        leaving = self._places.policy().strategy != "capped"
        left: list[Iterable[Document]] = [list(read(place, None)) for place in capped] if leaving else []
        session = self._places.db.client.start_session(snapshot=True)
        moment = [_begun(read(place, session)) for place in places if place.name != CAPPED]
        came: list[Iterable[Document]] = [] if leaving else [read(place, None) for place in capped]
        return [*left, *moment, *came]


def _begun(stream: Iterator[Document]) -> Iterable[Document]:
    """The stream, asked for its first event by now: that fixes the session's moment."""
    first = next(stream, None)
    return [] if first is None else chain([first], stream)


def _told(events: Iterable[Event]) -> Iterator[Event]:
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
