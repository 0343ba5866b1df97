"""Counts crash points and schedules over all workers and prints the sums: they are part of our claim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

COUNTS = pytest.StashKey[Counter[str]]()


def _counter(config: pytest.Config, name: str) -> Callable[[int], None]:
    counts = config.stash.setdefault(COUNTS, Counter())

    def count(number: int) -> None:
        counts[name] += number

    return count


@pytest.fixture(scope="session")
def count_crash_points(pytestconfig: pytest.Config) -> Callable[[int], None]:
    """Adds to the number of crash points that the run reports."""
    return _counter(pytestconfig, "crash points")


@pytest.fixture(scope="session")
def count_schedules(pytestconfig: pytest.Config) -> Callable[[int], None]:
    """Adds to the number of schedules that the run reports."""
    return _counter(pytestconfig, "schedules")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker hands its numbers to the controller."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["counts"] = dict(session.config.stash.get(COUNTS, Counter()))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """The controller adds up."""
    node.config.stash.setdefault(COUNTS, Counter()).update(getattr(node, "workeroutput", {}).get("counts", {}))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """One line for each."""
    for name, number in sorted(config.stash.get(COUNTS, Counter()).items()):
        terminalreporter.write_line(f"{name}: {number}")
