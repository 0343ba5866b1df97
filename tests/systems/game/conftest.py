"""Fixtures: a small world."""

from __future__ import annotations

import pytest
from tests.plugins.shelf import Prepared

from squinney import transactions
from squinney.game import COLLECTIONS, World
from squinney.mongo.schema import Db
from squinney.patterns import follow

ALL = [*transactions.COLLECTIONS, *follow.COLLECTIONS, *COLLECTIONS]


@pytest.fixture
def game_db(prepared: Prepared) -> Db:
    return prepared(ALL)


@pytest.fixture
def world(game_db: Db) -> World:
    """A hall with a cellar below and a yard to the north; ann is in the hall."""
    made = World(game_db)
    made.create_location("hall", name="Hall", description="A hall.", exits={"n": "yard", "d": "cellar", "e": "gone"})
    made.create_location("yard", name="Yard", description="A yard.", exits={"s": "hall"})
    made.create_location("cellar", name="Cellar", description="A cellar.", exits={"u": "hall"})
    made.create_character("Ann", id="ann", location="hall", gold=100)
    made.create_character("Bob", id="bob", location="hall", gold=20)
    return made
