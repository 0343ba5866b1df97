"""The collections of visits."""

from __future__ import annotations

from squinney.analytics.rollups.documents import rollup_collections
from squinney.mongo.schema import Collection, Index

VISITS = "visit_sessions"
VISIT_RUNS = "visit_runs"

VISIT_COLLECTIONS = [
    Collection(
        VISITS,
        indexes=[
            Index([("host", 1), ("ts", 1)], why="deriving a host's sessions again"),
            Index([("ts", 1)], why="recomputing roll-ups"),
            Index([("arrived", 1)], why="sessions that roll-ups have not counted yet"),
        ],
        shard_key={"_id": "hashed"},
    ),
    Collection(VISIT_RUNS, unsharded="one document"),
    *rollup_collections("visits"),
]
