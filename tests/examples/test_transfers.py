"""The example of `docs/testing.md` passes in a project that has only `squinney[embedded,testing]`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution, entry_points, packages_distributions
from pathlib import Path

from packaging.requirements import Requirement

EXAMPLE = Path(__file__).parents[2] / "examples/transfers"
SECONDS = 170
# Refuses to import what is installed here but would not be there.
BLOCKER = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}} in this project", name=name)

sys.meta_path.insert(0, Missing())
"""


def _needed(name: str, extras: frozenset[str], found: set[str]) -> set[str]:
    """The distributions that come with one, by its metadata."""
    try:
        requires = distribution(name).requires or []
    except PackageNotFoundError:
        return found
    found.add(_plain(name))
    for requirement in map(Requirement, requires):
        wanted = any(requirement.marker is None or requirement.marker.evaluate({"extra": e}) for e in extras | {""})
        if wanted and _plain(requirement.name) not in found:
            _needed(requirement.name, frozenset(requirement.extras), found)
    return found


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_pytest_finds_the_plugin_by_itself() -> None:
    assert [one.value for one in entry_points(group="pytest11") if one.value.startswith("squinney")] == [
        "squinney.testing.plugin"
    ]


def test_it_runs_in_a_project_of_its_own(tmp_path: Path) -> None:
    needed = _needed("squinney", frozenset({"embedded", "testing"}), set())
    assert {"pymongo", "pytest"} <= needed
    assert not {"fastapi", "hypothesis"} & needed
    missing = {
        module for module, names in packages_distributions().items() if not needed & {_plain(name) for name in names}
    }
    shutil.copytree(EXAMPLE, tmp_path / "project")
    (tmp_path / "site").mkdir()
    (tmp_path / "site/sitecustomize.py").write_text(BLOCKER.format(names=missing))
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "SQUINNEY"))}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "squinney.testing.plugin"],
        cwd=tmp_path / "project",
        env={**environment, "PYTHONPATH": str(tmp_path / "site"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^crash points: \d+$", done.stdout, re.MULTILINE)
    assert re.search(r"^schedules: \d+$", done.stdout, re.MULTILINE)
