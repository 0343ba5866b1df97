"""Commands on a database with collections of somebody else, under the names of ours."""

from __future__ import annotations

from typing import Any

import pytest
from tests import foreign
from tests.sizes import heavy, todays

from squinney import assembly
from squinney.mongo.schema import Db, apply, check

COMMANDS = [
    ("serve", "--port", "0"),
    ("worker",),
    ("demo",),
    ("doctor", "--repair"),
    ("indexes", "--apply"),
    ("indexes", "--rebuild"),
    ("migrate",),
    ("jobs", "list"),
    ("ledger", "list"),
    ("analytics", "imports"),
]
CREATING = [("demo",), ("doctor", "--repair"), ("indexes", "--rebuild")]


@heavy
@pytest.mark.parametrize("arguments", todays(COMMANDS, of=3), ids=" ".join)
def test_a_database_of_somebody_else_is_refused_in_one_sentence(squinney: Any, db: Db, arguments: tuple[str]) -> None:
    foreign.fill(db)
    db["analytics.events"].insert_one({"title": "a concert"})
    before = foreign.state(db)
    result = squinney(*arguments)
    assert result.returncode == 5, result.stderr
    assert "collections that Squinney did not make: " in result.stderr
    assert result.stderr.count("\n") == 1
    assert foreign.state(db) == before


def test_a_collection_is_taken_over_when_asked(squinney: Any, db: Db) -> None:
    db["squinney.jobs"].insert_one({"_id": "somebody's"})
    db["identity.people"].insert_one({"name": "Ada"})
    refused = squinney("indexes", "--apply", "--adopt", "squinney.jobs")
    assert refused.returncode == 5
    assert "did not make: identity.people;" in refused.stderr
    assert squinney("indexes", "--apply", "--adopt", "squinney.jobs", "--adopt", "identity.people").returncode == 0
    assert squinney("demo").returncode == 0
    assert db["identity.people"].find_one({"name": "Ada"}) is not None


@heavy
@pytest.mark.parametrize("arguments", todays(CREATING, of=3), ids=" ".join)
def test_every_command_that_creates_collections_takes_over(squinney: Any, db: Db, arguments: tuple[str]) -> None:
    db["analytics.imports"].insert_one({"_id": "somebody's"})
    assert squinney(*arguments, "--adopt", "analytics.imports").returncode in (0, 1)
    assert check(db, assembly.collections()) == []


@heavy
@pytest.mark.parametrize("arguments", todays(CREATING, of=3), ids=" ".join)
def test_a_database_of_older_code_goes_on_working(squinney: Any, db: Db, arguments: tuple[str]) -> None:
    apply(db, assembly.collections())
    db["squinney.schema"].drop()
    result = squinney(*arguments)
    assert result.returncode == 0, result.stderr
    assert squinney("doctor").returncode == 0
