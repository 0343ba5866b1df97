"""One explorer for all tests of a process: its threads, clients and databases are used again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from squinney.mongo.embedded import Embedded
from squinney.testing import Explorer


@pytest.fixture(scope="session")
def explorer(mongod: Embedded) -> Iterator[Explorer]:
    """On the server that all tests share."""
    with Explorer(mongod.uri) as explorer:
        yield explorer


@pytest.fixture(scope="session")
def own_explorer(own_mongod: Embedded) -> Iterator[Explorer]:
    """On a server of its own: for what changes how the whole server works."""
    with Explorer(own_mongod.uri) as explorer:
        yield explorer
