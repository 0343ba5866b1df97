"""The process in which one guard's tests run. It imports nothing of ours before it knows the changed copy."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import Phase, settings

MOST_SECONDS = 60


@dataclass
class Outcome:
    """What the tests said."""

    failed: set[str] = field(default_factory=set)
    passed: set[str] = field(default_factory=set)
    exit_code: int = 0
    said: str = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test that fails anywhere has failed, its fixtures too."""
        if report.failed:
            self.failed.add(report.nodeid)
        elif report.when == "call":
            self.passed.add(report.nodeid)


def run(sources: str, tests: Sequence[str]) -> Outcome:
    """Run the tests on the copy in `sources`."""
    sys.dont_write_bytecode = True
    sys.path.insert(0, sources)
    os.environ["PYTHONPATH"] = sources
    _shrink_nothing()
    outcome = Outcome()
    said = io.StringIO()
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # one of them alone takes seconds to import
    options = ["-p", "pytest_timeout", "-p", "no:cacheprovider", "--tb=short", f"--timeout={MOST_SECONDS}"]
    with contextlib.redirect_stdout(said):
        outcome.exit_code = int(pytest.main([*options, *tests], plugins=[outcome]))
    outcome.said = said.getvalue()
    import squinney

    if not str(squinney.__file__).startswith(sources):
        raise RuntimeError(f"the tests ran on {squinney.__file__}, not on the copy")
    return outcome


def _shrink_nothing() -> None:
    """A failure is enough here; the smallest one would take a minute to find."""
    phases = [Phase.explicit, Phase.generate]
    settings.register_profile("mutants", phases=phases, database=None)
    settings.load_profile("mutants")
