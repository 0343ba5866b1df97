"""One real MongoDB for the whole test run, one database for each test."""

from __future__ import annotations

import multiprocessing
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from squinney.mongo.connect import client_for
from squinney.mongo.embedded import Embedded, process
from squinney.mongo.schema import Db, Document
from tests.crash.case import modules

pytest_plugins = ["tests.plugins.crash_points", "tests.plugins.shelf", "tests.plugins.watch"]

# Dropping a database waits for the next flush of the journal, by default a tenth of a second; but an idle server that
# flushes every two milliseconds takes 4% of a core. Files of dropped databases stay open until a checkpoint behind the
# history that snapshots may ask for: by default five minutes.
ARGUMENTS = (
    *("--journalCommitInterval", "20", "--syncdelay", "5"),
    *("--setParameter", "ttlMonitorSleepSecs=1"),
    *("--setParameter", "diagnosticDataCollectionEnabled=false"),
    *("--setParameter", "minSnapshotHistoryWindowInSeconds=5"),
)
# What children need at once: those of the crash sweep, and commands.
PRELOADED = ["tests.crash.deaths", *modules(), "squinney.service.commands.main"]
MEMORY = Path("/dev/shm")
MEMORY_BYTES = 2 * 2**30


RUN_FOLDER = "SQUINNEY_TEST_FOLDER"  # given by whoever keeps one server for several runs
OUR_FOLDER = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    """Name one folder for the whole run; workers inherit it with the environment."""
    multiprocessing.get_context("forkserver").set_forkserver_preload(PRELOADED)
    if RUN_FOLDER not in os.environ:
        os.environ[RUN_FOLDER] = config.stash[OUR_FOLDER] = tempfile.mkdtemp(prefix="squinney-test-", dir=fast_folder())


def pytest_unconfigure(config: pytest.Config) -> None:
    """End what a crashed worker left and remove the folder."""
    if OUR_FOLDER not in config.stash:
        return
    run = Path(os.environ.pop(RUN_FOLDER))
    for folder in run.iterdir():
        if process.is_running(folder):
            process.end(folder)
    shutil.rmtree(run)


def fast_folder() -> Path | None:
    """Memory, where there is enough: collections are created three times as fast there."""
    usable = MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > MEMORY_BYTES
    return MEMORY if usable else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """What a test logged may hold half of a surrogate pair, and then could not be sent to the process that reports."""
    report = yield
    report.sections = [(name, said.encode(errors="backslashreplace").decode()) for name, said in report.sections]
    return report


@pytest.fixture(scope="session")
def mongod() -> Iterator[Embedded]:
    """The server that all workers of this run share."""
    with serve("shared") as server:
        yield server


@pytest.fixture(scope="session")
def own_mongod() -> Iterator[Embedded]:
    """A server that only this worker uses: for fail points, which are the whole server's, and for pausing it."""
    with serve(f"own-{os.getpid()}") as server:
        yield server


def serve(name: str) -> Embedded:
    """A server of this run, started if nobody has."""
    return Embedded.start(Path(os.environ[RUN_FOLDER]) / name, test_commands=True, arguments=ARGUMENTS)


@pytest.fixture(scope="session")
def client(mongod: Embedded) -> Iterator[MongoClient[Document]]:
    """A client of the shared server."""
    with client_for(mongod.uri) as client:
        yield client


@pytest.fixture
def db(client: MongoClient[Document]) -> Iterator[Db]:
    """An empty database of the test's own, dropped at its end."""
    name = f"test_{secrets.token_hex(8)}"
    yield client[name]
    client.drop_database(name)


@pytest.fixture
def own_db(own_mongod: Embedded) -> Iterator[Db]:
    """Like `db`, on the server that only this worker uses; goes with `failing`."""
    with client_for(own_mongod.uri) as client:
        name = f"test_{secrets.token_hex(8)}"
        yield client[name]
        client.drop_database(name)


@pytest.fixture
def failing(own_mongod: Embedded) -> Callable[..., AbstractContextManager[None]]:
    """`with failing(["insert"], closeConnection=True): ...` makes those commands fail on `own_mongod`.

    `mode` is the driver's: "alwaysOn" or {"times": n}; the other arguments are those of the `failCommand` fail point.
    """

    @contextmanager
    def failing(commands: Sequence[str], *, mode: Any = "alwaysOn", **failure: Any) -> Iterator[None]:
        with client_for(own_mongod.uri, appname="fail-points") as control:
            configure = {"configureFailPoint": "failCommand"}
            control.admin.command(
                {**configure, "mode": mode, "data": {"failCommands": list(commands), **failure}},
            )
            try:
                yield
            finally:
                control.admin.command({**configure, "mode": "off"})

    return failing
