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
    db: Db, collections: Sequence[Collection], *, evenly: bool = False, report: Report = lambda one: None
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
    if refused := [one for one in planned if one.state == "refused"]:
        reasons = "; ".join(f"{one.name}: {one.why}" for one in refused)
        raise Conflict(f"nothing was sharded: {reasons}", collections=[one.name for one in refused])
    todo = [one for one in planned if one.state == "to shard"]
    if todo:
        db.client.admin.command("enableSharding", db.name)
    for one in todo:
        _shard(db, one)
        report(one)
    for one in planned if evenly else ():
        if one.key and one.state in ("sharded", "to shard"):
            spread(db, one.name, one.key)
    return plan(db, collections)


def _shard(db: Db, one: Planned) -> None:
    if one.needs_index:
        db[one.name].create_index(list(one.key.items()))
    try:
        db.client.admin.command("shardCollection", f"{db.name}.{one.name}", key=dict(one.key))
    except OperationFailure as error:
        if error.code != ALREADY_INITIALIZED:
            raise
