"""One real MongoDB for the whole test run, one database for each test."""

from __future__ import annotations

import gc
import secrets
import signal
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from pymongo import MongoClient

from squinney.identity import passwords
from squinney.mongo.connect import client_for
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db, Document
from squinney.testing.children import preload
from tests.passwords import REPLACED
from tests.sizes import day

SHARE_MUCH = ("tests/web/", "tests/cluster/", "tests/test_queries.py")

pytest_plugins = ["squinney.testing.plugin", "tests.plugins.shelf", "tests.plugins.watch", "tests.plugins.left_folders"]


def pytest_configure(config: pytest.Config) -> None:
    """Import everything before the crash sweep forks its children, and prepare for a busy machine and for Ctrl-C.

    A shell starts background jobs with SIGINT ignored, and child processes inherit that; some tests interrupt them.
    """
    preload("tests.preload")
    day()  # before other processes are started, which must find the same tests
    # A busy machine generates slowly: that says nothing about the code.
    settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("any machine")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run tests that share a site, a browser, a replica set or the demo first.

    Idle processes take over the last tests of others, and would have to start these fixtures again.
    """
    items.sort(key=lambda item: not item.nodeid.startswith(SHARE_MUCH))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Turn off garbage collection: each pass would traverse thousands of tests that live until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Escape lone surrogates in captured logs: xdist cannot send them to the main process."""
    report = yield
    report.sections = [(name, said.encode(errors="backslashreplace").decode()) for name, said in report.sections]
    return report


@pytest.fixture(scope="session")
def client(mongo_client: MongoClient[Document]) -> MongoClient[Document]:
    """A client for the shared server."""
    return mongo_client


@pytest.fixture
def db(mongo_db: Db) -> Db:
    """An empty database for this test, dropped afterwards."""
    return mongo_db


@pytest.fixture
def own_db(own_mongod: Embedded) -> Iterator[Db]:
    """Like `db`, on a server that only this worker uses; needed with `failing`."""
    with client_for(own_mongod.uri) as client:
        name = f"test_{secrets.token_hex(8)}"
        yield client[name]
        client.admin.command("killAllSessions", [])  # a commit that was made to fail holds its locks for 15 seconds
        client.drop_database(name)


@pytest.fixture
def failing(own_mongod: Embedded) -> Callable[..., AbstractContextManager[None]]:
    """`with failing(["insert"], closeConnection=True): ...` makes these commands fail on `own_mongod`.

    `mode` is "alwaysOn" or {"times": n}; the other arguments are passed to the `failCommand` fail point.
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


@pytest.fixture
def quick_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make password hashing cheap."""
    for name, replacement in REPLACED.items():
        monkeypatch.setattr(passwords, name, replacement)
