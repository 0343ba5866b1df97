"""A bulk write is not one write: others run between two of its statements, and what fails after the first is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pymongo import DeleteOne, UpdateOne

from squinney.mongo.connect import client_for
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db
from squinney.testing import Explorer, NotCrashSafe, Refuted
from squinney.testing.bulk_writes import statements_apart
from squinney.testing.server_commands import Commands

MOVE = [UpdateOne({"_id": "a"}, {"$inc": {"beans": -5}}), UpdateOne({"_id": "b"}, {"$inc": {"beans": 5}})]


def _jars(db: Db) -> None:
    db["jars"].insert_many([{"_id": "a", "beans": 5}, {"_id": "b", "beans": 5}])


def _move(db: Db) -> None:
    db["jars"].bulk_write(MOVE)


def _move_in_transaction(db: Db) -> None:
    with db.client.start_session() as session:
        session.with_transaction(lambda session: db["jars"].bulk_write(MOVE, session=session))


def _ten_beans(db: Db) -> None:
    assert sum(jar["beans"] for jar in db["jars"].find()) == 10


def test_a_crash_within_a_bulk_write_is_found(sweep: Callable[..., Any]) -> None:
    with pytest.raises(NotCrashSafe) as failure:
        sweep(_jars, _move, _ten_beans)
    assert [(point.write, point.way) for point in failure.value.points] == [
        *((2, "before"), (1, "after"), (1, "reply-lost"), (1, "reconnected"))
    ]


def test_an_operation_between_two_statements_is_found(explore: Explorer) -> None:
    with pytest.raises(Refuted, match="b failed: AssertionError"):
        explore([_move], between=[_ten_beans], prepare=_jars, crashes=0)


def test_in_a_transaction_they_are_one(explore: Explorer, sweep: Callable[..., Any]) -> None:
    assert explore([_move_in_transaction], _ten_beans, between=[_ten_beans], prepare=_jars, crashes=0).complete
    assert len(sweep(_jars, _move_in_transaction, _ten_beans)) == 8


def test_the_last_ten_statements_are_sent_one_by_one(mongod: Embedded, db: Db) -> None:
    commands = Commands()
    with client_for(mongod.uri, event_listeners=[commands]) as client, statements_apart():
        jars = client[db.name]["jars"]
        jars.insert_many([{"_id": number} for number in range(45)])
        result = jars.bulk_write([DeleteOne({"_id": number}) for number in range(45)], ordered=False)
    assert result.deleted_count == 45
    sizes = [len(command["deletes"]) for name, command in commands.sent if name == "delete"]
    assert sizes == [22, 11, 6, *[1] * 6]
    assert commands.names.count("insert") == 1
