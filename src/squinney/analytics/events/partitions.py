"""The collections that store events: a single one, or one per day or month, depending on the retention policy.

A partition is one of these collections. Writers use the partition for an event's time; readers use all partitions that
may contain events of a time range. Readers look into partitions of every strategy, so that no event disappears while
the policy changes and events are moved.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any, Literal

from bson.raw_bson import RawBSONDocument
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError
from pymongo.write_concern import WriteConcern

from squinney.analytics.calendar import EARLIEST, LATEST, following
from squinney.analytics.events.documents import events_collection
from squinney.errors import Unavailable
from squinney.mongo import schema
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import DUPLICATE_KEY, Db, Document

Strategy = Literal["keep", "ttl", "capped", "rotate", "rotate-databases"]
Unit = Literal["day", "month"]
Events = Collection[Document]
Span = tuple[datetime, datetime]
Storable = Document | RawBSONDocument  # imports encode most of their events themselves

EVENTS = "events"
CAPPED = "events.capped"
# The name of a day's or month's partition after that of the main database: `.events.d20260517`, `_d20260517.events`.
_PARTITION = re.compile(r"(?:\.events\.|_)([dm])(\d{4})(\d\d)(\d\d)?(?:\.events)?")


@dataclass(frozen=True)
class Policy:
    """What happens to old events. `keep_seconds` is their maximum age for ttl and rotate; None keeps all.

    New events with a time before `closed_before` are refused. Events before `frozen_before` are dropped or being
    dropped. `databases_used` is set once the strategy was rotate-databases. `moving` is set while events move.
    """

    strategy: Strategy = "keep"
    unit: Unit = "day"
    keep_seconds: int | None = None
    size_bytes: int | None = None
    closed_before: datetime | None = None
    closed_at: datetime | None = None
    frozen_before: datetime | None = None
    databases_used: bool = False
    moving: bool = False


@dataclass(frozen=True)
class Failure:
    """An event that was not stored: its position in the batch, and the reason."""

    index: int
    reason: str
    document: Storable


class EventPartitions:
    """The partitions of one database's events. It notices a change of policy within `refresh_seconds`."""

    def __init__(self, db: Db, *, refresh_seconds: float = 1) -> None:
        self.db = pinned(db)
        self._refresh_seconds = refresh_seconds
        self._policy = Policy()
        self._known_until = float("-inf")
        self._ready = {self.db[EVENTS].full_name}

    def policy(self) -> Policy:
        """Return the current policy, or the one of at most `refresh_seconds` ago."""
        if time.monotonic() >= self._known_until:
            stored = self.db["retention"].find_one({"_id": EVENTS}) or {}
            self._policy = Policy(**{name: stored[name] for name in Policy.__dataclass_fields__ if name in stored})
            self._known_until = time.monotonic() + self._refresh_seconds
        return self._policy

    def partition_for(self, at: datetime, policy: Policy) -> Events:
        """Return the collection in which the policy stores events of this time."""
        if policy.strategy == "capped":
            return self.db[CAPPED]
        suffix = at.strftime("d%Y%m%d" if policy.unit == "day" else "m%Y%m")
        if policy.strategy == "rotate":
            return self.db[f"{EVENTS}.{suffix}"]
        if policy.strategy == "rotate-databases":
            return pinned(self.db.client[f"{self.db.name}_{suffix}"])[EVENTS]
        return self.db[EVENTS]

    def insert(self, events: Sequence[Storable], concern: WriteConcern) -> list[Failure]:
        """Store events that have an `_id`, and return those that failed; an event that exists already is a success.

        Atomic: each event separately.
        After a crash: some events are stored; inserting them again stores the rest.
        """
        policy = self.policy()
        failures: list[Failure] = []
        for partition, indexes in self._by_partition(events, policy, failures).items():
            failures += self._insert_into(self.ensure_created(partition, policy), events, indexes, concern)
        return failures

    def _by_partition(
        self, events: Sequence[Storable], policy: Policy, failures: list[Failure]
    ) -> Mapping[Events, Sequence[int]]:
        """Map partitions to the positions of their events; events that are too old are added to `failures`.

        The events' times are read only where the policy needs them.
        """
        if not policy.strategy.startswith("rotate") and not policy.closed_before:
            return {self.partition_for(datetime.now(UTC), policy): range(len(events))}
        batches: dict[Events, list[int]] = defaultdict(list)
        for index, event in enumerate(events):
            at = _time_of(event)
            if policy.closed_before and at < policy.closed_before:
                reason = f"time is older than the retention policy keeps: from {policy.closed_before:%Y-%m-%d} on"
                failures.append(Failure(index, reason, event))
            else:
                batches[self.partition_for(at, policy)].append(index)
        return batches

    def _insert_into(
        self, partition: Events, events: Sequence[Storable], indexes: Sequence[int], concern: WriteConcern
    ) -> list[Failure]:
        batch = events if len(indexes) == len(events) else [events[index] for index in indexes]
        try:
            partition.with_options(write_concern=concern).insert_many(batch, ordered=False)
        except BulkWriteError as error:
            return [
                Failure(indexes[failed["index"]], failed["errmsg"], batch[failed["index"]])
                for failed in write_errors(error)
                if failed["code"] != DUPLICATE_KEY
            ]
        return []

    def ensure_created(self, partition: Events, policy: Policy) -> Events:
        """Create the partition with its indexes, unless that was done before, and return it."""
        if partition.full_name not in self._ready:
            options = {"capped": True, "size": policy.size_bytes} if partition.name == CAPPED else {}
            schema.apply(partition.database, [events_collection(partition.name, **options)])
            self._ready.add(partition.full_name)
        return partition

    def spanning(self, start: datetime = EARLIEST, end: datetime = LATEST) -> list[Events]:
        """Return the existing partitions that may contain events from `start` to `end`, the main one first."""
        names = sorted(self.db.list_collection_names(filter={"name": {"$regex": rf"^{EVENTS}\."}}))
        found = [self.db[name] for name in (EVENTS, *names)]
        if self.policy().databases_used:
            databases = sorted(self.db.client.list_database_names())
            found += [pinned(self.db.client[name])[EVENTS] for name in databases if name.startswith(f"{self.db.name}_")]
        return [partition for partition in found if self._overlaps(partition, start, end)]

    def _overlaps(self, partition: Events, start: datetime, end: datetime) -> bool:
        if partition in (self.db[EVENTS], self.db[CAPPED]):
            return True
        span = self.span(partition)
        return span is not None and span[0] < end and span[1] > start

    def partitions(self) -> dict[Events, Span]:
        """Return the partitions of single days and months with their spans, oldest first."""
        spans = [(partition, span) for partition in self.spanning() if (span := self.span(partition))]
        return dict(sorted(spans, key=itemgetter(1)))

    def span(self, partition: Events) -> Span | None:
        """Return the start (included) and end (excluded) of a partition's day or month; None if it is of all times."""
        match = _PARTITION.fullmatch(partition.full_name.removeprefix(self.db.name))
        if match is None:
            return None
        start = datetime(int(match[2]), int(match[3]), int(match[4] or 1), tzinfo=UTC)
        return start, following(start, "day" if match[1] == "d" else "month", UTC)


def insert_missing(partition: Events, documents: Sequence[Document]) -> None:
    """Insert the documents that do not exist yet.

    Atomic: each document separately.
    Raises: `Unavailable` if too few members confirm the write.
    """
    try:
        partition.with_options(write_concern=WriteConcern("majority")).insert_many(documents, ordered=False)
    except BulkWriteError as error:
        if any(failed["code"] != DUPLICATE_KEY for failed in write_errors(error)):
            raise


def write_errors(error: BulkWriteError) -> list[Any]:
    """Return the write errors of single documents.

    Raises: `Unavailable` if too few members confirmed the other documents.
    """
    details = error.details or {}
    if details.get("writeConcernErrors"):
        raise Unavailable("too few members have confirmed a write", outcome_unknown=True) from error
    return list(details.get("writeErrors", []))


def _time_of(event: Storable) -> datetime:
    at: datetime = event["time"]
    return at if at.tzinfo else at.replace(tzinfo=UTC)  # a RawBSONDocument returns naive times in UTC
