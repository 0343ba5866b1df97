"""Watches every command of a full run, for two rules.

- A public operation or job that writes twice in one call, or by its source may, must be a case of the crash sweep.
- What the product asks of the server must have an index: no collection scan, no sort in memory, no more than ten
  documents examined for each one returned.

For the second, each shape of command is explained on the data of the first tests that send it, at their end. This
loses nothing, as a profiler's capped collection does, and tells the product's questions from those of the tests.

Active on a full run, or with `--watch`.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from pymongo import monitoring

from tests.plugins.plans import Plans
from tests.plugins.writes import WriteCounts

BROKEN_RULE = 9  # an exit code of its own: trying a failed test again cannot mend it
VARIABLE = "SQUINNEY_TEST_WATCH"
ASKS_BADLY_ON_PURPOSE = "tests/unit/test_watch.py"


class Watch(monitoring.CommandListener):
    """One for each process of the run."""

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
        """What breaks a rule."""
        return [*self.writes.failures(full=self._full), *self.plans.failures()]


WATCH = pytest.StashKey[Watch]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--watch` for a part of the suite."""
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
    """Explain while the test's data is still there."""
    if watch := item.config.stash.get(WATCH, None):
        watch.plans.explain()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A worker's findings come to the controller."""
    watch = node.config.stash.get(WATCH, None)
    output = getattr(node, "workeroutput", {})
    if watch and "watch" in output:
        watch.writes.add(output["watch"]["writes"])
        watch.plans.add(output["watch"]["plans"])


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker hands over; the controller fails the run."""
    watch = session.config.stash.get(WATCH, None)
    if watch is None:
        return
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["watch"] = {"writes": watch.writes.result(), "plans": watch.plans.result()}
    elif session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) and watch.failures():
        session.exitstatus = BROKEN_RULE


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Says what was watched, and what breaks a rule."""
    if (watch := config.stash.get(WATCH, None)) is None:
        return
    terminalreporter.write_line(f"watched: {watch.writes.summary()}; {watch.plans.summary()}")
    for begins in watch.plans.unused() if _is_full(config) else ():
        terminalreporter.write_line(f"plan_exceptions.py: nothing needed {begins}")
    for failure in watch.failures():
        terminalreporter.write_line(f"FAILED {failure}", red=True)
