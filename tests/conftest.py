"""One real MongoDB for the whole test run, one database for each test."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from pymongo import MongoClient

from squinney.mongo.connect import client_for
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db, Document

pytest_plugins = ["tests.plugins.crash_points"]

PARAMETERS = {"ttlMonitorSleepSecs": 1, "logLevel": 0}


@pytest.fixture(scope="session")
def mongod() -> Iterator[Embedded]:
    """The server that all workers of this run share; fail points are allowed."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or f"alone-{os.getpid()}"
    folder = Path(tempfile.gettempdir()) / f"squinney-test-{os.geteuid()}-{run[:12]}"
    server = Embedded.start(folder, test_commands=True, parameters=PARAMETERS)
    yield server
    if server.stop():
        shutil.rmtree(folder)


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
