"""Worker processes that are killed or stopped between their writes and the commit, on three members."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any

import pytest
from tests.losses import kill
from tests.sizes import todays

from squinney import transactions
from squinney.ledger import COLLECTIONS, Accounts, find_problems
from squinney.mongo import schema
from squinney.mongo.connect import client_for
from squinney.mongo.schema import Db
from squinney.testing.replica_set import ReplicaSet
from squinney.transactions import Transactions, abandoned

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]

OPENING = 1_000
FREE_AFTER_SECONDS = 5
WORKER = """
import sys, time
from pymongo.monitoring import CommandListener
from squinney.errors import Conflict, Unavailable
from squinney.ledger import Accounts
from squinney.mongo.connect import client_for

class Stall(CommandListener):
    commits = 0

    def started(self, event):
        if event.command_name == "commitTransaction":
            Stall.commits += 1
            if Stall.commits == STALL_AT:
                print("holds", flush=True)
                time.sleep(SLEEP)

    def succeeded(self, event):
        pass

    failed = succeeded

uri, name, number, src, dst = sys.argv[1:]
STALL_AT, SLEEP = 10, 5
ledger = Accounts(client_for(uri, event_listeners=[Stall()], serverSelectionTimeoutMS=30_000)[name])
for count in range(20):
    key = f"{number}-{count}"
    print("tries", key, flush=True)
    try:
        ledger.transfer(src, dst, 1, key=key, memo=key)
    except (Conflict, Unavailable):
        continue  # it was stopped for too long
    print("moved", key, flush=True)
"""


@pytest.fixture
def bank(replica_set: ReplicaSet) -> Iterator[Db]:
    with client_for(replica_set.uri, serverSelectionTimeoutMS=30_000) as client:
        db = client["workers"]
        schema.apply(db, [*transactions.COLLECTIONS, *COLLECTIONS])
        yield db
        client.drop_database("workers")


class Worker:
    """A process that moves money under keys; its tenth commit is delayed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.said: list[list[str]] = []

    def read_until(self, word: str) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.said.append(line.split())
            if self.said[-1][0] == word:
                return

    def keys(self, word: str) -> set[str]:
        return {said[1] for said in self.said if said[0] == word}


@contextmanager
def working(uri: str, db: Db, number: int, src: str, dst: str) -> Iterator[Worker]:
    command = [sys.executable, "-c", WORKER, uri, db.name, str(number), src, dst]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Worker(process)
        finally:
            process.kill()


@pytest.mark.parametrize(("is_stopped", "loses_primary"), todays(list(product((False, True), (False, True))), of=2))
def test_what_a_worker_held_is_free_in_seconds_and_nothing_is_lost_or_doubled(
    replica_set: ReplicaSet, bank: Db, monkeypatch: pytest.MonkeyPatch, is_stopped: bool, loses_primary: bool
) -> None:
    longest = 2.0
    monkeypatch.setattr(abandoned, "MAX_OPEN_SECONDS", longest)
    ledger = Accounts(bank)
    src, dst = (ledger.open("EUR", OPENING)["_id"] for _ in range(2))
    with working(replica_set.uri, bank, 1, src, dst) as worker:
        worker.read_until("holds")
        if is_stopped:
            worker.process.send_signal(signal.SIGSTOP)
        else:
            worker.process.kill()
        _move_in_time(bank, src, dst, longest if is_stopped else 0)
        if loses_primary:
            kill(replica_set)
        worker.process.send_signal(signal.SIGCONT)
        worker.read_until("the end")
    assert len(worker.keys("moved")) >= (19 if is_stopped else 9)
    for key in worker.keys("tries"):  # also those whose outcome nobody knows
        ledger.transfer(src, dst, 1, key=key, memo=key)
    memos = Counter(entry["memo"] for entry in bank["ledger.entries"].find({"transfer_id": {"$ne": None}}))
    assert memos == Counter(dict.fromkeys([*worker.keys("tries"), "in time"], 2))
    assert ledger.total("EUR") == 2 * OPENING
    assert list(find_problems(bank)) == []


def _move_in_time(db: Db, src: str, dst: str, longest: float) -> Any:
    """Move money between the accounts that the worker holds; `Busy` if they are not free in time."""
    seconds = (longest + FREE_AFTER_SECONDS) / 0.8  # a run waits for four fifths of its time
    transactions = Transactions(db, timeout_seconds=seconds)
    return Accounts(db, transactions=transactions).transfer(src, dst, 1, memo="in time")
