"""An explorer that may change how its server works."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from squinney.mongo.embedded import Embedded
from squinney.testing import Explorer


@pytest.fixture(scope="session")
def own_explorer(own_mongod: Embedded) -> Iterator[Explorer]:
    """On a server of its own: for what changes how the whole server works."""
    with Explorer(own_mongod.uri) as explorer:
        yield explorer
