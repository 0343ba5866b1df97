"""One real MongoDB for the whole test run, one database for each test."""

from __future__ import annotations

import gc
import secrets
import signal
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from pymongo import MongoClient

from squinney.identity import passwords
from squinney.mongo.connect import client_for
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db, Document
from squinney.testing.children import preload
from tests.passwords import REPLACED

SHARE_MUCH = ("tests/web/", "tests/cluster/", "tests/test_queries.py")

pytest_plugins = ["squinney.testing.plugin", "tests.plugins.shelf", "tests.plugins.watch"]


def pytest_configure(config: pytest.Config) -> None:
    """Children of the crash sweep begin with everything imported. A run in the background may ignore Ctrl-C, and so
    would all that it starts, some of which tests interrupt."""
    preload("tests.preload")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that share a site, a browser, a replica set or the demo come first: those that another process takes over
    are the last, and it would have to start all that once more."""
    items.sort(key=lambda item: not item.nodeid.startswith(SHARE_MUCH))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Thousands of tests stay to the end: each collection of garbage would look at all of them again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """What a test logged may hold half of a surrogate pair, and then could not be sent to the process that reports."""
    report = yield
    report.sections = [(name, said.encode(errors="backslashreplace").decode()) for name, said in report.sections]
    return report


@pytest.fixture(scope="session")
def client(mongo_client: MongoClient[Document]) -> MongoClient[Document]:
    """A client of the shared server."""
    return mongo_client


@pytest.fixture
def db(mongo_db: Db) -> Db:
    """An empty database of the test's own, dropped at its end."""
    return mongo_db


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


@pytest.fixture
def quick_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passwords that cost little to hash."""
    for name, replacement in REPLACED.items():
        monkeypatch.setattr(passwords, name, replacement)
