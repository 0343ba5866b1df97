"""Count crash points and schedules in all pytest workers, and print the totals at the end of the run."""

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
    """Add `number` to the total `name` that the run prints at its end."""
    _counts(config)[name] += number


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In a pytest-xdist worker, send the worker's counts to the controller."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["counts"] = dict(_counts(session.config))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """In the controller, add the counts of a worker that has finished."""
    _counts(node.config).update(getattr(node, "workeroutput", {}).get("counts", {}))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print one line for each total."""
    for name, number in sorted(_counts(config).items()):
        terminalreporter.write_line(f"{name}: {number}")
