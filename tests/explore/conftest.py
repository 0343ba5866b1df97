"""What the tests of the explorer share: cheap passwords, and an explorer with its own server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from squinney.mongo.embedded import Embedded
from squinney.testing import Explorer


@pytest.fixture(scope="session")
def own_explorer(own_mongod: Embedded) -> Iterator[Explorer]:
    """An explorer on an exclusive server, for settings that affect the whole server."""
    with Explorer(own_mongod.uri) as explorer:
        yield explorer


@pytest.fixture(autouse=True)
def cheap_passwords(quick_passwords: None) -> None:
    """Make password hashing cheap: each schedule of a sign-in would take a tenth of a second for it."""
