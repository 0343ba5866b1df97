"""Asking the router for the plan of every declared query, and comparing the shards that it reaches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pymongo.errors import OperationFailure

from squinney.mongo.deadlines import operation
from squinney.mongo.declared import Db
from squinney.mongo.pinned import pinned
from squinney.mongo.queries import Pipeline, Query, Routing
from squinney.service.sharding.planning import require_cluster
from squinney.service.sharding.spreading import shards_of

Outcome = Literal["as declared", "differs", "not spread", "not explained"]


@dataclass(frozen=True)
class Checked:
    """One query: how many shards it is declared to reach, how many it reached, and the index that it used there.

    `spread` is the number of shards that have chunks of the collection. On one shard nothing can be told.
    """

    query: str
    collection: str
    declared: Routing
    reached: int
    spread: int
    indexes: Sequence[str]
    outcome: Outcome
    reason: str = ""


@operation(None, reads_only=True)
def check(db: Db, queries: Sequence[Query | Pipeline]) -> list[Checked]:
    """Explain every query through the router.

    Raises: `Invalid` if the server is not a sharded cluster.
    """
    db = pinned(db)
    require_cluster(db)
    spread = {query.collection: 0 for query in queries}
    spread |= {name: shards_of(db, name) for name in spread}
    return [_checked(db, query, spread[query.collection]) for query in queries]


def _checked(db: Db, query: Query | Pipeline, spread: int) -> Checked:
    try:
        explained = query.explain(db)
    except OperationFailure as error:
        reason = str((error.details or {}).get("errmsg", error))[:200]
        return Checked(query.name, query.collection, query.routing, 0, spread, (), "not explained", reason)
    reached = len(set(shards_in(explained)))
    indexes = sorted(set(_indexes(explained)))
    return Checked(
        query.name,
        query.collection,
        query.routing,
        reached,
        spread,
        indexes,
        outcome(query, reached=reached, spread=spread),
    )


def outcome(query: Query | Pipeline, *, reached: int, spread: int) -> Outcome:
    """Compare the number of shards that a query reached with its declaration."""
    # guard: a query that says one shard and reaches two is a difference
    if query.routing == "one" and reached > 1:
        return "differs"
    if spread < 2:
        return "not spread"
    return "differs" if query.routing == "broadcast" and reached < spread else "as declared"


def shards_in(plan: Any) -> Iterator[str]:
    """Yield the name of every shard in an explained plan: of a find by `shardName`, of an aggregation as a key."""
    if isinstance(plan, dict):
        if isinstance(plan.get("shardName"), str):
            yield plan["shardName"]
        if isinstance(plan.get("shards"), dict):
            yield from plan["shards"]
    for inner in plan.values() if isinstance(plan, dict) else plan if isinstance(plan, list) else ():
        yield from shards_in(inner)


def _indexes(plan: Any) -> Iterator[str]:
    if isinstance(plan, dict):
        if isinstance(plan.get("indexName"), str):
            yield plan["indexName"]
        relevant = [value for name, value in plan.items() if name != "rejectedPlans"]
    else:
        relevant = plan if isinstance(plan, list) else []
    for inner in relevant:
        yield from _indexes(inner)
