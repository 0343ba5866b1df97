"""The command as a person runs it: a process of its own, on the test's database."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest
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
def squinney(mongod: Embedded, request: pytest.FixtureRequest) -> Squinney:
    """Runs `squinney ...`, on `ready_db` where the test has one, and gives its exit code, output and errors."""
    db: Db = request.getfixturevalue("ready_db" if "ready_db" in request.fixturenames else "db")

    def run(*arguments: str, typed: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        settings = {"MONGODB_URI": mongod.uri, "SQUINNEY_DATABASE": db.name, "SQUINNEY_SECRET": "test " * 8}
        return subprocess.run(
            [sys.executable, "-m", "squinney.cli.main", *arguments],
            env={**os.environ, "COLUMNS": "200", **settings, **environment},
            input=typed,
            capture_output=True,
            text=True,
            timeout=120,
        )

    return run
