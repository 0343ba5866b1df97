"""The list of guards fits the code, and its runner tells a guard that is watched from one that is not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.mutants import child
from tests.mutants.guard import Guard, Mark, guards, stale, unlisted
from tests.mutants.runner import some_of, verdict

NAME = "a fair lock reports whether other threads have it"
TEST = "tests/patterns/test_fair_locks.py::test_a_lock_reports_whether_other_threads_have_it"


def guard(name: str = NAME, replacement: str = "crowded = False", test: str = TEST) -> Guard:
    return Guard(name, replacement, [test] if test else [])


def test_every_guard_is_there_once_and_so_are_its_tests() -> None:
    listed = guards()
    assert stale(listed) == []
    assert unlisted(listed) == []
    assert len(listed) >= 120


def test_a_replacement_uses_only_names_that_exist(tmp_path: Path) -> None:
    """A test that fails because of a misspelt name watches nothing."""
    for number, entry in enumerate(guards()):
        (tmp_path / f"{number}_{entry.path.name}").write_text(f"# {entry}\n{entry.mutated()}")
    checked = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F821", "--output-format", "concise"]
    ended = subprocess.run([*checked, str(tmp_path)], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout


@pytest.mark.parametrize(
    ("spoiled", "fault"),
    [
        (lambda: guard(name="no such guard"), "0 comments in the source have this name"),
        (lambda: guard(replacement="crowded = ("), "not valid Python"),
        (lambda: guard(replacement="crowded =  len(line) > 1"), "the replacement changes nothing"),
        (lambda: guard(test=""), "names no test"),
        (lambda: guard(test="tests/unit/test_mutants.py::test_of_nothing"), "does not exist"),
    ],
)
def test_an_entry_that_does_not_fit_is_an_error(spoiled: Callable[[], Guard], fault: str) -> None:
    assert any(fault in found for found in stale([spoiled()]))


def test_two_guards_of_one_name_are_an_error() -> None:
    assert any("2 guards" in found for found in stale([guard(), guard()]))


def test_a_comment_without_an_entry_is_an_error() -> None:
    assert f"{NAME}: not in the table" in unlisted([entry for entry in guards() if entry.name != NAME])


@pytest.mark.parametrize(
    ("text", "lines", "replacement", "changed"),
    [
        (["a", "  # guard: x", "  b", "c"], 1, "d", ["a", "  # guard: x", "  d", "c"]),
        (["  # guard: x", "  b", "c"], 1, "", ["  # guard: x", "c"]),
        (["# guard, 2 lines: x", "b", "# guard: y", "c", "d"], 2, "e\n f", ["# guard, 2 lines: x", "e", " f", "d"]),
        (["# guard: x", "# guard: y", "b"], 1, "c", ["# guard: x", "# guard: y", "c"]),
    ],
    ids=["a line", "removed", "lines with another guard", "two guards of a line"],
)
def test_the_guarded_lines_are_replaced(text: list[str], lines: int, replacement: str, changed: list[str]) -> None:
    row = next(row for row, line in enumerate(text) if "x" in line)
    assert Mark(Path("x.py"), row, lines).replaced(text, replacement) == "\n".join(changed)


@pytest.mark.parametrize(
    ("outcome", "watched"),
    [
        (child.Outcome(failed={TEST}, exit_code=1), True),
        (child.Outcome(failed={f"{TEST}[native]"}, passed={f"{TEST}[two-phase]"}, exit_code=1), True),
        (child.Outcome(failed={TEST + "_too"}, passed={TEST}, exit_code=1), False),
        (child.Outcome(passed={TEST}, exit_code=0), False),
        (child.Outcome(exit_code=4), False),
    ],
    ids=["failed", "failed in one mode", "another failed", "passed", "could not run"],
)
def test_a_guard_is_watched_where_every_named_test_fails(outcome: child.Outcome, watched: bool) -> None:
    assert (verdict(guard(), outcome) == "") == watched


def test_each_day_has_other_guards_until_all_had_their_turn() -> None:
    numbered = [guard(name=str(number)) for number in range(10)]
    days = [some_of(numbered, 4, day=day) for day in range(3)]
    assert [len(day) for day in days] == [4, 4, 4]
    assert {chosen.name for day in days for chosen in day} == {str(number) for number in range(10)}
    assert some_of(numbered, 99, day=7) != []
