"""Rules of shard keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from squinney.mongo.declared import Collection

Key = Mapping[str, int | str]
# What grows with the value of a key that no unique index bounds, by collection. A chunk cannot be split inside a value.
BOUNDED = {
    "analytics.events": "`ssk` is a hash of the event",
    "analytics.hits_daily": "one document per page and day",
    "analytics.hits_monthly": "one document per page and month",
    "ads.counters": "a document per zone in which the campaign ran that day",
    "ads.placements": "the ads of one zone",
    "commerce.pictures": "the pictures of one product",
    "ledger.entries": "the entries of one account in one millisecond",
    "social.comments": "the comments on one post in one millisecond",
}


def serves(index: Mapping[str, Any], key: Key) -> bool:
    """Return whether an index of the server is one that sharding by the key can use."""
    begins = list(index["key"].items())[: len(key)] == list(key.items())
    return begins and not {"partialFilterExpression", "sparse", "collation"} & index.keys()


def loses_uniqueness(indexes: Iterable[Mapping[str, Any]], key: Key) -> list[str]:
    """Return the names of unique indexes that no shard alone could enforce, as their first fields are others.

    That of `_id` stays possible, but is then unique on each shard only, unless the key begins with it.
    """
    fields = list(key)
    unique = [index for index in indexes if index.get("unique") and next(iter(index["key"])) != "_id"]
    # guard: sharding takes the uniqueness of no index
    return [index["name"] for index in unique if list(index["key"])[: len(fields)] != fields]


def can_split(collection: Collection) -> bool:
    """Return whether a chunk can always be split: few documents have the same value of the key."""
    key = collection.shard_key or {}
    if any(field.partition(".")[0] == "_id" for field in key):
        return True
    unique = [[field for field, _ in index.keys] for index in collection.indexes if index.unique]
    return any(fields == list(key) for fields in unique) or collection.name in BOUNDED
