"""The Python of every page of the docs runs when it is pasted into an empty file, and again.

Here it runs in processes forked from one that has the packages loaded, on the tests' MongoDB; `make prove` runs the
same programs in fresh virtual environments with only what the page names. A block is left out only as
```` ```python no-run ````, and then says why in a comment on its first line.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools import write_quotes
from tools.run_docs import ROOT, blocks, packages, pages, program

from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db

DOCS = ROOT / "docs"
PAGES = pages()
NAMED = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
OWN_DATABASE = re.compile(r"squinney\.connect\(database=\"(\w+)\"\)")
SECONDS = 120


@pytest.fixture
def own_databases(db: Db, page: Path) -> Iterator[None]:
    """Databases that a page makes under a name of its own do not outlive its test."""
    yield
    for name in OWN_DATABASE.findall(program(page)):
        assert name.startswith("try_"), f"{page.name} drops {name}: call it try_something"
        db.client.drop_database(name)


@NAMED
@pytest.mark.usefixtures("own_databases")
def test_a_page_pasted_into_an_empty_file_runs_twice(page: Path, mongod: Embedded, db: Db, tmp_path: Path):
    settings = {"MONGODB_URI": mongod.uri, "SQUINNEY_DATABASE": db.name}
    for time in ("first", "second"):
        assert _failure(page, settings, tmp_path) == "", f"{page.name} fails the {time} time"


def _failure(page: Path, settings: dict[str, str], folder: Path) -> str:
    """The traceback of the page's program, run by a process of its own; empty where there is none."""
    report = folder / "traceback"
    report.unlink(missing_ok=True)
    child = multiprocessing.get_context("forkserver").Process(target=_run, args=(page, settings, report))
    child.start()
    child.join(SECONDS)
    if child.exitcode is None:
        child.kill()
        return f"it does not end within {SECONDS} s"
    return report.read_text() if report.exists() else f"exit code {child.exitcode}" if child.exitcode else ""


def _run(page: Path, settings: dict[str, str], report: Path) -> None:
    os.chdir(report.parent)
    os.environ.update(settings)
    try:
        exec(compile(program(page), str(page), "exec", dont_inherit=True), {"__name__": "__main__"})
    except BaseException:
        report.write_text(traceback.format_exc())
        raise


@NAMED
def test_a_page_names_what_it_needs(page: Path):
    needed = packages(page)
    assert needed, f"{page.name}: say what to install: To run this page: `pip install '.[embedded]'` in a clone"
    assert ("pytest" in needed) == ("import pytest" in program(page))


@NAMED
def test_a_block_that_is_not_run_says_why(page: Path):
    for mark, code, line in blocks(page):
        if mark.startswith("from "):  # a quoted file, which has its own tests
            continue
        assert mark in ("", "no-run"), f"{page.name}:{line}: unknown mark {mark!r}"
        assert mark == "" or code.lstrip().startswith("#"), f"{page.name}:{line}: say in a comment why this is not run"


@pytest.mark.parametrize("page", write_quotes.pages(), ids=lambda page: page.name)
def test_a_page_quotes_files_as_they_are(page: Path):
    assert page.read_text("utf-8") == write_quotes.written(page), "run: python tools/write_quotes.py"


def test_no_page_shows_its_code_only_when_it_is_built():
    assert [page.name for page in DOCS.rglob("*.md") if "{literalinclude}" in page.read_text("utf-8")] == []


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
