"""The list of guards fits the code, and its runner tells a guard that is watched from one that is not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
from tests.mutants import child
from tests.mutants.guard import SOURCES, Guard, guards, stale
from tests.mutants.runner import some_of, verdict

LOCKS = "squinney.patterns.fair_locks"
TEST = "tests/patterns/test_fair_locks.py::test_a_lock_reports_whether_other_threads_have_it"
OUT = "crowded = len(line) > 1"


def guard(out: str = OUT, instead: str = "crowded = False", test: str = TEST, module: str = LOCKS) -> Guard:
    return Guard(module, "a guard", out, instead, [test] if test else [])


def test_every_guard_is_there_once_and_so_are_its_tests() -> None:
    listed = guards()
    assert stale(listed) == []
    assert len(listed) >= 120


@pytest.mark.parametrize(
    ("spoiled", "fault"),
    [
        (lambda: guard(out="no such text"), "occurs 0 times"),
        (lambda: guard(out="line"), "times, not once"),
        (lambda: guard(instead="crowded = ("), "not valid Python"),
        (lambda: guard(instead="crowded =  len(line) > 1"), "the replacement changes nothing"),
        (lambda: guard(test=""), "names no test"),
        (lambda: guard(test="tests/unit/test_mutants.py::test_of_nothing"), "does not exist"),
        (lambda: guard(module="squinney.nowhere"), "module squinney.nowhere does not exist"),
    ],
)
def test_an_entry_that_does_not_fit_is_an_error(spoiled: Callable[[], Guard], fault: str) -> None:
    assert any(fault in found for found in stale([spoiled()]))


def test_two_guards_of_one_name_are_an_error() -> None:
    assert any("2 guards" in found for found in stale([guard(), guard()]))


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
    numbered = [guard(out=str(number)) for number in range(10)]
    days = [some_of(numbered, 4, day=day) for day in range(3)]
    assert [len(day) for day in days] == [4, 4, 4]
    assert {one.out for day in days for one in day} == {str(number) for number in range(10)}
    assert some_of(numbered, 99, day=7) != []


def test_a_guard_is_taken_out_of_a_copy_alone() -> None:
    before = (SOURCES / guard().path).read_text()
    command = [sys.executable, "-m", "tests.mutants", "a fair lock reports whether other threads have it"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=SOURCES.parent, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == f"guards: 1 tried of {len(guards())}, 1 watched"
    assert (SOURCES / guard().path).read_text() == before
