"""Rates of requests that several processes of a site count together."""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack

import pytest
from starlette.testclient import TestClient
from tests.api.conftest import SECRET

from squinney import assembly
from squinney.http.site_options import SiteOptions
from squinney.mongo.schema import Db
from squinney.service.middleware import rates
from squinney.service.middleware.rates import BURST_SECONDS, SharedPace
from squinney.service.site import create_site
from squinney.shared_rates import NAME, share

RATE = 20.0
PROCESSES = 3


def pace(db: Db, burst_seconds: float = BURST_SECONDS) -> SharedPace:
    return SharedPace(db, RATE, burst_seconds=burst_seconds, name_of=lambda name: name)


def test_processes_together_let_pass_little_more_than_one(systems: assembly.Assembled) -> None:
    """A caller sends as fast as it can to three processes."""

    async def send() -> tuple[int, float]:
        paces, count = [pace(systems.db, burst_seconds=1) for _ in range(PROCESSES)], 0
        began = time.monotonic()
        while (elapsed := time.monotonic() - began) < 6:
            for own in paces:
                while own.wait_seconds(time.monotonic(), "caller") == 0.0:
                    count += 1
                if own._sharing is not None:
                    await own._sharing
            await asyncio.sleep(0.02)
        return count, elapsed

    passed, seconds = asyncio.run(send())
    one = RATE * (seconds + 1)
    assert one * 0.8 < passed < 0.7 * PROCESSES * one, (passed, one)


def test_what_one_process_let_pass_is_refused_by_another(
    systems: assembly.Assembled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rates, "SHARED_EVERY_SECONDS", 0.0)  # after each request
    options = SiteOptions(secret=SECRET, rate_per_address=0.5)  # a burst of five, and then one every two seconds
    with ExitStack() as stack:
        first, second = (
            stack.enter_context(TestClient(create_site(systems, options=options))) for _ in range(PROCESSES - 1)
        )
        alone = [first.get("/robots.txt").status_code for _ in range(9)]
        assert (alone.count(200) >= 5, alone[-1]) == (True, 429)
        for _ in range(3):
            time.sleep(0.5)
            first.get("/robots.txt")  # shares what passed while it was sharing
        passed, began = 0, time.monotonic()
        while (answer := second.get("/robots.txt")).status_code == 200:
            passed += 1
            time.sleep(1)
        due_meanwhile = 0.5 * (time.monotonic() - began)
        assert 1 <= passed <= 3 + due_meanwhile, "fewer than a burst of its own, which is six"
        assert int(answer.headers["retry-after"]) > 0
    names = [document["_id"] for document in systems.db[NAME].find()]
    assert names
    assert not [name for name in names if "testclient" in name or "127.0.0.1" in name]


def test_shares_of_processes_add_up_by_the_servers_clock(systems: assembly.Assembled) -> None:
    assert 1.5 < share(systems.db, {"a": 2.0})["a"] <= 2.0
    ahead = share(systems.db, {"a": 3.0, "b": 0.5})
    assert 3.0 < ahead["a"] <= 5.0
    assert ahead["b"] <= 0.5


def test_who_sends_little_is_not_written(systems: assembly.Assembled) -> None:
    async def send() -> None:
        own = pace(systems.db)
        now = own._shared_at
        for second in range(1, 6):
            own.wait_seconds(now + second, "slow")
            if own._sharing is not None:
                await own._sharing

    asyncio.run(send())
    assert systems.db[NAME].count_documents({}) == 0


def test_without_the_database_each_process_counts_alone(systems: assembly.Assembled) -> None:
    async def send() -> list[bool]:
        systems.db[NAME].drop()
        systems.db.create_collection(NAME, validator={"never": True})  # each write is refused
        own = pace(systems.db)
        now = own._shared_at + 2
        passed = []
        for _ in range(int(RATE * BURST_SECONDS) + 5):
            passed.append(own.wait_seconds(now, "caller") == 0.0)
            if own._sharing is not None:
                await own._sharing
        return passed

    passed = asyncio.run(send())
    assert passed.count(False) in (3, 4, 5)
