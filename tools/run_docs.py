"""Run the Python blocks of the README and the docs, each page in one file: `python -m tools.run_docs [PAGE.md ...]`.

Each page names what it needs (``To run this page: `pip install '.[embedded]' pytest` ``). This script makes a
fresh virtual environment for each such line and runs its pages there twice, on an embedded MongoDB. The tests run the
same programs in their own environment. To exclude a block, mark it as ```` ```python no-run ````.
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
    """Yield each block's mark, its code, and the number of lines before it."""
    text = page.read_text("utf-8")
    for block in FENCE.finditer(text):
        yield block["mark"].strip(), block["code"], text.count("\n", 0, block.start("code"))


def pages() -> list[Path]:
    """Return the README and every docs page with Python to run."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in pages if any(mark == "" for mark, _, _ in blocks(page))]


def program(page: Path) -> str:
    """Return all blocks of a page in one program, with the line numbers of the page."""
    lines: list[str] = []
    for mark, code, before in blocks(page):
        if mark == "":
            lines += [""] * (before - len(lines)) + code.splitlines()
    return "\n".join(lines) + "\n"


def packages(page: Path) -> str | None:
    """Return the arguments of `pip install` that the page names."""
    sentence = NEEDS.search(page.read_text("utf-8"))
    return sentence["packages"] if sentence else None


def main(only: Sequence[str]) -> int:
    """Run all pages, or only the named ones; return 1 if one fails."""
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
    """Run the page twice in its own folder, the second time on the data of the first; return True if both succeed."""
    own_folder = folder / page.stem
    own_folder.mkdir()
    file = own_folder / "pasted.py"
    file.write_text(program(page), "utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "MONGODB_URI"}
    environment["SQUINNEY_DATA"] = str(own_folder / "data")
    command = [python, str(file)]
    ends = [subprocess.run(command, cwd=own_folder, env=environment).returncode for _ in range(2)]  # noqa: S603
    print(f"{page.relative_to(ROOT)}: {'runs' if not any(ends) else f'fails, exit codes {ends}'}", flush=True)
    return not any(ends)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
