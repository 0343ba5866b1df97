"""The collections that store events: a single one, or one per day or month, depending on the retention policy.

A partition is one of these collections. Writers use the partition for an event's time; readers use all partitions that
may contain events of a time range. Readers look into partitions of every strategy, so that no event disappears while
the policy changes and events are moved.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from bson.raw_bson import RawBSONDocument
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError
from pymongo.write_concern import WriteConcern

from squinney.analytics.events.documents import events_collection
from squinney.errors import Unavailable
from squinney.mongo import schema
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import DUPLICATE_KEY, Db, Document

Strategy = Literal["keep", "ttl", "capped", "rotate", "rotate-databases"]
Unit = Literal["day", "month"]
Events = Collection[Document]
Storable = Document | RawBSONDocument  # imports encode most of their events themselves

EVENTS = "events"
CAPPED = "events.capped"
# The suffix of the name of a day's or month's collection or database.
_PARTITION = re.compile(r"[dm](\d{4})(\d\d)(\d\d)?")


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

    @classmethod
    def from_document(cls, document: Document | None) -> Policy:
        """Return the stored policy, or the default one."""
        return cls(**{name: value for name, value in (document or {}).items() if name in cls.__dataclass_fields__})


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
        self._ready: set[tuple[str, str]] = {(db.name, EVENTS)}

    def policy(self, *, fresh: bool = False) -> Policy:
        """Return the current policy, from the cache unless `fresh`."""
        if fresh or time.monotonic() >= self._known_until:
            self._policy = Policy.from_document(self.db["retention"].find_one({"_id": EVENTS}))
            self._known_until = time.monotonic() + self._refresh_seconds
        return self._policy

    def partition_for(self, at: datetime, policy: Policy) -> Events:
        """Return the collection in which the policy stores events of this time."""
        if policy.strategy == "capped":
            return self.db[CAPPED]
        if policy.strategy == "rotate":
            return self.db[f"{EVENTS}.{suffix(at, policy.unit)}"]
        if policy.strategy == "rotate-databases":
            return pinned(self.db.client[f"{self.db.name}_{suffix(at, policy.unit)}"])[EVENTS]
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
        name = (partition.database.name, partition.name)
        if name not in self._ready:
            options: dict[str, Any] = {}
            if partition.name == CAPPED:
                options = {"capped": True, "size": policy.size_bytes}
            schema.apply(partition.database, [events_collection(partition.name, **options)])
            self._ready.add(name)
        return partition

    def forget(self, partition: Events) -> None:
        """Create this partition again before its next use, because it was dropped."""
        self._ready.discard((partition.database.name, partition.name))

    def spanning(self, start: datetime | None = None, end: datetime | None = None) -> list[Events]:
        """Return the existing partitions that may contain events from `start` to `end`, the main one first."""
        found = [self.db[EVENTS]]
        names = self.db.list_collection_names(filter={"name": {"$regex": rf"^{EVENTS}\."}})
        if CAPPED in names:
            found.append(self.db[CAPPED])
        partitions = [self.db[name] for name in sorted(names) if _PARTITION.fullmatch(name.removeprefix(f"{EVENTS}."))]
        if self.policy().databases_used:
            partitions += self._databases()
        return found + [partition for partition in partitions if _overlaps(span_of(partition, self.db), start, end)]

    def names_in_main_database(self, start: datetime | None = None, end: datetime | None = None) -> list[str]:
        """Return the names of the partitions in the main database, which a single aggregation can read.

        Databases of single days must be left out: their collection has the main one's name, which would then be read
        twice.
        """
        return [partition.name for partition in self.spanning(start, end) if partition.database == self.db]

    def _databases(self) -> Iterator[Events]:
        prefix = f"{self.db.name}_"
        for name in sorted(self.db.client.list_database_names()):
            if name.startswith(prefix) and _PARTITION.fullmatch(name.removeprefix(prefix)):
                yield pinned(self.db.client[name])[EVENTS]

    def partitions(self) -> list[Events]:
        """Return the partitions of single days and months, oldest first."""
        rotated = [
            partition for partition in self.spanning() if partition.name != CAPPED and partition != self.db[EVENTS]
        ]
        return sorted(rotated, key=lambda partition: span_of(partition, self.db))


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


def suffix(at: datetime, unit: Unit) -> str:
    """Return the suffix of the name of a day's or month's partition."""
    return f"{at:d%Y%m%d}" if unit == "day" else f"{at:m%Y%m}"


def span_of(partition: Events, db: Db) -> tuple[datetime, datetime]:
    """Return the start (included) and end (excluded) of the day or month of a partition."""
    name = partition.name.removeprefix(f"{EVENTS}.") if partition.database.name == db.name else partition.database.name
    match = _PARTITION.fullmatch(name.removeprefix(f"{db.name}_"))
    assert match is not None
    year, month, day = int(match[1]), int(match[2]), match[3]
    if day:
        start = datetime(year, month, int(day), tzinfo=UTC)
        return start, start + timedelta(days=1)
    following = datetime(year + month // 12, month % 12 + 1, 1, tzinfo=UTC)
    return datetime(year, month, 1, tzinfo=UTC), following


def _overlaps(span: tuple[datetime, datetime], start: datetime | None, end: datetime | None) -> bool:
    return (end is None or span[0] < end) and (start is None or span[1] > start)
