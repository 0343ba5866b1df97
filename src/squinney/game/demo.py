"""A small world to play in on the first start."""

from __future__ import annotations

from pathlib import Path

from squinney.game.world import World
from squinney.mongo.schema import Db

FILE = Path(__file__).parent / "demo_world.yaml"
START = "jetty"


def demo(db: Db) -> None:
    """Make the world of The Drowned Lamp; a second call adds what is missing.

    Atomic: each room with all that is in it.
    After a crash: the next call goes on.
    """
    World(db).load_world(FILE)
