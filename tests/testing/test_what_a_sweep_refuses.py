"""A sweep that proves nothing is no success: one line says why."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from squinney.errors import Conflict
from squinney.mongo.schema import Db


class Empty(Conflict):
    """There is nothing in the jar."""


def _nothing(db: Db) -> None:
    pass


def _read(db: Db) -> None:
    db["jars"].find_one({})


def _take(db: Db) -> None:
    if not db["jars"].update_one({"_id": "a"}, {"$inc": {"beans": -1}}).matched_count:
        raise Empty


def test_an_operation_that_writes_nothing(sweep: Callable[..., object]) -> None:
    with pytest.raises(AssertionError, match="wrote nothing"):
        sweep(_nothing, _read, _nothing)


def test_an_operation_that_fails_by_itself(sweep: Callable[..., object]) -> None:
    with pytest.raises(AssertionError) as found:
        sweep(_nothing, _take, _nothing, ways=["after"])
    told = str(found.value).splitlines()
    assert told[0] == "the operation failed by itself, where it was to die after write 2:"
    assert told[-1].endswith("Empty: There is nothing in the jar.")
