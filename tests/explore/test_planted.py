"""Without a guard that isolation depends on, the explorer finds the bug within a minute."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest

from squinney.errors import Conflict
from squinney.mongo.schema import Collection, Db
from squinney.testing import Explorer, Refuted
from squinney.transactions import COLLECTIONS, Step, commits, steps
from tests.explore.plans import as_operation

NO_WRITE = {"$unset": {"txn_checks": ""}}  # of a field that no document has: to the server this is no write


def _two_jars(db: Db) -> None:
    db["jars"].insert_many([{"_id": "a", "beans": 10}, {"_id": "b", "beans": 10}])


def _check_one_empty_other(one: str, other: str) -> list[Step]:
    return [
        Step("jars", one, guard={"beans": {"$gte": 1}}, refused=Conflict),
        Step("jars", other, update={"$set": {"beans": 0}}),
    ]


def check_a_empty_b() -> list[Step]:
    return _check_one_empty_other("a", "b")


def check_b_empty_a() -> list[Step]:
    return _check_one_empty_other("b", "a")


def _send_without_touching(db: Any, sent: Any, writes: Any, session: Any) -> Any:
    return commits.send_writes(db, sent[0].name, sent[0].verb, writes, session)


def test_a_guard_that_is_checked_without_a_write_is_found(explore: Explorer) -> None:
    with (
        patch.object(steps, "CHECKED", NO_WRITE),
        patch.object(commits, "_send_checked", _send_without_touching),
        pytest.raises(Refuted),
    ):
        explore(
            [as_operation(check_a_empty_b), as_operation(check_b_empty_a)],
            prepare=_two_jars,
            collections=[*COLLECTIONS, Collection("jars")],
            schedules=1_000,
            seconds=60,
        )
