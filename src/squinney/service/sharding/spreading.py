"""Moving a part of each small collection to every shard, for which the balancer would wait until it is large."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from bson.int64 import Int64
from bson.max_key import MaxKey
from bson.min_key import MinKey

from squinney.mongo.declared import Db, Document
from squinney.service.sharding.keys import Key

SAMPLES_PER_SHARD = 50


def shards_of(db: Db, name: str) -> int:
    """Return how many shards have chunks of the collection."""
    config = db.client["config"]
    stored = config["collections"].find_one({"_id": f"{db.name}.{name}"}, {"uuid": 1})
    return len(config["chunks"].distinct("shard", {"uuid": stored["uuid"]})) if stored else 1


def spread(db: Db, name: str, key: Key) -> None:
    """Give every shard a range of the key, unless several have one already. An empty collection is left alone.

    Atomic: each range by itself.
    After a crash: the balancer moves the rest when the collection is large enough.
    """
    shards = sorted(str(shard["_id"]) for shard in db.client["config"]["shards"].find({}, {"_id": 1}))
    if len(shards) < 2 or shards_of(db, name) > 1:
        return
    ranges = list(pairwise([_end(key, MinKey()), *_points(db, name, key, len(shards)), _end(key, MaxKey())]))
    for shard, (low, high) in zip(shards, ranges, strict=False):
        db.client.admin.command("moveRange", f"{db.name}.{name}", toShard=shard, min=low, max=high)


def _end(key: Key, value: object) -> Document:
    return dict.fromkeys(key, value)


def _points(db: Db, name: str, key: Key, shards: int) -> Iterator[Document]:
    """Yield the values of the key between which each shard gets a range."""
    if list(key.values()) == ["hashed"]:
        for number in range(1, shards):
            yield dict.fromkeys(key, Int64(number * 2**64 // shards - 2**63))
        return
    fields = {f"v{number}": f"${field}" for number, field in enumerate(key)}
    sample: list[Document] = [{"$sample": {"size": SAMPLES_PER_SHARD * shards}}, {"$sort": dict(key)}]
    sampled = list(db[name].aggregate([*sample, {"$project": {"_id": 0, **fields}}]))
    values: list[Any] = [dict(zip(key, (document.get(field) for field in fields), strict=True)) for document in sampled]
    different = [value for before, value in pairwise(values) if value != before]
    for number in range(1, shards):
        if len(different) >= shards - 1:
            yield different[number * len(different) // shards]
