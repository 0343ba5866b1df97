"""Leases: one holder at a time, by the server's clock."""

from __future__ import annotations

import itertools
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from types import SimpleNamespace

import pytest

from squinney.errors import Invalid
from squinney.mongo import schema
from squinney.mongo.schema import Db
from squinney.mongo.server_time import server_now
from squinney.patterns import leases
from squinney.patterns.leases import Leases


@pytest.fixture
def ours(db: Db) -> Leases:
    schema.apply(db, leases.COLLECTIONS)
    return Leases(db, holder="ours")


def test_one_of_many_gets_it(ours: Leases, db: Db) -> None:
    with ThreadPoolExecutor(16) as pool:
        got = list(pool.map(lambda n: Leases(db, holder=str(n)).acquire("a", 30), range(32)))
    assert sum(lease is not None for lease in got) == 1


def test_it_passes_on_when_it_has_run_out_and_each_term_is_greater(ours: Leases, db: Db) -> None:
    first = ours.acquire("a", 0.05)
    assert first
    time.sleep(0.1)
    second = Leases(db, holder="theirs").acquire("a", 30)
    assert second
    assert second.term > first.term
    assert not first.is_sure
    assert not ours.renew(first, 30)
    assert not first.is_sure
    ours.release(first)
    assert Leases(db).acquire("a", 30) is None, "a late release must not free another's lease"


def test_a_lease_counts_from_before_it_was_asked_for(ours: Leases, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(1000, 100)  # each look at it is a hundred seconds later
    monkeypatch.setattr(leases, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    lease = ours.acquire("a", 30)
    assert lease
    assert lease.sure_until == 1000 + 30
    asked = next(clock) + 100
    assert ours.renew(lease, 30)
    assert lease.sure_until == asked + 30


def test_renewing_keeps_others_out(ours: Leases, db: Db) -> None:
    lease = ours.acquire("a", 5)
    assert lease
    assert ours.renew(lease, 60)
    first_end = lease.sure_until - 55
    while time.monotonic() < first_end:
        time.sleep(0.1)
    assert lease.is_sure
    assert Leases(db).acquire("a", 30) is None


def test_a_release_lets_the_next_in_at_once(ours: Leases, db: Db) -> None:
    lease = ours.acquire("a", 30)
    assert lease
    ours.release(lease)
    assert not lease.is_sure
    again = Leases(db, holder="theirs").acquire("a", 30)
    assert again
    assert again.term == lease.term + 1
    assert (ours.look("a") or {})["holder"] == "theirs"


def test_the_deadline_is_the_servers_whatever_clock_a_holder_has(
    ours: Leases, db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert ours.acquire("a", 60)
    until = (ours.look("a") or {})["until"]
    assert timedelta(seconds=50) < until - server_now(db) <= timedelta(seconds=60)


def test_a_name_is_checked(ours: Leases) -> None:
    with pytest.raises(Invalid):
        ours.acquire("", 30)
