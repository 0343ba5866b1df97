"""Moving events between places, a batch at a time, beside readers and writers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from bson.timestamp import Timestamp
from pymongo.client_session import ClientSession
from pymongo.errors import OperationFailure

from squinney.analytics.events.places import CAPPED, EVENTS, Events, Places, Policy, insert_once, suffix
from squinney.analytics.hits.increments import is_duplicate, transact
from squinney.mongo.schema import Document

BATCH = 1_000


def move_all(places: Places, policy: Policy) -> int:
    """Move each event that the policy wants elsewhere; returns how many.

    Atomic: each batch is inserted there and deleted here in one transaction. To and from a capped collection, which
    takes no part in transactions, it is inserted first: for a moment it is in both.
    After a crash: call it again.
    """
    return sum(_move_from(places, place, policy) for place in places.spanning() if not _belongs(places, place, policy))


def anything_to_move(places: Places, policy: Policy) -> bool:
    """Whether there are events that the policy wants elsewhere."""
    elsewhere = (place for place in places.spanning() if not _belongs(places, place, policy))
    return any(place.find_one({}, {"_id": 1}) is not None for place in elsewhere)


def _belongs(places: Places, place: Events, policy: Policy) -> bool:
    """Whether all of a place's events are where they should be, without looking at them."""
    if policy.strategy in ("keep", "ttl"):
        return place == places.db[EVENTS]
    if policy.strategy == "capped":
        return place.name == CAPPED
    if policy.strategy == "rotate":
        return place.database == places.db and place.name.startswith(f"{EVENTS}.{policy.unit[0]}")
    return place.database.name.startswith(f"{places.db.name}_{policy.unit[0]}")


def _move_from(places: Places, place: Events, policy: Policy) -> int:
    moved = 0
    while batch := list(place.find().sort("_id", 1).limit(BATCH)):
        by_target: dict[str, list[Document]] = defaultdict(list)
        for event in batch:
            by_target[suffix(event["time"], policy.unit) if policy.strategy.startswith("rotate") else ""].append(event)
        for events in by_target.values():
            target = places.make_ready(events[0]["time"], policy)
            _move(place, target, events)
        moved += len(batch)
    return moved


def _move(place: Events, target: Events, events: Sequence[Document]) -> None:
    """The copies arrive anew, so that roll-ups look again at whatever they may have seen half moved."""
    copies = [{**event, "arrived": Timestamp(0, 0)} for event in events]
    ids = [event["_id"] for event in events]

    def insert_and_delete(session: ClientSession) -> None:
        target.insert_many(copies, session=session)
        place.delete_many({"_id": {"$in": ids}}, session=session)

    if CAPPED not in (place.name, target.name):
        try:
            transact(place.database, insert_and_delete, upserts=False)
            return
        except OperationFailure as error:  # another mover, or an importer, was faster with some of them
            if not is_duplicate(error):
                raise
    insert_once(target, copies)
    place.delete_many({"_id": {"$in": ids}})
