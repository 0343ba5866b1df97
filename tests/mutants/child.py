"""The process that runs the tests of one guard. It imports the package only after the changed copy is on its path."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import Phase, settings

MAX_SECONDS = 60


@dataclass(eq=False)  # pytest puts its plugins into sets
class Outcome:
    """The result of the tests."""

    failed: set[str] = field(default_factory=set)
    passed: set[str] = field(default_factory=set)
    exit_code: int = 0
    said: str = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record a test as failed if it or one of its fixtures fails."""
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
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # one plugin alone takes seconds to import
    options = ["-p", "pytest_timeout", "-p", "no:cacheprovider", "--tb=short", f"--timeout={MAX_SECONDS}"]
    with contextlib.redirect_stdout(said):
        outcome.exit_code = int(pytest.main([*options, *tests], plugins=[outcome]))
    outcome.said = said.getvalue()
    import squinney

    if not str(squinney.__file__).startswith(sources):
        raise RuntimeError(f"the tests ran on {squinney.__file__}, not on the copy")
    return outcome


def _shrink_nothing() -> None:
    """Turn off shrinking: any failure is enough here, and finding the smallest takes a minute."""
    phases = [Phase.explicit, Phase.generate]
    settings.register_profile("mutants", phases=phases, database=None)
    settings.load_profile("mutants")
