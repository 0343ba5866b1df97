"""Counts the sweep's crash points over all workers and prints the sum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

POINTS = pytest.StashKey[int]()


@pytest.fixture(scope="session")
def count_crash_points(pytestconfig: pytest.Config) -> Callable[[int], None]:
    """Adds to the number that the run reports."""

    def count(points: int) -> None:
        pytestconfig.stash[POINTS] = pytestconfig.stash.get(POINTS, 0) + points

    return count


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker hands its number to the controller."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["crash_points"] = session.config.stash.get(POINTS, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """The controller adds up."""
    output = getattr(node, "workeroutput", {})
    node.config.stash[POINTS] = node.config.stash.get(POINTS, 0) + output.get("crash_points", 0)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """The number is part of our claim."""
    if points := config.stash.get(POINTS, 0):
        terminalreporter.write_line(f"crash points: {points}")
