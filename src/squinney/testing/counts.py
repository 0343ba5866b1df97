"""Counts crash points and schedules over all workers and prints the sums: they are part of our claim."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

COUNTS = pytest.StashKey[Counter[str]]()


def _counts(config: pytest.Config) -> Counter[str]:
    if COUNTS not in config.stash:
        config.stash[COUNTS] = Counter()
    return config.stash[COUNTS]


def count(config: pytest.Config, name: str, number: int) -> None:
    """Add to a number that the run reports in the end."""
    _counts(config)[name] += number


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker hands its numbers to the controller."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["counts"] = dict(_counts(session.config))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """The controller adds up."""
    _counts(node.config).update(getattr(node, "workeroutput", {}).get("counts", {}))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """One line for each."""
    for name, number in sorted(_counts(config).items()):
        terminalreporter.write_line(f"{name}: {number}")
