"""Where events live: one collection, or one for each day or month, as the retention policy says.

Writers ask for the partition of an event's time; readers for all that may hold events of a range. Readers look at
every kind of partition, so that nothing disappears while a policy is being changed and events are moved.
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
Storable = Document | RawBSONDocument  # imports encode most of their events by themselves

EVENTS = "events"
CAPPED = "events.capped"
# How the name of a day's or month's collection, or database, ends.
_PARTITION = re.compile(r"[dm](\d{4})(\d\d)(\d\d)?")


@dataclass(frozen=True)
class Policy:
    """What happens to old events. `keep_seconds` is their age for ttl and the rotating ones; None keeps them.

    Events from before `closed_before` are refused; those from before `frozen_before` are being dropped or are gone.
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
        """The stored policy, or the default one."""
        return cls(**{name: value for name, value in (document or {}).items() if name in cls.__dataclass_fields__})


@dataclass(frozen=True)
class Failure:
    """An event that was not stored, by its position in the batch, and why."""

    index: int
    reason: str
    document: Storable


class EventPartitions:
    """The collections of one database's events. A change of policy is seen within `refresh_seconds`."""

    def __init__(self, db: Db, *, refresh_seconds: float = 1) -> None:
        self.db = pinned(db)
        self._refresh_seconds = refresh_seconds
        self._policy = Policy()
        self._known_until = float("-inf")
        self._ready: set[tuple[str, str]] = {(db.name, EVENTS)}

    def policy(self, *, fresh: bool = False) -> Policy:
        """The policy in force."""
        if fresh or time.monotonic() >= self._known_until:
            self._policy = Policy.from_document(self.db["retention"].find_one({"_id": EVENTS}))
            self._known_until = time.monotonic() + self._refresh_seconds
        return self._policy

    def partition_for(self, at: datetime, policy: Policy) -> Events:
        """The collection into which a policy wants an event of this time."""
        if policy.strategy == "capped":
            return self.db[CAPPED]
        if policy.strategy == "rotate":
            return self.db[f"{EVENTS}.{suffix(at, policy.unit)}"]
        if policy.strategy == "rotate-databases":
            return pinned(self.db.client[f"{self.db.name}_{suffix(at, policy.unit)}"])[EVENTS]
        return self.db[EVENTS]

    def insert(self, events: Sequence[Storable], concern: WriteConcern) -> list[Failure]:
        """Store events that have their `_id`, and tell each one that was not stored; one that is there already was.

        Atomic: each event by itself.
        After a crash: some are stored; inserting them again stores the rest.
        """
        policy = self.policy()
        failures: list[Failure] = []
        for partition, indexes in self._by_place(events, policy, failures).items():
            failures += self._insert_into(self.made_ready(partition, policy), events, indexes, concern)
        return failures

    def _by_place(
        self, events: Sequence[Storable], policy: Policy, failures: list[Failure]
    ) -> Mapping[Events, Sequence[int]]:
        """Which events go where, by their position in the batch; times are read only where a policy needs them."""
        if not policy.strategy.startswith("rotate") and not policy.closed_before:
            return {self.partition_for(datetime.now(UTC), policy): range(len(events))}
        batches: dict[Events, list[int]] = defaultdict(list)
        for index, event in enumerate(events):
            at = _time_of(event)
            if policy.closed_before and at < policy.closed_before:
                failures.append(Failure(index, f"older than what is kept, from {policy.closed_before:%Y-%m-%d}", event))
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
                for failed in refusals(error)
                if failed["code"] != DUPLICATE_KEY
            ]
        return []

    def made_ready(self, partition: Events, policy: Policy) -> Events:
        """The partition with its indexes, which a new day's collection must get before its first event."""
        known = (partition.database.name, partition.name)
        if known not in self._ready:
            options: dict[str, Any] = {}
            if partition.name == CAPPED:
                options = {"capped": True, "size": policy.size_bytes}
            schema.apply(partition.database, [events_collection(partition.name, **options)])
            self._ready.add(known)
        return partition

    def forget(self, partition: Events) -> None:
        """A partition was dropped: it must be made ready again before its next use."""
        self._ready.discard((partition.database.name, partition.name))

    def spanning(self, start: datetime | None = None, end: datetime | None = None) -> list[Events]:
        """The existing partitions that may hold events from `start` to before `end`, the main one first."""
        found = [self.db[EVENTS]]
        names = self.db.list_collection_names(filter={"name": {"$regex": rf"^{EVENTS}\."}})
        if CAPPED in names:
            found.append(self.db[CAPPED])
        partitions = [self.db[name] for name in sorted(names) if _PARTITION.fullmatch(name.removeprefix(f"{EVENTS}."))]
        if self.policy().databases_used:
            partitions += self._databases()
        return found + [partition for partition in partitions if _overlaps(span_of(partition, self.db), start, end)]

    def together(self, start: datetime | None = None, end: datetime | None = None) -> list[str]:
        """The names of those of this database, which one aggregation can span; roll-ups accept no others.

        What is left of databases for single days has the main partition's name: with it, events would count twice.
        """
        return [partition.name for partition in self.spanning(start, end) if partition.database == self.db]

    def _databases(self) -> Iterator[Events]:
        prefix = f"{self.db.name}_"
        for name in sorted(self.db.client.list_database_names()):
            if name.startswith(prefix) and _PARTITION.fullmatch(name.removeprefix(prefix)):
                yield pinned(self.db.client[name])[EVENTS]

    def partitions(self) -> list[Events]:
        """The partitions of single days and months, oldest first."""
        rotated = [
            partition for partition in self.spanning() if partition.name != CAPPED and partition != self.db[EVENTS]
        ]
        return sorted(rotated, key=lambda partition: span_of(partition, self.db))


def insert_once(partition: Events, documents: Sequence[Document]) -> None:
    """Insert what is not there yet.

    Atomic: each document by itself.
    Raises: `Unavailable` where too few members have them.
    """
    try:
        partition.with_options(write_concern=WriteConcern("majority")).insert_many(documents, ordered=False)
    except BulkWriteError as error:
        if any(failed["code"] != DUPLICATE_KEY for failed in refusals(error)):
            raise


def refusals(error: BulkWriteError) -> list[Any]:
    """What the server refused of a bulk.

    Raises: `Unavailable` where too few members have the rest.
    """
    details = error.details or {}
    if details.get("writeConcernErrors"):
        raise Unavailable("too few members have confirmed a write", outcome_unknown=True) from error
    return list(details.get("writeErrors", []))


def _time_of(event: Storable) -> datetime:
    at: datetime = event["time"]
    return at if at.tzinfo else at.replace(tzinfo=UTC)  # what was encoded comes back without its zone, which is UTC


def suffix(at: datetime, unit: Unit) -> str:
    """The end of the name of a day's or month's collection."""
    return f"{at:d%Y%m%d}" if unit == "day" else f"{at:m%Y%m}"


def span_of(partition: Events, db: Db) -> tuple[datetime, datetime]:
    """From when to before when the events of a partition are."""
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
