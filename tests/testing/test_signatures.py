"""Operations may have the parameters `db` and `state`, and others that have a value."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from squinney.mongo.schema import Db
from squinney.testing import Explorer
from squinney.testing.calls import call, require_function
from squinney.testing.crash.cases import Case, _act

Act = Callable[..., object]


def _with_state(db: Db, name: str, state: str) -> None:
    db["jars"].insert_one({"_id": name, "state": state})


def _jar(db: Db) -> str:
    return "jar"


def _its_state(db: Db, state: str) -> None:
    assert all(one["state"] == state == "jar" for one in db["jars"].find())


SIGNATURES: list[tuple[Act, object]] = [
    (lambda db: (db,), ("db",)),
    (lambda db, state: (db, state), ("db", "jar")),
    (lambda *given: given, ("db",)),
    (lambda db, by=5: (db, by), ("db", 5)),
    (lambda db, state, by=5: (db, state, by), ("db", "jar", 5)),
    (lambda db, by=5, state=None: (db, by, state), ("db", 5, "jar")),
    (partial(lambda db, state, by: (db, state, by), by=5), ("db", "jar", 5)),
    (partial(lambda db, by, state: (db, by, state), by=5), ("db", 5, "jar")),
    (lambda db, state, /: (db, state), ("db", "jar")),
]


@pytest.mark.parametrize(("act", "expected"), SIGNATURES)
def test_each_parameter_gets_its_value(act: Act, expected: object) -> None:
    require_function("act", act)
    db: Any = "db"
    assert call(act, db, "jar") == expected


def test_a_parameter_that_would_have_no_value_is_refused() -> None:
    with pytest.raises(TypeError, match=r"act is called with the database.* missing a required argument: 'state'"):
        require_function("act", _with_state)


def test_a_case_may_leave_parameters_out(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[object] = []
    case = Case("Jars.add", "ledger", prepare=_jar, act=lambda db: found.append(db), check=_its_state)
    monkeypatch.setattr("squinney.testing.crash.cases._read_cases", lambda modules: {case.name: case})
    db: Any = "db"
    _act([], case.name, db, "jar")
    assert found == ["db"]


def test_sweep_and_explore_take_a_parameter_with_a_value_for_no_state(
    sweep: Callable[..., Any], explore: Explorer
) -> None:
    act = partial(_with_state, name="a")
    sweep(_jar, act, _its_state, ways=["after"])
    explore([act], _its_state, prepare=_jar, crashes=0)


def _five_beans(db: Db) -> str:
    db["jars"].insert_one({"_id": "a", "beans": 5})
    return "a"


def _add_beans(db: Db, by: int = 2) -> None:
    db["jars"].update_one({"_id": "a"}, {"$inc": {"beans": by}})


def _five_or_seven(db: Db) -> None:
    assert db["jars"].find_one({"_id": "a"})["beans"] in (5, 7)  # type: ignore[index]


def test_a_parameter_keeps_its_default_whatever_prepare_returned(sweep: Callable[..., Any], explore: Explorer) -> None:
    sweep(_five_beans, _add_beans, _five_or_seven, ways=["after"])
    explore([_add_beans], _five_or_seven, prepare=_five_beans)
