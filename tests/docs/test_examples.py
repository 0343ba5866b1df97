"""The Python examples of every page of the docs run, in order, in one namespace with a fresh `db`.

A block is left out only as ```` ```python no-run ````, and then says why in a comment on its first line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
FENCE = re.compile(r"^```python(?P<mark>[^\n]*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> Iterator[tuple[str, str, int]]:
    text = page.read_text()
    for found in FENCE.finditer(text):
        yield found["mark"].strip(), found["code"], text.count("\n", 0, found.start("code"))


PAGES = [page for page in [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))] if any(True for _ in blocks(page))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_run(page, db, mongod, monkeypatch):
    monkeypatch.setenv("MONGODB_URI", mongod.uri)  # programs that connect by the settings meet the same database
    monkeypatch.setenv("SQUINNEY_DATABASE", db.name)
    names = {"db": db, "__name__": page.stem}
    for mark, code, line in blocks(page):
        if mark == "no-run":
            assert code.lstrip().startswith("#"), f"{page.name}:{line}: say in a comment why this is not run"
            continue
        assert mark == "", f"{page.name}:{line}: unknown mark {mark!r}"
        exec(compile("\n" * line + code, str(page), "exec", dont_inherit=True), names)


def test_there_are_examples():
    assert {ROOT / "README.md", DOCS / "patterns.md"} <= set(PAGES)


LINK = re.compile(r"\]\((?!\w+:)([^)#\s]+)")


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_of_the_front_pages_lead_somewhere(name):
    missing = [link for link in LINK.findall((ROOT / name).read_text()) if not (ROOT / link).exists()]
    assert missing == []


def test_examples_of_library_use_are_short():
    programs = [code for _, code, _ in blocks(DOCS / "getting-started.md") if "Accounts(" in code]
    assert len(programs) == 4
    assert all(sum(1 for line in code.splitlines() if line.strip()) < 20 for code in programs)
