"""A network with a clock that goes on at every look, so that nothing happens at the same moment by chance."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from tests.plugins.shelf import Prepared

from squinney import transactions
from squinney.mongo.schema import Db
from squinney.patterns import queue
from squinney.social import COLLECTIONS, Network

SETS = [*transactions.COLLECTIONS, *queue.COLLECTIONS, *COLLECTIONS]


class Ticking:
    """A clock that is a second later each time, across a month's end."""

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
    """A database with the network's collections."""
    return prepared(SETS)


@pytest.fixture
def network(social_db: Db, clock: Ticking) -> Network:
    return Network(social_db, clock=clock)


@pytest.fixture
def people(network: Network) -> Callable[..., list[str]]:
    """`ann, bob = people("ann", "bob")` lets them join under these ids."""

    def join(*names: str) -> list[str]:
        return [network.join(name.title(), user=name)["id"] for name in names]

    return join
