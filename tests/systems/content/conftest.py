"""A site in each transaction mode."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from tests.plugins.shelf import Prepared

from squinney import transactions
from squinney.content import COLLECTIONS, Author, Nodes
from squinney.content.comments import conversion, paged
from squinney.mongo.schema import Db
from squinney.transactions import Mode, Transactions

ADA: Author = {"_id": "ada", "name": "Ada"}
BEN: Author = {"_id": "ben", "name": "Ben"}


class Hand:
    """A clock that moves when told."""

    def __init__(self) -> None:
        self.now = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def forward(self, **span: float) -> None:
        self.now += timedelta(**span)


@pytest.fixture
def hand() -> Hand:
    return Hand()


@pytest.fixture(params=["native", "two-phase"])
def mode(request: pytest.FixtureRequest) -> Mode:
    """Every test that asks for it runs in both modes."""
    return request.param


@pytest.fixture
def site(prepared: Prepared) -> Db:
    """A database with content's collections."""
    return prepared([*transactions.COLLECTIONS, *COLLECTIONS])


@pytest.fixture
def a_page(monkeypatch: pytest.MonkeyPatch) -> int:
    """How many comments a stored page takes before the next begins: ten, so that few posts fill several."""
    for module in (paged, conversion):
        monkeypatch.setattr(module, "COMMENTS_A_PAGE", 10)
    return 10


@pytest.fixture
def nodes(site: Db, mode: Mode, hand: Hand) -> Nodes:
    return Nodes(site, transactions=Transactions(site, mode, timeout_seconds=20), clock=hand)


@pytest.fixture
def plain_nodes(site: Db) -> Nodes:
    """In the default mode, by the real clock."""
    return Nodes(site)
