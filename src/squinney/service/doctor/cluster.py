"""What `doctor` says about a sharded cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pymongo.errors import OperationFailure

from squinney.mongo.failures import UNAUTHORIZED
from squinney.mongo.schema import Collection, Db, Document
from squinney.service.doctor.finding import Finding
from squinney.service.doctor.server import MAX_TRANSACTION_SECONDS
from squinney.service.sharding.planning import stored_keys

MAX_NAMED = 5


def examine_cluster(db: Db, declared: Sequence[Collection]) -> Iterator[Finding]:
    """Examine a cluster: what is not sharded as declared, or out of balance. Nothing on a replica set."""
    if db.client.admin.command("hello").get("msg") != "isdbgrid":
        return
    yield Finding(
        "notice",
        "cluster",
        "a mongos does not tell how long the shards keep the locks of a process that died in a transaction",
        f"set transactionLifetimeLimitSeconds to {MAX_TRANSACTION_SECONDS} on each shard",
    )
    try:
        stored = stored_keys(db)
        yield from _not_sharded(declared, stored)
        yield from _out_of_balance(db, [collection.name for collection in declared if collection.name in stored])
    except OperationFailure as error:
        if error.code != UNAUTHORIZED:
            raise
        message = "this user may not read how the collections are sharded"
        yield Finding("notice", "cluster", message, "give it the role clusterMonitor")


def _not_sharded(declared: Sequence[Collection], stored: Mapping[str, Document]) -> Iterator[Finding]:
    other = [
        collection.name
        for collection in declared
        if collection.shard_key and stored.get(collection.name, collection.shard_key) != collection.shard_key
    ]
    missing = [collection.name for collection in declared if collection.shard_key and collection.name not in stored]
    if other:
        yield Finding(
            "problem",
            "cluster",
            f"sharded by another key than declared: {', '.join(other)}",
            "see reshardCollection in the manual of MongoDB",
        )
    if missing:
        named = ", ".join(missing[:MAX_NAMED]) + (" and others" if len(missing) > MAX_NAMED else "")
        message = f"{len(missing)} collections are on one shard only, though they are declared to be sharded: {named}"
        yield Finding("notice", "cluster", message, "run `squinney shard plan`, then `squinney shard apply`")


def _out_of_balance(db: Db, names: Sequence[str]) -> Iterator[Finding]:
    for name in names:
        status = db.client.admin.command("balancerCollectionStatus", f"{db.name}.{name}")
        if not status.get("balancerCompliant", True):
            reason = status.get("firstComplianceViolation", "unknown")
            message = f"{name} is out of balance: {reason}"
            yield Finding("notice", "cluster", message, "see that the balancer runs: sh.status() in mongosh")
