"""Watch every command of a full test run, to enforce two rules.

- A public operation or job that writes more than once in one call, or may do so by its source, must have a case in the
  crash sweep.
- Every query of the product must use an index: no collection scan, no sort in memory, at most ten documents examined
  for each document returned.

For the second rule, each shape of command is explained on the data of the first tests that send it, at their end.
Unlike the server's profiler, this misses no command and distinguishes the product's queries from those of the tests.

Active in a full run, or with `--watch`.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from pymongo import monitoring

from tests.plugins.plans import Plans
from tests.plugins.writes import WriteCounts

BROKEN_RULE = 9  # its own exit code: repeating a failed test does not help
VARIABLE = "SQUINNEY_TEST_WATCH"
ASKS_BADLY_ON_PURPOSE = "tests/unit/test_watch.py"


class Watch(monitoring.CommandListener):
    """The listener of one test process."""

    def __init__(self, *, but_for: str = "", full: bool = False) -> None:
        self.writes = WriteCounts()
        self.plans = Plans()
        self._but_for = but_for
        self._full = full

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        if self._but_for and os.environ.get("PYTEST_CURRENT_TEST", "").startswith(self._but_for):
            return
        self.writes.see(event)
        self.plans.see(event)

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        self.writes.refused(event.reply)

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        self.writes.refused(event.failure)

    def failures(self) -> list[str]:
        """Return the violations of both rules."""
        return [*self.writes.failures(full=self._full), *self.plans.failures()]


WATCH = pytest.StashKey[Watch]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--watch`, for runs of a part of the suite."""
    parser.addoption("--watch", action="store_true", help="watch writes and plans as a full run does")


def pytest_configure(config: pytest.Config) -> None:
    """Register the listener before any client is made."""
    if not hasattr(config, "workerinput"):
        os.environ[VARIABLE] = "1" if config.getoption("watch") or _is_full(config) else ""
    if os.environ.get(VARIABLE):
        config.stash[WATCH] = watch = Watch(but_for=ASKS_BADLY_ON_PURPOSE, full=_is_full(config))
        watch.writes.wrap_everything()
        monitoring.register(watch)


def _is_full(config: pytest.Config) -> bool:
    whole = config.args_source == pytest.Config.ArgsSource.TESTPATHS
    return whole and not any(config.getoption(part) for part in ("keyword", "markexpr", "lf", "collectonly"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Explain the queries before the test's data is dropped."""
    if watch := item.config.stash.get(WATCH, None):
        watch.plans.explain()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Add a worker's findings to the controller's."""
    watch = node.config.stash.get(WATCH, None)
    output = getattr(node, "workeroutput", {})
    if watch and "watch" in output:
        watch.writes.add(output["watch"]["writes"])
        watch.plans.add(output["watch"]["plans"])


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send a worker's findings to the controller, which fails the run if a rule is broken."""
    watch = session.config.stash.get(WATCH, None)
    if watch is None:
        return
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["watch"] = {"writes": watch.writes.result(), "plans": watch.plans.result()}
    elif session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) and watch.failures():
        session.exitstatus = BROKEN_RULE


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print what was watched and what breaks a rule."""
    if (watch := config.stash.get(WATCH, None)) is None:
        return
    terminalreporter.write_line(f"watched: {watch.writes.summary()}; {watch.plans.summary()}")
    for begins in watch.plans.unused() if _is_full(config) else ():
        terminalreporter.write_line(f"plan_exceptions.py: nothing needed {begins}")
    for failure in watch.failures():
        terminalreporter.write_line(f"FAILED {failure}", red=True)
