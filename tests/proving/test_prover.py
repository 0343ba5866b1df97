"""A proof of the page cannot be used to hurt: one runs at a time, and nothing of it stays, whatever is killed."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from pymongo import MongoClient
from tests.processes import is_alive

from squinney.mongo.connect import client_for
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Document
from squinney.service.proving.prover import LOCK, Prover
from squinney.service.proving.subjects import TRANSFER

MAX_SECONDS = 120
SITE = """
import sys, time
from pathlib import Path
from squinney.mongo.connect import client_for
from squinney.service.proving.prover import Prover
prover = Prover(client_for(sys.argv[1]), sys.argv[1], Path(sys.argv[2]), seconds=60)
prover.start("transfer")
while True:
    time.sleep(1)
"""


@pytest.fixture
def watching(own_mongod: Embedded) -> Iterator[MongoClient[Document]]:
    with client_for(own_mongod.uri) as client:
        yield client


@pytest.fixture
def prover(own_mongod: Embedded, watching: MongoClient[Document], tmp_path: Path) -> Iterator[Prover]:
    prover = Prover(watching, own_mongod.uri, tmp_path, seconds=60)
    yield prover
    prover.close()


def wait_for(condition: Callable[[], object], seconds: float = 120) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


def runners(folder: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or ()
        if str(folder / LOCK) in words and "squinney.service.proving.runner" in words and is_alive(process.pid):
            found.append(process)
    return found


def databases(client: MongoClient[Document]) -> list[str]:
    return [name for name in client.list_database_names() if name.startswith("prove_")]


def running(folder: Path) -> tuple[psutil.Process, list[psutil.Process]]:
    """Wait for a proof with all four workers; return the process that runs it, and the workers."""
    wait_for(lambda: runners(folder) and len(workers_of(runners(folder)[0])) == 4)
    runner = runners(folder)[0]
    return runner, workers_of(runner)


def workers_of(runner: psutil.Process) -> list[psutil.Process]:
    """Return the workers of all lanes: they are children of the process from which they are forked."""
    return [worker for server in runner.children() for worker in server.children()]


def require_all_gone(client: MongoClient[Document], processes: list[psutil.Process]) -> None:
    until = time.monotonic() + MAX_SECONDS
    while True:
        left = [process.pid for process in processes if is_alive(process.pid)], databases(client)
        if left == ([], []):
            return
        assert time.monotonic() < until, left
        time.sleep(0.05)


def test_ten_visitors_start_one_proof_and_its_end_leaves_nothing(
    prover: Prover, watching: MongoClient[Document], tmp_path: Path
) -> None:
    with ThreadPoolExecutor(10) as visitors:
        started = list(visitors.map(lambda _: prover.start(TRANSFER), range(10)))
    assert sorted(started) == [False] * 9 + [True]
    runner, workers = running(tmp_path)
    assert len(runners(tmp_path)) == 1
    assert runner.nice() >= 10
    wait_for(lambda: prover.progress and prover.progress.state == "running")
    assert prover.kill()
    wait_for(lambda: prover.progress and all(lane.kills for lane in prover.progress.lanes))
    prover.close()
    require_all_gone(watching, [runner, *workers])
    assert not prover.start(TRANSFER), "the site stops"


def test_a_second_site_on_the_same_mongodb_says_that_one_runs(
    prover: Prover, own_mongod: Embedded, watching: MongoClient[Document], tmp_path: Path
) -> None:
    prover.start(TRANSFER)
    running(tmp_path)
    second = Prover(watching, own_mongod.uri, tmp_path, seconds=60)
    assert second.start(TRANSFER)
    wait_for(lambda: second.progress and second.progress.is_over)
    assert second.progress
    assert "another proof is running" in second.progress.message
    assert prover.is_running
    assert databases(watching)


@pytest.mark.parametrize("killed", ["the runner", "the site", "all"])
def test_whatever_is_killed_nothing_is_left(
    killed: str, own_mongod: Embedded, watching: MongoClient[Document], tmp_path: Path
) -> None:
    with subprocess.Popen([sys.executable, "-c", SITE, own_mongod.uri, str(tmp_path)]) as site:
        try:
            runner, workers = running(tmp_path)
            wait_for(lambda: len(databases(watching)) == 2)
            if killed != "the site":
                runner.kill()
            if killed == "all":
                for worker in workers:
                    worker.kill()
            if killed != "the runner":
                site.kill()
            if killed == "all":  # nobody is left who could: the next start does it
                wait_for(lambda: not any(is_alive(one.pid) for one in (runner, *workers)))
                Prover(watching, own_mongod.uri, tmp_path, seconds=60)
            require_all_gone(watching, [runner, *workers])
        finally:
            site.kill()
