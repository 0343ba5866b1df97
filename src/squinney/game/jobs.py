"""The job that moves monsters."""

from __future__ import annotations

import random

from squinney.errors import Conflict, NotFound
from squinney.game import queries
from squinney.game.world import World
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db, Document
from squinney.patterns.jobs import Job

MAX_AT_ONCE = 20


def wander(db: Db) -> dict[str, int]:
    """Move up to 20 monsters through a random exit of the room they are in.

    Atomic: each move.
    After a crash: some monsters have moved and some have not.
    """
    db = pinned(db)
    world = World(db)
    moved = 0
    for monster in _random_monsters(db):
        try:
            exits = world.location(monster["location"]["id"])["exits"]
            world.move(monster["_id"], random.choice(sorted(exits)))
        # There is no such room or no exit, or the chosen exit leads to no room: the other monsters still move.
        except (Conflict, IndexError, NotFound):
            continue
        moved += 1
    return {"moved": moved}


def _random_monsters(db: Db) -> list[Document]:
    """Return a run of monsters from a random start, so that in a large world each monster gets its turn."""
    count = db[queries.WANDERERS.collection].count_documents(queries.WANDERERS())
    first = random.randrange(max(1, count - MAX_AT_ONCE + 1))
    chosen = queries.WANDERERS.find(db, limit=MAX_AT_ONCE, projection={"_id": 1}).skip(first)
    return list(queries.SOME_CHARACTERS.find(db, character_ids=[monster["_id"] for monster in chosen]))


JOBS = [Job("wander-game-monsters", every_seconds=30, run=wander, what="lets monsters walk about")]
