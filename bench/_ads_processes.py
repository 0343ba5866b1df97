"""Several processes: how soon another process stops choosing an ended campaign, and what eight of them overspend."""

from __future__ import annotations

import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path

from pymongo.errors import OperationFailure

from bench import report
from squinney import ads, prepare
from squinney.ads import AdNetwork
from squinney.errors import Unavailable
from squinney.mongo.connect import client_for
from squinney.mongo.schema import Db
from squinney.testing.replica_set import ReplicaSet

SECRET = b"bench"
CREATIVE = {"kind": "text", "title": "t", "text": "", "url": "/"}
SITE = "processes"
SPENDERS = 8
CAMPAIGNS, TOTAL, DAILY = 30, 100, 60  # cents; an impression costs one
IDLE_SECONDS = 5
MAX_SECONDS = 60
_spawn = multiprocessing.get_context("spawn")


def parts(uri: str, database: str, rounds: int) -> list[str]:
    """Measure, and return the parts of the page."""
    rows = [_row("change stream", _gone(uri, database, rounds)), _row("polling", _gone(uri, database, rounds, True))]
    with tempfile.TemporaryDirectory(prefix="squinney-") as folder, ReplicaSet.start(Path(folder)) as three:
        rows.append(_row("three members, before", _gone(three.uri, database, rounds)))
        rows.append(_row("the primary steps down before each", _gone(three.uri, database, 3, lose=three)))
    return [
        "## Until another process stops choosing an ended campaign",
        "The time from the call of `deactivate` until another process no longer chooses the campaign."
        " It tries every millisecond.",
        report.table(["how it follows", "times", "p50 ms", "most ms"], rows),
        "## Overspend",
        _overspent(uri, database),
    ]


def _row(name: str, spans: list[float]) -> list[str]:
    return [name, str(len(spans)), f"{statistics.median(spans) * 1000:,.0f}", f"{max(spans) * 1000:,.0f}"]


def _make(network: AdNetwork, name: str, zone: str, total: int = 10**9, daily: int | None = None) -> None:
    budget = {"total": total, "daily": daily, "currency": "EUR"}
    network.create_campaign(name, "Larch", pricing={"model": "cpm", "bid": 1000}, budget=budget)
    network.place(name, SITE, zone, {"unit": name, "creative": CREATIVE})


@contextmanager
def _opened(uri: str, database: str, polling: bool | None = None) -> Iterator[tuple[Db, AdNetwork]]:
    with client_for(uri, serverSelectionTimeoutMS=30_000) as client:
        db = client[database]
        with AdNetwork(db, secret=SECRET, polling=polling) as network:
            yield db, network


def _gone(
    uri: str, database: str, rounds: int, polling: bool | None = None, lose: ReplicaSet | None = None
) -> list[float]:
    """Return how long each of `rounds` campaigns was chosen after its end."""
    ours, theirs = _spawn.Pipe()
    other = _spawn.Process(target=_watch, args=(uri, database, polling, theirs), daemon=True)
    other.start()
    try:
        with _opened(uri, database) as (db, network):
            prepare(db, ads)
            return [_end_one(network, ours, f"{time.monotonic_ns()}", lose) for _ in range(rounds)]
    finally:
        ours.send("")
        other.join(MAX_SECONDS)


def _end_one(network: AdNetwork, other: Connection, name: str, lose: ReplicaSet | None) -> float:
    _make(network, name, name)
    other.send(name)
    other.recv()
    if lose:
        _step_down(lose)
        network.get(name)  # this process knows the new primary
    began = time.monotonic()
    network.deactivate(name)
    return float(other.recv()) - began


def _step_down(three: ReplicaSet) -> None:
    """Step down; try again while no other member has caught up."""
    for left in reversed(range(10)):
        try:
            three.step_down()
            break
        except OperationFailure:
            if not left:
                raise
    three.primary()


def _watch(uri: str, database: str, polling: bool | None, parent: Connection) -> None:
    """Report when the campaign of a zone is chosen, and when it is no longer chosen."""
    with _opened(uri, database, polling) as (_, network):
        while zone := parent.recv():
            _wait(network, zone, chosen=True)
            parent.send("chosen")
            _wait(network, zone, chosen=False)
            parent.send(time.monotonic())


def _wait(network: AdNetwork, zone: str, *, chosen: bool) -> None:
    while True:
        with suppress(Unavailable):
            if bool(network.choose(SITE, zone)) == chosen:
                return
        time.sleep(0.001)


def _overspent(uri: str, database: str) -> str:
    with _opened(uri, database) as (db, network):
        names = [f"small {number}" for number in range(CAMPAIGNS)]
        for name in names:
            _make(network, name, "small", TOTAL, DAILY)
        others = [_spawn.Process(target=_spend, args=(uri, database), daemon=True) for _ in range(SPENDERS)]
        for other in others:
            other.start()
        for other in others:
            other.join(MAX_SECONDS)
        spent = [campaign["spent"] for campaign in network.money(names).values()]
        settled = db["ads.serves"].count_documents({"campaign_id": {"$in": names}})
    over = sum(max(0, micros - DAILY * 1000) for micros in spent)
    return (
        f"{SPENDERS} processes concurrently served {CAMPAIGNS} campaigns of {DAILY} cents a day until the money was"
        f" spent: {settled:,} impressions settled, {sum(spent) / (CAMPAIGNS * DAILY * 1000):.1%} of the money spent,"
        f" {over:,} thousandths of a cent overspent."
    )


def _spend(uri: str, database: str) -> None:
    """Choose ads and settle their impressions until there was no ad to choose for some seconds."""
    with _opened(uri, database) as (_, network):
        last = time.monotonic()
        while time.monotonic() < last + IDLE_SECONDS:
            serves = network.choose(SITE, "small", count=20)
            if not serves:
                time.sleep(0.05)
                continue
            last = time.monotonic()
            with suppress(Unavailable):
                network.impressions([serve.serve_id for serve in serves])
