"""Rates that several processes count together, without a round trip for each event.

A process decides by itself, and every second or so tells the database what it has let pass, and learns what all have.
A rate is a time for each name: when the next event would be due if there had been no burst. An event moves it by the
distance of two events, so what processes add in any order comes to the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from pymongo import UpdateOne
from pymongo.errors import BulkWriteError

from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.queries import Pipeline, Query
from squinney.mongo.schema import Collection, Db, Index

NAME = "squinney.rates"
SECONDS = 2.0
COLLECTIONS = [
    Collection(
        NAME,
        indexes=[Index([("due_at", 1)], expire_after_seconds=60, why="deletes the rates of those who went away")],
        shard_key={"_id": "hashed"},
    )
]
RATE = Query("rates.rate", NAME, where=lambda name: {"_id": name}, example={"name": "a"})
AHEAD = Pipeline(
    "rates.ahead",
    NAME,
    stages=lambda names: [
        {"$match": {"_id": {"$in": names}}},
        {"$project": {"ahead": {"$divide": [{"$subtract": ["$due_at", "$$NOW"]}, 1000]}}},
    ],
    example={"names": ["a", "b"]},
    routing="few",
    reason="reads together what a process has let pass within a second",
)
QUERIES: list[Query | Pipeline] = [RATE, AHEAD]


@operation(SECONDS)
def share(db: Db, seconds_added: Mapping[str, float]) -> dict[str, float]:
    """Add what this process let pass, in seconds of each name's rate; return by how many seconds all are ahead.

    After a crash: what was let pass is not counted.
    """
    db = pinned(db)
    changes = [UpdateOne(RATE(name=name), _moved(seconds), upsert=True) for name, seconds in seconds_added.items()]
    with suppress(BulkWriteError):  # two processes made the same document: one of them counts
        db[NAME].bulk_write(changes, ordered=False)
    rates = AHEAD.run(db, names=list(seconds_added))
    return {rate["_id"]: rate["ahead"] for rate in rates}


def _moved(seconds: float) -> list[dict[str, object]]:
    """Return the change that moves a time, which is never in the past, by the server's clock."""
    since = {"$max": ["$due_at", "$$NOW"]}
    moved = {"$dateAdd": {"startDate": since, "unit": "millisecond", "amount": round(1000 * seconds)}}
    return [{"$set": {"due_at": moved}}]
