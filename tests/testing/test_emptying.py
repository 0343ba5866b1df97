"""What the sweep and the explorer leave for the next test: nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pymongo.errors import DuplicateKeyError

from squinney.errors import Conflict
from squinney.mongo.schema import Collection, Db, Index
from squinney.testing import Explorer
from squinney.testing.emptying import EmptyDatabase, collection_names, empty


def test_a_view_is_emptied_with_its_collection(db: Db) -> None:
    db["jars"].insert_one({"_id": 1})
    db.create_collection("full_jars", viewOn="jars", pipeline=[])
    assert collection_names(db) == ["jars"]
    empty(db, collection_names(db))
    assert list(db["full_jars"].find()) == []


def test_a_database_becomes_as_it_was_made(db: Db) -> None:
    db.create_collection("jars")
    database = EmptyDatabase(db, [])
    db["jars"].insert_one({"_id": 1})
    db["other_jars"].insert_one({"_id": 1})
    database.restore()
    assert db.list_collection_names() == ["jars"]
    assert db["jars"].count_documents({}) == 0


def _jar(db: Db) -> None:
    db["jars"].insert_one({"_id": "a", "beans": 0})


def _unique_jar(db: Db) -> None:
    db["jars"].create_index("beans", unique=True)
    _jar(db)


def _another(db: Db) -> None:
    try:
        db["jars"].insert_one({"beans": 0})
    except DuplicateKeyError:
        raise Conflict("there is such a jar") from None


def _another_unique(db: Db) -> None:
    """Make the index first."""
    db["jars"].create_index("beans", unique=True)
    _another(db)


def _is_alone(db: Db) -> bool:
    return db["jars"].count_documents({}) == 1


JARS = Collection("jars", indexes=[Index([("shelf", 1)], why="a shelf's jars")])


@pytest.mark.parametrize("collections", [[], [JARS]])
def test_an_index_of_one_call_of_explore_does_not_stay_for_the_next(
    explore: Explorer, collections: list[Collection]
) -> None:
    """With it no jar could be added, and what is wrong would pass."""
    explore([_another], _is_alone, prepare=_unique_jar, collections=collections)
    with pytest.raises(AssertionError, match="check failed"):
        explore([_another], _is_alone, prepare=_jar, collections=collections)


def test_an_index_that_an_operation_made_does_not_stay_for_the_next(explore: Explorer) -> None:
    explore([_another_unique], _is_alone, prepare=_jar, serial=False)
    with pytest.raises(AssertionError, match="check failed"):
        explore([_another], _is_alone, prepare=_jar, serial=False)


def _create_first(db: Db) -> None:
    db.create_collection("jars")
    _jar(db)


def test_a_collection_of_one_call_of_explore_does_not_stay_for_the_next(explore: Explorer) -> None:
    explore([_add_a_bean], prepare=_jar)
    explore([_add_a_bean], prepare=_create_first)  # would fail: there is such a collection


def _add_a_bean(db: Db) -> None:
    db["jars"].update_one({"_id": "a"}, {"$inc": {"beans": 1}})


def _make_index_and_add(db: Db) -> None:
    """Only without the index can there be a jar with as many beans."""
    db["jars"].insert_one({"_id": "b", "beans": 0})
    db["jars"].delete_one({"_id": "a"})
    db["jars"].create_index("beans", unique=True)


def test_an_index_of_one_crash_point_does_not_stay_for_the_next(sweep: Callable[..., Any], db: Db) -> None:
    swept = sweep(_jar, _make_index_and_add, _has_jars, ways=["before", "after"])
    assert [point.write for point in swept.points] == [1, 2, 1, 2]


def _has_jars(db: Db) -> None:
    assert db["jars"].count_documents({}) in (1, 2)
