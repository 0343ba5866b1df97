"""The page of the architecture names files that are there, and the folders stay small."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "squinney"
MAX_FILES = 18
PAGE = (ROOT / "docs" / "architecture.md").read_text()


def test_files_that_the_page_names_are_there() -> None:
    named = re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", PAGE) + re.findall(r"^[^|`]+\| ([\w/]+\.py) \|", PAGE, re.M)
    assert len(named) > 30
    assert [name for name in named if not (SOURCE / name).is_file() and not (ROOT / name).is_file()] == []


def test_the_layers_are_those_of_the_import_rules() -> None:
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = [name.removeprefix("squinney.") for layer in rules[0]["layers"] for name in layer.split(" | ")]
    told = PAGE.partition("From the top down: ")[2].partition(". ")[0]
    assert re.findall(r"`(\w+)`", told) == layers


def test_no_folder_is_crowded() -> None:
    files = Counter(path.parent for path in SOURCE.rglob("*.py"))
    crowded = {str(folder.relative_to(SOURCE)): count for folder, count in files.items() if count > MAX_FILES}
    assert crowded == {}, "give a system, or what belongs together, a folder of its own"
