"""The examples of `docs/testing.md` and the README run where only `squinney[embedded,testing]` is installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution, entry_points, packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
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


def _needed(name: str, extras: frozenset[str], names: set[str]) -> set[str]:
    """The distributions that come with one, by its metadata."""
    try:
        requires = distribution(name).requires or []
    except PackageNotFoundError:
        return names
    names.add(_plain(name))
    for requirement in map(Requirement, requires):
        wanted = any(requirement.marker is None or requirement.marker.evaluate({"extra": e}) for e in extras | {""})
        if wanted and _plain(requirement.name) not in names:
            _needed(requirement.name, frozenset(requirement.extras), names)
    return names


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_pytest_finds_the_plugin_by_itself() -> None:
    assert [entry.value for entry in entry_points(group="pytest11") if entry.value.startswith("squinney")] == [
        "squinney.testing.plugin"
    ]


def test_the_transfers_run_in_a_project_of_their_own(tmp_path: Path) -> None:
    done = _pytest("transfers", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^crash points: \d+$", done.stdout, re.MULTILINE)
    assert re.search(r"^schedules: \d+$", done.stdout, re.MULTILINE)


def test_beanie_runs_in_a_project_of_its_own(tmp_path: Path) -> None:
    pytest.importorskip("beanie")
    done = _pytest("peers", tmp_path, more="beanie")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"4 passed", done.stdout)


def test_the_readme_shows_what_its_sixty_seconds_print(tmp_path: Path) -> None:
    done = _pytest("sixty_seconds", tmp_path)
    assert re.search(r"2 failed, 2 passed", done.stdout), done.stdout + done.stderr
    section = (ROOT / "README.md").read_text("utf-8").partition("## Sixty seconds")[2]
    shown = section.partition("```text\n")[2].partition("```")[0].splitlines()
    printed = [line.removeprefix("E").strip() for line in done.stdout.splitlines()]
    missing = [line for line in shown if line.strip() != "..." and not _stands(line.strip(), printed)]
    assert len(shown) > 10
    assert missing == []


def _stands(line: str, printed: list[str]) -> bool:
    return any(output == line or output.endswith(f": {line}") for output in printed)


def _pytest(example: str, folder: Path, *, more: str = "") -> subprocess.CompletedProcess[str]:
    """Run the tests of an example, where only what `squinney[embedded,testing]` and `more` bring can be imported."""
    needed = _needed("squinney", frozenset({"embedded", "testing"}), set())
    needed = _needed(more, frozenset(), needed) if more else needed
    assert {"pymongo", "pytest"} <= needed
    assert not {"fastapi", "hypothesis"} & needed
    missing = {
        module for module, names in packages_distributions().items() if not needed & {_plain(name) for name in names}
    }
    shutil.copytree(ROOT / "examples" / example, folder / "project")
    (folder / "site").mkdir()
    (folder / "site/sitecustomize.py").write_text(BLOCKER.format(names=missing))
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "SQUINNEY"))}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "squinney.testing.plugin"],
        cwd=folder / "project",
        env={**environment, "PYTHONPATH": str(folder / "site"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
