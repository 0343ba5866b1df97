"""Runs the command in its own process, on the test's database."""

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
    """Return the test's database with all collections and indexes."""
    return prepared(assembly.collections())


@pytest.fixture
def squinney(mongod: Embedded, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Squinney:
    """Return a function that runs `squinney ...`, on `ready_db` if the test uses it."""
    db: Db = request.getfixturevalue("ready_db" if "ready_db" in request.fixturenames else "db")

    def run(*arguments: str, typed: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        settings = {"MONGODB_URI": mongod.uri, "SQUINNEY_DATABASE": db.name, "SQUINNEY_SECRET": "test " * 8}
        folder = tmp_path_factory.mktemp("command")
        return child.run(arguments, {**os.environ, **settings, **environment}, typed, folder)

    return run
