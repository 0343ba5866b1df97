"""The collections of visits."""

from __future__ import annotations

from squinney.analytics.rollups.documents import rollup_collections
from squinney.mongo.schema import Collection, Index

VISITS = "analytics.visit_sessions"
VISIT_RUNS = "analytics.visit_runs"
SALTS = "analytics.visitor_salts"

VISIT_COLLECTIONS = [
    Collection(
        VISITS,
        formerly="visit_sessions",
        indexes=[
            Index([("host", 1), ("ts", 1)], why="deriving a host's sessions again"),
            Index([("ts", 1)], why="recomputing roll-ups"),
            Index([("arrived", 1)], why="sessions that roll-ups have not counted yet"),
        ],
        shard_key={"_id": "hashed"},
    ),
    Collection(VISIT_RUNS, formerly="visit_runs", unsharded="one document"),
    Collection(
        SALTS,
        indexes=[Index([("delete_at", 1)], expire_after_seconds=0, why="deletes the salts of past days")],
        unsharded="one small document per day",
    ),
    *rollup_collections("visits"),
]
