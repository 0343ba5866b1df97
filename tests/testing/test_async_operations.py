"""Operations that are `async def` are swept and explored as others are, on an `AsyncMongoClient`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pymongo import AsyncMongoClient
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import AutoReconnect

from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db, Document
from squinney.testing import Explorer, NotCrashSafe, Operation, Refuted, Sweep

AsyncDb = AsyncDatabase[Document]


def _jars(db: Db) -> None:
    db["jars"].insert_many([{"_id": "a", "beans": 10}, {"_id": "b", "beans": 0}])


def _ten_beans(db: Db) -> None:
    assert sum(jar["beans"] for jar in db["jars"].find()) == 10


async def _add(db: AsyncDb, jar: str = "a", beans: int = 1) -> None:
    await db["jars"].update_one({"_id": jar}, {"$inc": {"beans": beans}})


async def _add_by_reading(db: AsyncDb) -> None:
    found: Any = await db["jars"].find_one({"_id": "a"})
    await db["jars"].update_one({"_id": "a"}, {"$set": {"beans": found["beans"] + 1}})


async def _move(db: AsyncDb) -> None:
    await _add(db, "a", -7)
    await _add(db, "b", 7)


async def _move_in_transaction(db: AsyncDb) -> None:
    async def move(session: AsyncClientSession) -> None:
        wanted = {"_id": "a", "beans": {"$gte": 7}}
        taken = await db["jars"].update_one(wanted, {"$inc": {"beans": -7}}, session=session)
        if taken.modified_count:
            await db["jars"].update_one({"_id": "b"}, {"$inc": {"beans": 7}}, session=session)

    async with db.client.start_session() as session:
        await session.with_transaction(move)


async def _add_again(db: AsyncDb) -> None:
    while True:
        try:
            await _add(db)
            return
        except AutoReconnect:
            await asyncio.sleep(0.01)


async def _move_in_tasks(db: AsyncDb) -> None:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_add(db, "a", -7))
        tasks.create_task(_add(db, "b", 7))


async def _add_later(db: AsyncDb) -> None:
    db.later = asyncio.create_task(_add(db))  # type: ignore[method-assign, assignment]


async def _wait_for_b(db: AsyncDb) -> None:
    while not (await db["jars"].find_one({"_id": "b"}) or {}).get("beans"):
        await asyncio.sleep(60)
    await _add(db)


async def _fill_b(db: AsyncDb) -> None:
    await _add(db, "b", 5)


def test_a_lost_update_is_found_and_its_schedule_replays(explore: Explorer) -> None:
    with pytest.raises(Refuted, match="no serial order of the operations gives this result") as found:
        explore([_add_by_reading, _add_by_reading], prepare=_jars, crashes=0)
    assert found.value.schedule == "a b2 a"
    with pytest.raises(Refuted) as again:
        explore([_add_by_reading, _add_by_reading], prepare=_jars, crashes=0, replay="a b2 a")
    assert str(again.value) == str(found.value)


def test_a_death_and_a_retry_after_a_lost_reply_are_found(explore: Explorer) -> None:
    with pytest.raises(Refuted) as found:
        explore([_move], _ten_beans, prepare=_jars)
    assert found.value.schedule == "a a!"
    with pytest.raises(Refuted) as found:
        explore([_add_again], prepare=_jars)
    assert found.value.schedule == "a? a2"


def test_a_transaction_passes_in_every_schedule(explore: Explorer) -> None:
    explored = explore(
        [_move_in_transaction, _move_in_transaction], _ten_beans, prepare=_jars, crashes=1, schedules=120
    )
    assert explored.schedules == 120
    assert explored.crashes
    assert explored.lost_replies


def test_an_operation_may_be_beside_one_that_is_not_async(explore: Explorer) -> None:
    def add_by_reading(db: Db) -> None:
        found: Any = db["jars"].find_one({"_id": "a"})
        db["jars"].update_one({"_id": "a"}, {"$set": {"beans": found["beans"] + 1}})

    with pytest.raises(Refuted):
        explore([_add_by_reading, add_by_reading], prepare=_jars, crashes=0)


def test_commands_of_tasks_are_held_one_after_the_other(explore: Explorer) -> None:
    with pytest.raises(Refuted) as found:
        explore([_move_in_tasks], _ten_beans, prepare=_jars)
    assert found.value.schedule == "a a!"
    explored = explore([_move_in_tasks, _add], prepare=_jars, crashes=0)
    assert explored.schedules == 3
    assert not explored.complete  # orders of the two tasks


def test_a_task_that_nobody_awaits_belongs_to_the_operation(explore: Explorer) -> None:
    explored = explore([_add_later, _add], prepare=_jars, crashes=0)
    assert explored.schedules == 2


def test_an_operation_that_sleeps_lets_others_continue(explore: Explorer) -> None:
    explored = explore([Operation(_wait_for_b, alone=_add), _fill_b], prepare=_jars, crashes=0, serial=True)
    assert explored.complete


def test_the_sweep_crashes_an_async_operation_at_each_write(sweep: Sweep) -> None:
    with pytest.raises(NotCrashSafe) as found:
        sweep(_jars, _move, _ten_beans)
    wrong = [(point.write, point.way) for point in found.value.points]
    assert wrong == [(2, "before"), (1, "after"), (1, "reply-lost"), (1, "reconnected")]
    assert len(sweep(_jars, _move_in_transaction, _ten_beans, ways=["reply-lost", "reconnected"])) == 6


def test_the_sweep_crashes_an_operation_between_its_tasks(sweep: Sweep) -> None:
    with pytest.raises(NotCrashSafe) as found:
        sweep(_jars, _move_in_tasks, _ten_beans, ways=["before", "after"])
    assert [(point.write, point.way) for point in found.value.points] == [(2, "before"), (1, "after")]


def test_a_client_of_an_operations_own_is_refused(explore: Explorer, mongod: Embedded) -> None:
    async def add_elsewhere(db: AsyncDb) -> None:
        async with AsyncMongoClient[Document](mongod.uri) as client:
            await _add(client[db.name])

    with pytest.raises(AssertionError, match="made a client of its own"):
        explore([add_elsewhere], prepare=_jars)


def test_a_coroutine_that_a_plain_function_returns_is_refused(explore: Explorer) -> None:
    with pytest.raises(AssertionError, match="must be an async def"):
        explore([lambda db: _add(db)], prepare=_jars)
