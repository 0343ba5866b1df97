"""The typed programs do what their types say; that a misspelt name fails is checked by mypy itself."""

from __future__ import annotations

import importlib

import pytest

import squinney
import squinney.testing
import typed_programs
from squinney.assembly import SYSTEMS
from squinney.mongo.schema import Db


@pytest.mark.parametrize(
    ("system", "expected"),
    [
        ("ledger", 8_750),
        ("commerce", "placed"),
        ("content", 1),
        ("ads", True),
        ("social", "Soup at seven"),
        ("game", ["lamp"]),
        ("analytics", 1),
    ],
)
def test_the_program_of_a_system_runs(db: Db, system: str, expected: object) -> None:
    squinney.prepare(db, importlib.import_module(f"squinney.{system}"))
    assert getattr(typed_programs, system)(db) == expected


def test_the_program_of_people_runs(db: Db) -> None:
    squinney.prepare(db, importlib.import_module("squinney.identity"))
    assert typed_programs.identity(db)["name"] == "Ada"


def test_each_system_has_a_program() -> None:
    assert [system.name for system in SYSTEMS if not hasattr(typed_programs, system.name)] == []


def test_a_misspelt_name_fails_and_the_right_ones_are_listed() -> None:
    with pytest.raises(AttributeError, match="Nonexistent"):
        squinney.testing.Nonexistent  # noqa: B018
    assert {*squinney.testing.__all__} <= {*dir(squinney.testing)}
    assert {*squinney.__all__} <= {*dir(squinney)}
