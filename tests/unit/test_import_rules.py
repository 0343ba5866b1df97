"""The import rules hold for folders of today and for those that nobody has made yet."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Each in a module of its own; what it imports, and whether that is allowed.
PLANTED = {
    "ledger/planted_system.py": ("from squinney.commerce import Carts", False),
    "ledger/planted_framework.py": ("import fastapi", False),
    "commerce/carts/planted_http.py": ("from squinney.http import error_responses", False),
    "content/nodes/planted_surface.py": ("from squinney.content.surface import viewer", False),
    "ledger/surface/planted_other_surface.py": ("from squinney.commerce.surface import models", False),
    "commerce/carts/planted_cli.py": ("from squinney.cli import printing", False),
    "http/planted_commands.py": ("import typer", False),
    "cli/planted_pages.py": ("import fastapi", False),
    "patterns/planted_upwards.py": ("from squinney.ledger import Accounts", False),
    "fresh/planted_system.py": ("from squinney.ledger import Accounts", False),
    "fresh/deep/planted_framework.py": ("import starlette", False),
    "fresh/planted_http.py": ("from squinney.http import error_responses", False),
    "fresh/surface/planted_system.py": ("from squinney.identity import People", False),
    "fresh/planted_upwards.py": ("from squinney.service import doctor", False),
    "fresh/surface/allowed.py": (
        "import fastapi\nfrom squinney.cli import printing\nfrom squinney.http import error_responses\n"
        "from squinney.fresh import rules",
        True,
    ),
    # Each is allowed alone; together they are a cycle.
    "fresh/one/there.py": ("from squinney.fresh import other", True),
    "fresh/other/back.py": ("from squinney.fresh import one", True),
    "fresh/rules.py": ("from squinney.transactions import Step\nfrom squinney.patterns import ids", True),
}


@pytest.fixture(scope="module")
def verdict(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the linter says of a copy of our source with all of that in it."""
    source = tmp_path_factory.mktemp("planted")
    shutil.copytree(ROOT / "src" / "squinney", source / "squinney", ignore=shutil.ignore_patterns("__pycache__"))
    for name, (text, _) in PLANTED.items():
        path = source / "squinney" / name
        for folder in [*path.relative_to(source).parents][-2::-1]:
            (source / folder).mkdir(exist_ok=True)
            (source / folder / "__init__.py").touch()
        path.write_text(text + "\n")
    linter = [Path(sys.executable).parent / "lint-imports", "--no-cache", "--config", ROOT / "pyproject.toml"]
    environment = {**os.environ, "PYTHONPATH": str(source), "COLUMNS": "400"}
    run = subprocess.run(linter, cwd=source, env=environment, capture_output=True, text=True)
    assert run.returncode == 1, run.stdout + run.stderr
    return run.stdout


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_import_is_judged(verdict: str, name: str) -> None:
    module = "squinney." + name.removesuffix(".py").replace("/", ".")
    _, allowed = PLANTED[name]
    assert (f"{module} ->" not in verdict.replace("\n", " ")) == allowed, verdict


def test_a_cycle_between_folders_of_a_new_group_is_refused(verdict: str) -> None:
    assert "No cycles are allowed in squinney.fresh." in verdict


# What systems, patterns, transactions and mongo may use; the linter cannot list what is allowed.
ALWAYS_INSTALLED = {"bson", "gridfs", "pydantic", "pymongo", "squinney"}
OF_EXTRAS = {"PIL", "argon2", "markdown_it", "nh3", "platformdirs", "stripe", "yaml", "zstandard"}  # when it is used
WITH_FRAMEWORKS = ("surface", "cli", "http", "service", "testing")
SOURCE = ROOT / "src" / "squinney"
BELOW_SURFACES = [
    path for path in SOURCE.rglob("*.py") if not set(path.relative_to(SOURCE).parts[:-1]) & set(WITH_FRAMEWORKS)
]


def faults_of(text: str) -> list[str]:
    """Return the imports that a module below the surfaces may not have."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
            found += [name for name in names if name == "squinney"]  # squinney.ledger would be another system
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            continue
        tops = {name.partition(".")[0] for name in names}
        found += tops - ALWAYS_INSTALLED - OF_EXTRAS - sys.stdlib_module_names
    return sorted(found)


def test_only_listed_packages_are_used_below_the_surfaces() -> None:
    found = {str(path.relative_to(SOURCE)): faults_of(path.read_text("utf-8")) for path in BELOW_SURFACES}
    assert len(found) > 200
    assert {name: faults for name, faults in found.items() if faults} == {}, "do this in the system's surface/"


@pytest.mark.parametrize("planted", ["import flask", "def f():\n    from django import urls", "import squinney"])
def test_another_package_would_be_seen(planted: str) -> None:
    assert faults_of(planted) != []
