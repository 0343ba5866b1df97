"""A database with identity's collections."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from tests.plugins.shelf import Prepared

from squinney import transactions
from squinney.clock import utcnow
from squinney.identity import COLLECTIONS, Invitations, Keys, People, Sessions
from squinney.mongo.schema import Db

PASSWORD = "correct horse battery"


class Clock:
    """A clock that tests advance. It starts now, because the server's own clock deletes expired documents."""

    def __init__(self) -> None:
        self.now = utcnow()

    def __call__(self) -> datetime:
        return self.now

    def advance(self, **span: float) -> None:
        self.now += timedelta(**span)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ready(prepared: Prepared) -> Db:
    """A database with identity's collections."""
    return prepared([*transactions.COLLECTIONS, *COLLECTIONS])


@pytest.fixture
def people(ready: Db) -> People:
    return People(ready)


@pytest.fixture
def sessions(ready: Db) -> Sessions:
    return Sessions(ready)


@pytest.fixture
def keys(ready: Db) -> Keys:
    return Keys(ready)


@pytest.fixture
def invitations(ready: Db) -> Invitations:
    return Invitations(ready)
