"""What the tests of the explorer share: an explorer with its own server, cheap passwords, no threads that follow."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from squinney.mongo.embedded import Embedded
from squinney.patterns.follow import FollowerThread
from squinney.testing import Explorer


@pytest.fixture(scope="session")
def own_explorer(own_mongod: Embedded) -> Iterator[Explorer]:
    """An explorer on an exclusive server, for settings that affect the whole server."""
    with Explorer(own_mongod.uri) as explorer:
        yield explorer


@pytest.fixture(autouse=True)
def cheap_passwords(quick_passwords: None) -> None:
    """Make password hashing cheap: each schedule of a sign-in would take a tenth of a second for it."""


@pytest.fixture(autouse=True)
def follow_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """End each thread that follows changes at once: no schedule can hold its commands.

    What is in memory, such as ads, is then as old as it may be while an operation runs.
    """
    monkeypatch.setattr(FollowerThread, "_run", lambda self, follower: None)
