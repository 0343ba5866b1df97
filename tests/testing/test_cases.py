"""A module without usable crash cases gives one error that says what to write."""

from __future__ import annotations

import sys
from collections.abc import Collection
from types import ModuleType

import pytest

from squinney.testing import Case, Cases


def _case(name: str) -> Case:
    return Case(name, system="ledger", prepare=lambda db: None, act=lambda *_: None, check=lambda *_: None)


@pytest.mark.parametrize(
    ("cases", "message"),
    [
        (None, r'^cases_shop must have a list of its crash cases: CASES = \[Case\("Accounts\.transfer", system='),
        (_case("Shop.buy"), "^cases_shop must have a list of its crash cases"),
        (["Shop.buy"], "^cases_shop must have a list of its crash cases"),
        ([_case("Shop.buy"), _case("Shop.buy")], "^two cases are called 'Shop.buy': add what differs"),
    ],
)
def test_cases_that_cannot_be_swept_are_refused(monkeypatch: pytest.MonkeyPatch, cases: object, message: str) -> None:
    module = ModuleType("cases_shop")
    if cases is not None:
        module.CASES = cases  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cases_shop", module)
    with pytest.raises(ValueError, match=message):
        Cases("cases_shop")


def test_cases_are_a_collection_as_parametrize_needs() -> None:
    cases = Cases("tests.crash.cases_polls")
    assert isinstance(cases, Collection)
    assert all(case in cases for case in cases)
    assert _case("Polls.vote") not in cases


def test_what_follows_the_name_of_an_operation_is_no_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("cases_shop")
    module.CASES = [_case("Shop.buy"), _case("Shop.buy twice"), _case("Shop.sell, nothing left")]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cases_shop", module)
    assert Cases("cases_shop").covered() == {"Shop.buy", "Shop.sell"}
