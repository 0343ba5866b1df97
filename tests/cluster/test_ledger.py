"""Transfers while the primary of three goes away: nothing acknowledged is lost."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.losses import kill, pause, step_down
from tests.sizes import todays

from squinney import transactions
from squinney.errors import Conflict, Unavailable
from squinney.ledger import COLLECTIONS, Accounts, find_problems
from squinney.mongo import schema
from squinney.mongo.connect import client_for
from squinney.mongo.schema import Db
from squinney.testing.replica_set import ReplicaSet
from squinney.transactions import Transactions

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]

WORKERS = 6
ACCOUNTS = 12
OPENING = 100_000
MAX_SECONDS = 60


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplicaSet]:
    with ReplicaSet.start(tmp_path_factory.mktemp("ledger")) as replica_set:
        yield replica_set


@pytest.fixture
def bank(three: ReplicaSet) -> Iterator[Db]:
    """A ledger with some accounts, on a set that is whole."""
    with client_for(three.uri, serverSelectionTimeoutMS=30_000) as client:
        db = client["bank"]
        schema.apply(db, [*transactions.COLLECTIONS, *COLLECTIONS])
        yield db
        client.drop_database("bank")


class Load:
    """Workers that transfer until they are told to stop, and remember what was acknowledged."""

    def __init__(self, db: Db) -> None:
        self.db = db
        self.stop = threading.Event()
        self.acknowledged: dict[str, tuple[str, str, int]] = {}
        self.unknown: dict[str, tuple[str, str, int]] = {}
        self.errors: Counter[str] = Counter()
        ledger = Accounts(db)
        self.ids = [ledger.open("EUR", OPENING)["_id"] for _ in range(ACCOUNTS)]

    def ledger(self) -> Accounts:
        return Accounts(self.db, transactions=Transactions(self.db, timeout_seconds=5))

    def work(self, number: int) -> None:
        ledger, chance = self.ledger(), random.Random(number)
        for count in range(1_000_000):
            if self.stop.is_set():
                return
            src, dst = chance.sample(self.ids, 2)
            key, transfer = f"{number}-{count}", (src, dst, chance.randint(1, 50))
            try:
                ledger.transfer(*transfer, key=key, memo=key)
            except (Unavailable, Conflict) as error:
                self.errors[type(error).__name__] += 1
                self.unknown[key] = transfer
            else:
                self.acknowledged[key] = transfer

    def wait_for(self, more: int) -> None:
        """Until so many more transfers were acknowledged."""
        goal, deadline = len(self.acknowledged) + more, time.monotonic() + MAX_SECONDS
        while len(self.acknowledged) < goal and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(self.acknowledged) >= goal, f"the load does not get on: {self.errors}"


def settle(load: Load) -> None:
    """Repeat what nobody could be sure of."""
    for key, transfer in load.unknown.items():
        load.acknowledged[key] = transfer
        load.ledger().transfer(*transfer, key=key, memo=key)


@pytest.mark.parametrize("loss", todays([kill, step_down, pause], of=3), ids=lambda loss: loss.__name__)
def test_no_acknowledged_transfer_is_lost(three: ReplicaSet, bank: Db, loss: Callable[[ReplicaSet], None]) -> None:
    load = Load(bank)
    with ThreadPoolExecutor(WORKERS) as pool:
        work = [pool.submit(load.work, number) for number in range(WORKERS)]
        try:
            load.wait_for(60)
            loss(three)
            load.wait_for(60)
        finally:
            load.stop.set()
        for future in work:
            future.result()
    settle(load)
    assert_kept(load)


def assert_kept(load: Load) -> None:
    lines: Counter[tuple[Any, ...]] = Counter(
        (entry["memo"], entry["amount"]) for entry in load.db["ledger.entries"].find({"transfer_id": {"$ne": None}})
    )
    expected = Counter(
        {(key, sign * amount): 1 for key, (_, _, amount) in load.acknowledged.items() for sign in (1, -1)}
    )
    assert lines == expected
    assert Accounts(load.db).total("EUR") == ACCOUNTS * OPENING
    assert [str(problem) for problem in find_problems(load.db)] == []
