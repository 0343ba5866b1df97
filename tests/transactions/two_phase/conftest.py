"""Collections for two-phase runs."""

from __future__ import annotations

import pytest
from tests.plugins.shelf import Prepared

from squinney.mongo.schema import Collection, Db
from squinney.transactions.two_phase import COLLECTIONS


@pytest.fixture
def jars(prepared: Prepared) -> Db:
    """Two jars, of 10 and 0 coins."""
    db = prepared([*COLLECTIONS, Collection("jars"), Collection("notes")])
    db["jars"].insert_many([{"_id": "a", "coins": 10}, {"_id": "b", "coins": 0}])
    return db
