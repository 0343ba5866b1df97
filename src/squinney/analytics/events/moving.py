"""Moving events between partitions, a batch at a time, beside readers and writers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from bson.timestamp import Timestamp
from pymongo.client_session import ClientSession
from pymongo.errors import OperationFailure

from squinney.analytics.events.partitions import CAPPED, EVENTS, EventPartitions, Events, Policy, insert_once
from squinney.analytics.hits.increments import is_duplicate, transact
from squinney.mongo.schema import Document

BATCH = 1_000


def move_all(partitions: EventPartitions, policy: Policy) -> int:
    """Move each event that the policy wants elsewhere; returns how many.

    Atomic: each batch is inserted there and deleted here in one transaction. To and from a capped collection, which
    takes no part in transactions, it is inserted first: for a moment it is in both.
    After a crash: call it again.
    """
    return sum(_move_from(partitions, partition, policy) for partition in _elsewhere(partitions, policy))


def anything_to_move(partitions: EventPartitions, policy: Policy) -> bool:
    """Whether there are events that the policy wants elsewhere."""
    return any(partition.find_one({}, {"_id": 1}) is not None for partition in _elsewhere(partitions, policy))


def _elsewhere(partitions: EventPartitions, policy: Policy) -> list[Events]:
    return [partition for partition in partitions.spanning() if not _belongs(partitions, partition, policy)]


def _belongs(partitions: EventPartitions, partition: Events, policy: Policy) -> bool:
    """Whether all of a partition's events are where they should be, without looking at them."""
    if policy.strategy in ("keep", "ttl"):
        return partition == partitions.db[EVENTS]
    if policy.strategy == "capped":
        return partition.name == CAPPED
    if policy.strategy == "rotate":
        return partition.database == partitions.db and partition.name.startswith(f"{EVENTS}.{policy.unit[0]}")
    return partition.database.name.startswith(f"{partitions.db.name}_{policy.unit[0]}")


def _move_from(partitions: EventPartitions, partition: Events, policy: Policy) -> int:
    moved = 0
    order = "time" if policy.strategy == "capped" else "_id"  # what comes in first goes first
    while batch := list(partition.find().sort(order, 1).limit(BATCH)):
        by_target: dict[Events, list[Document]] = defaultdict(list)
        for event in batch:
            by_target[partitions.partition_for(event["time"], policy)].append(event)
        for target, events in by_target.items():
            _move(partition, partitions.made_ready(target, policy), events)
        moved += len(batch)
    return moved


def _move(partition: Events, target: Events, events: Sequence[Document]) -> None:
    """The copies arrive anew, so that roll-ups look again at whatever they may have seen half moved."""
    copies = [{**event, "arrived": Timestamp(0, 0)} for event in events]
    ids = [event["_id"] for event in events]

    def insert_and_delete(session: ClientSession) -> None:
        target.insert_many(copies, session=session)
        partition.delete_many({"_id": {"$in": ids}}, session=session)

    if CAPPED not in (partition.name, target.name):
        try:
            transact(partition.database, insert_and_delete, upserts=False)
            return
        except OperationFailure as error:  # another mover, or an importer, was faster with some of them
            if not is_duplicate(error):
                raise
    insert_once(target, copies)
    partition.delete_many({"_id": {"$in": ids}})
