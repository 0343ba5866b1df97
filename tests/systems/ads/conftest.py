"""A network with a clock that tests can advance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.plugins.shelf import Prepared

from squinney import transactions
from squinney.ads import COLLECTIONS, AdNetwork
from squinney.mongo.schema import Db

CREATIVE = {"kind": "text", "title": "Boots", "text": "Dry feet", "url": "https://example.com/boots"}


class Turned:
    """A clock that shows today's noon until it is advanced. Not an earlier day: the server's TTL deletes old serves."""

    def __init__(self) -> None:
        self.now = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0)

    def __call__(self) -> datetime:
        return self.now

    def turn(self, **span: float) -> None:
        self.now += timedelta(**span)


@pytest.fixture
def clock() -> Turned:
    return Turned()


@pytest.fixture
def ads_db(prepared: Prepared) -> Db:
    """A database with the network's collections."""
    return prepared([*transactions.COLLECTIONS, *COLLECTIONS])


@pytest.fixture
def network(ads_db: Db, clock: Turned) -> Iterator[AdNetwork]:
    with AdNetwork(ads_db, secret=b"test", clock=clock, seed=1) as network:
        yield network


@pytest.fixture
def campaign(network: AdNetwork) -> Callable[..., str]:
    """`campaign("a", bid=250, total=...)` creates a campaign and puts an ad with the same name into zone `top`."""

    def make(name: str, *, bid: int = 250, model: str = "cpm", total: int = 1_000_000, **options: Any) -> str:
        ad = {"unit": name, "creative": CREATIVE, **options.pop("ad", {})}
        budget = {"total": total, "currency": "EUR", **options.pop("budget", {})}
        network.create_campaign(name, "Larch", pricing={"model": model, "bid": bid}, budget=budget, **options)
        network.place(name, "news", "top", ad)
        return name

    return make
