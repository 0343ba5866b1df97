"""Fixtures: a database with content's collections, and nodes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from tests.plugins.shelf import Prepared

from squinney import transactions
from squinney.content import COLLECTIONS, Author, Nodes
from squinney.content.comments import conversion, paged
from squinney.mongo.schema import Db
from squinney.transactions import Transactions

ADA: Author = {"_id": "ada", "name": "Ada"}
BEN: Author = {"_id": "ben", "name": "Ben"}


class ManualClock:
    """A clock that moves only when a test moves it."""

    def __init__(self) -> None:
        self.now = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def forward(self, **span: float) -> None:
        self.now += timedelta(**span)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def site(prepared: Prepared) -> Db:
    """A database with content's collections."""
    return prepared([*transactions.COLLECTIONS, *COLLECTIONS])


@pytest.fixture
def a_page(monkeypatch: pytest.MonkeyPatch) -> int:
    """Reduce the comments of a stored page to ten, so that few posts fill several pages; return the number."""
    for module in (paged, conversion):
        monkeypatch.setattr(module, "COMMENTS_A_PAGE", 10)
    return 10


@pytest.fixture
def nodes(site: Db, clock: ManualClock) -> Nodes:
    return Nodes(site, transactions=Transactions(site, timeout_seconds=20), clock=clock)


@pytest.fixture
def plain_nodes(site: Db) -> Nodes:
    """Nodes with the real clock."""
    return Nodes(site)
