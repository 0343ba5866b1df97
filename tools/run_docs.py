"""Runs the Python of the README and the docs, pasted into an empty file: `python -m tools.run_docs [PAGE.md ...]`.

Each page names what it needs (``To run this page: `pip install '.[embedded]' pytest` ``). Here every such line gets a
fresh virtual environment, in which its pages run twice, on an embedded MongoDB. The tests run the same programs in the
environment that they have. A block is left out only as ```` ```python no-run ````.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
import venv
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^```python(?P<mark>[^\n]*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
NEEDS = re.compile(r"^To run (?:this page|it): `pip install (?P<packages>[^`]+)` in a clone", re.MULTILINE)


def blocks(page: Path) -> Iterator[tuple[str, str, int]]:
    """Each block's mark, its code, and the number of lines before it."""
    text = page.read_text("utf-8")
    for found in FENCE.finditer(text):
        yield found["mark"].strip(), found["code"], text.count("\n", 0, found.start("code"))


def pages() -> list[Path]:
    """The README and every page of the docs that has Python to run."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in found if any(mark == "" for mark, _, _ in blocks(page))]


def program(page: Path) -> str:
    """All blocks of a page, in order, on the lines they have there."""
    lines: list[str] = []
    for mark, code, before in blocks(page):
        if mark == "":
            lines += [""] * (before - len(lines)) + code.splitlines()
    return "\n".join(lines) + "\n"


def packages(page: Path) -> str | None:
    """What a page says to install for it: the arguments of `pip install`."""
    found = NEEDS.search(page.read_text("utf-8"))
    return found["packages"] if found else None


def main(only: Sequence[str]) -> int:
    """Run the pages, or only those whose names are given; 1 where one fails."""
    groups: dict[str, list[Path]] = defaultdict(list)
    for page in pages():
        if not only or page.name in only:
            groups[packages(page) or "."].append(page)
    failed = [page for needed, group in groups.items() for page in _run_in_fresh_environment(needed, group)]
    print(f"{sum(map(len, groups.values())) - len(failed)} pages run, {len(failed)} fail", flush=True)
    return 1 if failed else 0


def _run_in_fresh_environment(needed: str, group: list[Path]) -> list[Path]:
    with tempfile.TemporaryDirectory(prefix="squinney-docs-") as folder:
        venv.create(f"{folder}/venv", with_pip=True)
        python = f"{folder}/venv/bin/python"
        install = [python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "-c", "constraints.txt"]
        subprocess.run([*install, *shlex.split(needed)], cwd=ROOT, check=True)  # noqa: S603 - from our own pages
        return [page for page in group if not _runs_twice(python, page, Path(folder))]


def _runs_twice(python: str, page: Path, folder: Path) -> bool:
    """Whether the page runs in a folder of its own, and once more with what the first run left."""
    place = folder / page.stem
    place.mkdir()
    file = place / "pasted.py"
    file.write_text(program(page), "utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "MONGODB_URI"}
    environment["SQUINNEY_DATA"] = str(place / "data")
    command = [python, str(file)]
    ends = [subprocess.run(command, cwd=place, env=environment).returncode for _ in range(2)]  # noqa: S603
    print(f"{page.relative_to(ROOT)}: {'runs' if not any(ends) else f'fails, exit codes {ends}'}", flush=True)
    return not any(ends)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
