"""Sharding collections as they are declared, while the site runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pymongo.errors import OperationFailure

from squinney.errors import Conflict
from squinney.mongo.deadlines import operation
from squinney.mongo.declared import Collection, Db
from squinney.mongo.pinned import pinned
from squinney.service.sharding.planning import Planned, plan
from squinney.service.sharding.spreading import spread

ALREADY_INITIALIZED = 23  # another process has just sharded it
Report = Callable[[Planned], None]


@operation(None)
def shard(
    db: Db, collections: Sequence[Collection], *, evenly: bool = False, report: Report = lambda _: None
) -> list[Planned]:
    """Shard every collection that is to be, and return the plan as it is afterwards. Running it again changes nothing.

    The index that a key needs is created first. Documents stay where they are until the balancer moves some, which it
    does with a collection of some hundred megabytes; with `evenly` each shard gets its part at once.

    Atomic: each collection by itself.
    After a crash: run it again.
    Raises: `Invalid` if the server is not a sharded cluster; `Conflict`, before anything is changed, if a collection
    would lose the uniqueness of an index, or is sharded by another key.
    """
    db = pinned(db)
    planned = plan(db, collections)
    if refused := [collection for collection in planned if collection.state == "refused"]:
        reasons = "; ".join(f"{collection.name}: {collection.why}" for collection in refused)
        raise Conflict(f"nothing was sharded: {reasons}", collections=[collection.name for collection in refused])
    todo = [collection for collection in planned if collection.state == "to shard"]
    if todo:
        db.client.admin.command("enableSharding", db.name)
    for collection in todo:
        _shard(db, collection)
        report(collection)
    for collection in planned if evenly else ():
        if collection.key and collection.state in ("sharded", "to shard"):
            spread(db, collection.name, collection.key)
    return plan(db, collections)


def _shard(db: Db, collection: Planned) -> None:
    if collection.needs_index:
        db[collection.name].create_index(list(collection.key.items()))
    try:
        db.client.admin.command("shardCollection", f"{db.name}.{collection.name}", key=dict(collection.key))
    except OperationFailure as error:
        if error.code != ALREADY_INITIALIZED:
            raise
