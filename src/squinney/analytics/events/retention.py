"""`Retention`: the policy for old events, which can be changed at any time."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, get_args

from bson.timestamp import Timestamp
from pymongo.client_session import ClientSession
from pymongo.errors import OperationFailure

from squinney import checks
from squinney.analytics.calendar import EARLIEST, LATEST
from squinney.analytics.errors import NotRolledUp
from squinney.analytics.events.partitions import (
    CAPPED,
    EVENTS,
    EventPartitions,
    Events,
    Policy,
    Strategy,
    Unit,
    insert_missing,
)
from squinney.analytics.hits.increments import transact
from squinney.analytics.rollups.documents import RUNS
from squinney.analytics.rollups.rollups import arrived_since
from squinney.errors import Conflict, Invalid
from squinney.mongo.connect import operation, server_now
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db, Document

LEAST_SECONDS, MOST_SECONDS = 60, 2_147_483_647
LEAST_BYTES, MOST_BYTES = 4_096, 1 << 50
# Writers notice a closed time within 1 s, and a write takes at most 60 s: after that no event of that time can arrive.
GRACE_SECONDS = 70
# Readers notice within 1 s that events move, and from then on read all partitions in one snapshot.
SETTLE_SECONDS = 2.0
# A second index on time, in descending order: the declared ascending one must stay without a TTL.
TTL_INDEX = "time_-1"
INDEX_NOT_FOUND, NAMESPACE_NOT_FOUND = 27, 26
SECONDS = 3_600
BATCH = 1_000
# A new policy may keep what the old one had closed; only times whose events were dropped stay closed.
_REOPENED = {"closed_before": "$frozen_before", "closed_at": "$$REMOVE"}


class Retention:
    """The policy for old events.

    `keep` keeps all events. With `ttl` the server deletes each event at an age. `capped` keeps the newest events up to
    a size. `rotate` stores each day or month in a collection that is dropped at an age. `rotate-databases` does the
    same with databases, whose disk space is freed at once. When the policy changes, events are moved into its
    partitions while readers and writers continue.
    """

    def __init__(self, db: Db, *, grace_seconds: float = GRACE_SECONDS, settle_seconds: float | None = None) -> None:
        self._db = pinned(db)
        self._partitions = EventPartitions(db, refresh_seconds=0)
        self._grace_seconds = grace_seconds
        self._settle_seconds = SETTLE_SECONDS if settle_seconds is None else settle_seconds

    @operation(reads_only=True)
    def policy(self) -> Policy:
        """Return the current policy."""
        return self._partitions.policy()

    @operation(SECONDS)
    def switch(
        self,
        strategy: Strategy,
        *,
        unit: Unit = "day",
        keep_seconds: int | None = None,
        size_bytes: int | None = None,
    ) -> Policy:
        """Set the policy, and move the events into its partitions; times that are closed but not dropped are reopened.

        A stream of events that was opened before the call, and is still read two seconds later, may miss moved events.

        Atomic: the update of the policy, after which new events use the new partitions; each batch of moved events.
        After a crash: the other events are not moved yet; readers see all partitions, and the retention job continues.
        If a roll-up was started in the very moment of the update, the policy may remain although it should be refused.
        Raises: `Invalid`; `Conflict` for a strategy that could delete events before roll-ups have counted them.
        """
        _check(strategy, unit, keep_seconds, size_bytes)
        self._require_no_roll_up(strategy)
        if strategy != "ttl":
            self._end_ttl()
        wanted: dict[str, Any] = {
            "strategy": strategy,
            "unit": unit,
            "keep_seconds": keep_seconds,
            "size_bytes": size_bytes,
            "moving": True,
            **_REOPENED,
        }
        if strategy == "rotate-databases":
            wanted["databases_used"] = True
        before = self._db["retention"].find_one_and_update({"_id": EVENTS}, [{"$set": wanted}], upsert=True)
        try:
            self._require_no_roll_up(strategy)
        except Conflict:  # a roll-up was started at the same moment
            self._db["retention"].replace_one({"_id": EVENTS}, before or {})
            raise
        self._prepare(self.policy())
        self._move()
        return self.policy()

    @operation(SECONDS)
    def apply(self) -> Counter[str]:
        """Continue moving events, close partitions that are too old, and drop those closed long enough ago.

        Atomic: each batch of moved events; the update of the policy that closes a time; the drop of each collection.
        After a crash: the next call continues.
        """
        done: Counter[str] = Counter()
        policy = self.policy()
        self._prepare(policy)
        done["moved"] = self._move()
        if policy.strategy.startswith("rotate"):
            done["dropped"] = self._drop_closed(done)
            done["closed"] = self._close()
        return +done

    def _require_no_roll_up(self, strategy: Strategy) -> None:
        if strategy not in ("keep", "rotate") and self._db[RUNS].find_one({"config.source": EVENTS, "stopped": None}):
            message = "strategy must be keep or rotate while roll-ups run: others delete events that are not counted"
            raise Conflict(message, field="strategy")

    def _prepare(self, policy: Policy) -> None:
        if policy.strategy == "ttl":
            self._set_ttl(policy.keep_seconds or 0)
        if policy.strategy == "capped":
            self._partitions.ensure_created(self._db[CAPPED], policy)
            self._db.command("collMod", CAPPED, cappedSize=policy.size_bytes)

    def _set_ttl(self, seconds: int) -> None:
        indexes = self._db[EVENTS].index_information()
        if TTL_INDEX not in indexes:
            self._db[EVENTS].create_index([("time", -1)], name=TTL_INDEX, expireAfterSeconds=seconds)
        elif indexes[TTL_INDEX].get("expireAfterSeconds") != seconds:
            self._db.command("collMod", EVENTS, index={"name": TTL_INDEX, "expireAfterSeconds": seconds})

    def _end_ttl(self) -> None:
        try:
            self._db[EVENTS].drop_index(TTL_INDEX)
        except OperationFailure as error:
            if error.code not in (INDEX_NOT_FOUND, NAMESPACE_NOT_FOUND):
                raise

    def _move(self) -> int:
        """Move events into the policy's partitions, after all readers have noticed that events move."""
        moved, policy = 0, self.policy()
        if any(partition.find_one({}, {"_id": 1}) for partition in _misplaced(self._partitions, policy)):
            self._db["retention"].update_one({"_id": EVENTS}, {"$set": {"moving": True}}, upsert=True)
            time.sleep(self._settle_seconds)
            policy = self.policy()
            moved = move_all(self._partitions, policy)
        # If the policy changed meanwhile, another call is still moving. None matches fields that were never stored.
        unchanged = {name: {"$in": [getattr(policy, name), None]} for name in ("strategy", "unit")}
        self._db["retention"].update_one({"_id": EVENTS, "moving": True, **unchanged}, {"$set": {"moving": False}})
        return moved

    def _close(self) -> int:
        """Close the days and months that are too old: new events of that time are refused from now on."""
        policy = self.policy()
        if policy.keep_seconds is None:
            return 0
        now = server_now(self._db)
        oldest = now - timedelta(seconds=policy.keep_seconds)
        due = [end for _, end in self._partitions.partitions().values() if end <= oldest]
        if not due or (policy.closed_before and max(due) <= policy.closed_before):
            return 0
        unchanged = {"_id": EVENTS, "closed_before": policy.closed_before}
        closed: dict[str, Any] = {"closed_before": max(due), "closed_at": now}
        return self._db["retention"].update_one(unchanged, {"$set": closed}).modified_count

    def _drop_closed(self, done: Counter[str]) -> int:
        policy = self.policy()
        if not policy.closed_before or not policy.closed_at:
            return 0
        if server_now(self._db) < policy.closed_at + timedelta(seconds=self._grace_seconds):
            return 0
        dropped = 0
        for partition, (_, end) in self._partitions.partitions().items():
            if end <= policy.closed_before:
                try:
                    dropped += self.drop(partition, closed_at=policy.closed_at)
                except NotRolledUp:
                    done["waiting for roll-ups"] += 1
        return dropped

    @operation(SECONDS)
    def drop(self, partition: Events, *, closed_at: datetime) -> bool:
        """Drop a closed partition, and return False if a new policy has reopened it meanwhile.

        Atomic: the update of the policy that freezes that time for roll-ups, if `closed_at` is unchanged; then the
        drop.
        After a crash: the partition may be frozen but not dropped; the next `apply` drops it.
        Raises: `NotRolledUp` if a roll-up has not counted all of its events.
        """
        for rollup in self._db[RUNS].find({"config.source": EVENTS, "stopped": None}):
            watermark = rollup.get("watermark") or Timestamp(0, 0)
            too_early = watermark.time < closed_at.timestamp() + self._grace_seconds
            if too_early or partition.find_one(arrived_since(watermark)):
                raise NotRolledUp(f"{rollup['_id']} has not counted all of {partition.full_name} yet")
        span = self._partitions.span(partition)
        assert span is not None, "only partitions of days and months are closed"
        frozen = {"frozen_before": span[1]}
        closed = {"_id": EVENTS, "closed_at": closed_at}
        if not self._db["retention"].update_one(closed, {"$max": frozen}).matched_count:
            return False
        if partition.database.name == self._db.name:
            partition.drop()
        else:
            self._db.client.drop_database(partition.database.name)
        return True


def _check(strategy: Any, unit: Any, keep_seconds: Any, size_bytes: Any) -> None:
    if strategy not in get_args(Strategy):
        raise Invalid(f"strategy must be one of {', '.join(get_args(Strategy))}", field="strategy")
    if unit not in get_args(Unit):
        raise Invalid("unit must be one of day, month", field="unit")
    if keep_seconds is not None or strategy == "ttl":
        checks.integer(keep_seconds, "keep_seconds", least=LEAST_SECONDS, most=MOST_SECONDS)
    if size_bytes is not None or strategy == "capped":
        checks.integer(size_bytes, "size_bytes", least=LEAST_BYTES, most=MOST_BYTES)


# ---- moving events between partitions, a batch at a time ----


def move_all(partitions: EventPartitions, policy: Policy) -> int:
    """Move each event that is not in the policy's partition for its time; return the number of moved events.

    Atomic: each batch is inserted and deleted in one transaction. Capped collections do not support transactions: there
    the batch is inserted first and then deleted, so it is in both partitions for a moment.
    After a crash: some events are moved; call it again.
    """
    return sum(_move_from(partitions, partition, policy) for partition in _misplaced(partitions, policy))


def _misplaced(partitions: EventPartitions, policy: Policy) -> Iterator[Events]:
    """Yield the partitions in which the policy would not store their events."""
    for partition in partitions.spanning():
        start, _ = partitions.span(partition) or (EARLIEST, LATEST)
        if partition != partitions.partition_for(start, policy):
            yield partition


def _move_from(partitions: EventPartitions, partition: Events, policy: Policy) -> int:
    moved = 0
    order = "time" if policy.strategy == "capped" else "_id"  # a capped collection deletes in insertion order
    while batch := list(partition.find().sort(order, 1).limit(BATCH)):
        by_target: dict[Events, list[Document]] = defaultdict(list)
        for event in batch:
            by_target[partitions.partition_for(event["time"], policy)].append(event)
        for target, events in by_target.items():
            _move_batch(partition, partitions.ensure_created(target, policy), events)
        moved += len(batch)
    return moved


def _move_batch(partition: Events, target: Events, events: Sequence[Document]) -> None:
    """Move the events with a new `arrived`, so that roll-ups count again what they may have read during the move.

    The transaction reads them again: an event that was forgotten or moved meanwhile must not return. It also writes to
    an event that is in both partitions already, so that a move in the other direction cannot delete the other copy.
    """
    ids = {"_id": {"$in": [event["_id"] for event in events]}}
    if CAPPED in (partition.name, target.name):
        insert_missing(target, _copies(events))
        partition.delete_many(ids)
        return

    def move(session: ClientSession) -> None:
        if found := list(partition.find(ids, session=session)):
            moved = {"_id": {"$in": [event["_id"] for event in found]}}
            target.delete_many(moved, session=session)
            target.insert_many(_copies(found), session=session)
            partition.delete_many(moved, session=session)

    transact(partition.database, move)


def _copies(events: Sequence[Document]) -> list[Document]:
    return [{**event, "arrived": Timestamp(0, 0)} for event in events]
