"""What each collection needs to be sharded as it is declared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from squinney.errors import Invalid
from squinney.mongo.deadlines import operation
from squinney.mongo.declared import Collection, Db, Document
from squinney.mongo.pinned import pinned
from squinney.service.sharding.keys import Key, loses_uniqueness, serves

State = Literal["sharded", "to shard", "unsharded", "missing", "refused"]


@dataclass(frozen=True)
class Planned:
    """One collection: its state, the key, and what `shard` will do or why it will not.

    `needs_index` says that no index begins with the key. `shards` has the number of documents on each.
    """

    name: str
    state: State
    key: Key = field(default_factory=dict)
    why: str = ""
    needs_index: bool = False
    documents: int = 0
    bytes: int = 0
    shards: Mapping[str, int] = field(default_factory=dict)


@operation(None, reads_only=True)
def plan(db: Db, collections: Sequence[Collection]) -> list[Planned]:
    """Return what each collection needs, in the order given.

    Raises: `Invalid` if the server is not a sharded cluster.
    """
    db = pinned(db)
    require_cluster(db)
    existing = set(db.list_collection_names())
    keys = stored_keys(db)
    return [_planned(db, collection, existing, keys) for collection in collections]


def require_cluster(db: Db) -> None:
    """Refuse a server that is no `mongos`.

    Raises: `Invalid`.
    """
    if db.client.admin.command("hello").get("msg") != "isdbgrid":
        raise Invalid("this is not a sharded cluster: give the URI of a mongos (docs/sharding.md)", field="uri")


def stored_keys(db: Db) -> dict[str, Document]:
    """Return the keys of the database's sharded collections, by name."""
    prefix = f"{db.name}."
    sharded = db.client["config"]["collections"].find({"_id": {"$gt": prefix, "$lt": f"{db.name}/"}}, {"key": 1})
    return {
        str(collection["_id"]).removeprefix(prefix): collection["key"] for collection in sharded if "key" in collection
    }


def _planned(db: Db, collection: Collection, existing: set[str], keys: Mapping[str, Document]) -> Planned:
    name, key = collection.name, collection.shard_key or {}
    if name not in existing:
        return Planned(name, "missing", key, "`squinney indexes --apply` creates it")
    documents, size, shards = sizes(db, name)
    state, why, needs_index = _state(db, collection, keys.get(name))
    return Planned(name, state, key, why, needs_index, documents, size, shards)


def _state(db: Db, collection: Collection, stored: Document | None) -> tuple[State, str, bool]:
    key = collection.shard_key
    if stored is not None:
        if key and list(stored.items()) == list(key.items()):
            return "sharded", "", False
        return "refused", f"it is sharded by {dict(stored)}: see reshardCollection", False
    if not key:
        return "unsharded", collection.unsharded, False
    indexes: list[Any] = list(db[collection.name].list_indexes())
    if lost := loses_uniqueness(indexes, key):
        return "refused", f"these unique indexes do not begin with the key: {', '.join(lost)}", False
    return "to shard", "", not any(serves(index, key) for index in indexes)


def sizes(db: Db, name: str) -> tuple[int, int, dict[str, int]]:
    """Return documents, bytes, and documents by shard."""
    shards: Counter[str] = Counter()
    size = 0
    for stats in db[name].aggregate([{"$collStats": {"storageStats": {}}}]):
        shards[stats.get("shard", "")] += stats["storageStats"].get("count", 0)
        size += stats["storageStats"].get("size", 0)
    return shards.total(), size, dict(shards)
