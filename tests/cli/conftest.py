"""The command as a person runs it: a process of its own, on the test's database."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable

import pytest
from tests.cli import child
from tests.plugins.shelf import Prepared

from squinney import assembly
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db

Squinney = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def ready_db(prepared: Prepared) -> Db:
    """The test's database with every collection and index."""
    return prepared(assembly.collections())


@pytest.fixture
def squinney(mongod: Embedded, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Squinney:
    """Runs `squinney ...`, on `ready_db` where the test has one, and gives its exit code, output and errors."""
    db: Db = request.getfixturevalue("ready_db" if "ready_db" in request.fixturenames else "db")

    def run(*arguments: str, typed: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        settings = {"MONGODB_URI": mongod.uri, "SQUINNEY_DATABASE": db.name, "SQUINNEY_SECRET": "test " * 8}
        folder = tmp_path_factory.mktemp("command")
        return child.run(arguments, {**os.environ, **settings, **environment}, typed, folder)

    return run
