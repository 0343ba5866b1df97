"""Fixtures: a network whose clock advances at every call, so that no two events have the same time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from tests.plugins.shelf import Prepared

from squinney import transactions
from squinney.mongo.schema import Db
from squinney.patterns import queue
from squinney.social import COLLECTIONS, Network

ALL_COLLECTIONS = [*transactions.COLLECTIONS, *queue.COLLECTIONS, *COLLECTIONS]


class Ticking:
    """A clock that is one second later at each call, and passes the end of a year."""

    def __init__(self) -> None:
        self.now = datetime(2026, 12, 31, 23, 59, 50, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


@pytest.fixture
def clock() -> Ticking:
    return Ticking()


@pytest.fixture
def social_db(prepared: Prepared) -> Db:
    """Return a database with the network's collections."""
    return prepared(ALL_COLLECTIONS)


@pytest.fixture
def network(social_db: Db, clock: Ticking) -> Network:
    return Network(social_db, clock=clock)


@pytest.fixture
def people(network: Network) -> Callable[..., list[str]]:
    """Return a function that creates members: `ann, bob = people("ann", "bob")`."""

    def join(*names: str) -> list[str]:
        return [network.join(name.title(), user=name)["id"] for name in names]

    return join
