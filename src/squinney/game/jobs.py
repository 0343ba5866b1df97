"""What happens by itself: monsters walk about."""

from __future__ import annotations

import random

from squinney.errors import Conflict
from squinney.game import queries
from squinney.game.world import World
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db, Document
from squinney.patterns.jobs import Job

MOST_AT_ONCE = 20


def wander(db: Db) -> dict[str, int]:
    """Let some monsters, beginning with another one each time, go through an exit of the room they are in.

    Atomic: each step by itself.
    After a crash: some have walked and some have not.
    """
    db = pinned(db)
    world = World(db)
    moved = 0
    for monster in _some(db):
        exits = world.location(monster["location"]["id"])["exits"]
        try:
            world.move(monster["_id"], random.choice(sorted(exits)))
        except (Conflict, IndexError):  # no exit, or none that leads anywhere
            continue
        moved += 1
    return {"moved": moved}


def _some(db: Db) -> list[Document]:
    """Beginning at random among all of them, so that in a large world each gets its turn."""
    wanderers = db[queries.WANDERERS.collection]
    first = random.randrange(max(1, wanderers.count_documents(queries.WANDERERS(after="")) - MOST_AT_ONCE + 1))
    return list(queries.WANDERERS.find(db, limit=MOST_AT_ONCE, after="").skip(first))


JOBS = [Job("wander-game-monsters", every_seconds=30, run=wander, what="lets monsters walk about")]
