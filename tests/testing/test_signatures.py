"""Operations may have the parameters `db`, `mode` and `state`; `mode` is found by its name, wherever it stands."""

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


def _mode_last(db: Db, mode: str) -> None:
    db["jars"].insert_one({"_id": mode})


def _as_in_a_case(db: Db, mode: str, state: str) -> None:
    db["jars"].insert_one({"_id": mode, "state": state})


def _jar(db: Db) -> str:
    return "jar"


def _one_mode(db: Db) -> None:
    assert all(one["_id"] in ("native", "two-phase") for one in db["jars"].find())


def _its_state(db: Db, state: str) -> None:
    assert all(one["state"] == state == "jar" for one in db["jars"].find())


SIGNATURES: list[tuple[Act, object]] = [
    (lambda db: (db,), ("db",)),
    (lambda db, state: (db, state), ("db", "jar")),
    (lambda db, mode: (db, mode), ("db", "native")),
    (lambda db, mode, state: (db, mode, state), ("db", "native", "jar")),
    (lambda db, state, mode: (db, state, mode), ("db", "jar", "native")),
    (lambda db, *, mode="two-phase": (db, mode), ("db", "native")),
    (lambda db, mode, state, /: (db, mode, state), ("db", "native", "jar")),
    (partial(lambda db, mode, state: (db, mode, state), mode="two-phase"), ("db", "native", "jar")),
    (lambda *given: given, ("db",)),
]


@pytest.mark.parametrize(("act", "expected"), SIGNATURES)
def test_each_parameter_gets_its_value(act: Act, expected: object) -> None:
    require_function("act", act, mode="native")
    db: Any = "db"
    assert call(act, db, "jar", mode="native") == expected


def test_without_a_mode_its_default_is_kept_and_it_is_required_if_there_is_none() -> None:
    db: Any = "db"
    assert call(lambda db, mode="two-phase", state=None: (mode, state), db, "jar") == ("two-phase", "jar")
    with pytest.raises(TypeError, match=r"act is called with the database.* missing a required argument: 'mode'"):
        require_function("act", _mode_last)


def test_a_case_may_leave_parameters_out(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[object] = []
    case = Case("Jars.add", "ledger", prepare=_jar, act=lambda db, state: found.append(state), check=_its_state)
    monkeypatch.setattr("squinney.testing.crash.cases._read_cases", lambda modules: {case.name: case})
    db: Any = "db"
    _act([], case.name, "native", db, "jar")
    assert found == ["jar"]


@pytest.mark.parametrize(("act", "check"), [(_mode_last, _one_mode), (_as_in_a_case, _its_state)])
def test_a_sweep_finds_the_mode_wherever_it_stands(sweep: Callable[..., Any], act: Act, check: Act) -> None:
    swept = sweep(_jar, act, check, ways=["after"])
    assert [point.mode for point in swept.points] == ["native", "two-phase"]


def test_an_exploration_does_not_take_the_mode_for_the_state(explorer: Explorer) -> None:
    explorer.explore([partial(_as_in_a_case, mode="native")], _its_state, prepare=_jar, crashes=0)
