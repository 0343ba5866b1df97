"""What happens by itself: monsters walk about."""

from __future__ import annotations

import random

from squinney.errors import Conflict
from squinney.game import queries
from squinney.game.world import World
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db
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
    # A random place to begin: in a large world each gets its turn, without a list of all of them.
    after = random.choice("0123456789abcdefghijklmnopqrstuvwxyz")
    found = list(queries.WANDERERS.find(db, limit=MOST_AT_ONCE, after=after))
    found += queries.WANDERERS.find(db, limit=MOST_AT_ONCE - len(found), after="") if len(found) < MOST_AT_ONCE else []
    for monster in {one["_id"]: one for one in found}.values():
        exits = world.location(monster["location"]["id"])["exits"]
        try:
            world.move(monster["_id"], random.choice(sorted(exits)))
        except (Conflict, IndexError):  # no exit, or none that leads anywhere
            continue
        moved += 1
    return {"moved": moved}


JOBS = [Job("wander-game-monsters", every_seconds=30, run=wander, what="lets monsters walk about")]
