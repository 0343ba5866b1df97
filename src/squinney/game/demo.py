"""The demo world, The Drowned Lamp."""

from __future__ import annotations

from pathlib import Path

from squinney.game.world import World
from squinney.mongo.schema import Db

FILE = Path(__file__).parent / "demo_world.yaml"


def demo(db: Db) -> None:
    """Load the world of The Drowned Lamp; a second call adds the rooms that are missing.

    Atomic: each room with everything in it.
    After a crash: the next call adds the missing rooms.
    """
    World(db).load_world(FILE)
