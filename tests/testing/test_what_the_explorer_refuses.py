"""Schedules that could not show a fault are refused, with one line that says why."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from pymongo.errors import DuplicateKeyError

from squinney.errors import Conflict
from squinney.mongo.connect import client_for
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Collection, Db
from squinney.testing import Explorer, Refuted
from squinney.testing.explorer import prepared, schedule
from squinney.transactions import Step, Transactions


class Full(Conflict):
    """There is no room in the jar."""


def _jar(db: Db) -> None:
    db["jars"].insert_one({"_id": "a", "beans": 0})


def _add(db: Db) -> None:
    db["jars"].update_one({"_id": "a"}, {"$inc": {"beans": 1}})


def _look(db: Db) -> None:
    db["jars"].find_one({"_id": "a"})


def _has_a_jar(db: Db) -> None:
    assert db["jars"].count_documents({}) == 1


def _misspelt(db: Db) -> None:
    _look(db)
    db["jars"].updat_one({"_id": "a"})  # type: ignore[operator]


def _refuse(db: Db) -> None:
    _look(db)
    raise Full


def _drop_a_bean(db: Db) -> None:
    db["beans"].insert_one({"colour": "red"})


def _drop_one_unless_there(db: Db) -> None:
    if db["beans"].find_one() is None:
        _drop_a_bean(db)


def _ask_for_ever(db: Db) -> None:
    while db["jars"].find_one({"_id": "a", "beans": 0}):
        pass


def _wait_for_ever(db: Db) -> None:
    while True:
        time.sleep(0.05)


async def _asynchronously(db: Db) -> None:
    _add(db)


def _false(db: Db) -> bool:
    return False


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"operations": _add},
            r"the operations must be a list of functions, as in explore\(\[move, move\]",
        ),
        ({"operations": []}, "explore needs at least one operation"),
        ({"operations": [_add] * 9}, "explore takes at most 8 operations, including `between`, not 9"),
        ({"operations": [_add, "add"]}, "operation b must be a function that takes the database, not 'add'"),
        ({"check": _asynchronously}, "check must not be async: only operations may be"),
        ({"operations": [lambda: None]}, "operation a <lambda> is called with the database"),
        ({"check": "sound"}, "check must be a function that takes the database, not 'sound'"),
        (
            {"prepare": lambda db, more: None},
            "prepare is called with the database: missing a required",
        ),
        ({"between": _look}, "between must be a list of functions, not"),
        ({"inside": "jars"}, "inside must be a list of names of collections, not 'jars'"),
        ({"collections": ["jars"]}, "collections must hold .*Collection objects, not 'jars'"),
        ({"schedules": 0}, "schedules must be at least 1, not 0"),
        ({"crashes": -1}, "crashes must be at least 0, not -1"),
        ({"replay": "a3 b"}, "the schedule 'a3 b' is not possible: the operations ran as 'a b'"),
    ],
)
def test_what_cannot_be_explored(explore: Explorer, given: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        explore(**{"operations": [_add, _add], "prepare": _jar, **given})


def test_operations_that_write_nothing(explore: Explorer) -> None:
    with pytest.raises(AssertionError, match="no operation wrote anything"):
        explore([_look, _look], prepare=_jar)
    with pytest.raises(AssertionError, match=r"no operation wrote .*; b _refuse: Full: There is no room in the jar\.$"):
        explore([_look, _refuse], prepare=_jar)


def test_operations_that_change_nothing(explore: Explorer) -> None:
    def misspelt(db: Db) -> None:
        db["jasr"].update_one({"_id": "a"}, {"$inc": {"beans": 1}})

    message = "^the operations changed no document: the writes went to jasr, which is empty$"
    with pytest.raises(AssertionError, match=message):
        explore([misspelt, misspelt], prepare=_jar)
    assert explore([misspelt, _add], prepare=_jar).complete

    def add_again(db: Db) -> None:
        try:
            _jar(db)
        except DuplicateKeyError:
            raise Full from None

    assert explore([add_again, add_again], prepare=_jar).complete  # to refuse is an answer


def test_an_error_of_prepare_is_told_from_one_of_an_operation(explore: Explorer) -> None:
    with pytest.raises(Full) as found:
        explore([_add], prepare=_refuse)
    assert found.value.__notes__ == ["while prepare ran"]


def test_a_prepare_that_fails_spoils_no_later_call(explore: Explorer) -> None:
    other = [Collection("lids")]
    explore([_add], prepare=_jar)
    explore([_add], prepare=_jar, collections=other)
    with pytest.raises(Full):
        explore([_add], prepare=_refuse)
    explore([_add], prepare=_jar, collections=other)  # now it is the last database
    explore([_add], _has_a_jar, prepare=_jar)


def test_an_operation_that_fails_in_every_order(explore: Explorer) -> None:
    with pytest.raises(AssertionError, match="b _misspelt failed in every order: TypeError: 'Collection' object"):
        explore([_add, _misspelt], prepare=_jar)
    assert explore([_add, _refuse], prepare=_jar).complete  # to refuse is an answer


def test_an_operation_that_never_ends(explore: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared, "ALONE_SECONDS", 0.3)
    with pytest.raises(AssertionError, match=r"_wait_for_ever did not end in 0\.3 seconds, although nothing else ran"):
        explore([_add, _wait_for_ever], prepare=_jar)
    assert explore([_add, _add], prepare=_jar).complete  # others go on undisturbed


def _add_by_reading(db: Db, _: object = None) -> None:
    beans = db["jars"].find_one({"_id": "a"})["beans"]  # type: ignore[index]
    db["jars"].update_one({"_id": "a"}, {"$set": {"beans": beans + 1}})


def _add_in_a_thread(db: Db) -> None:
    thread = threading.Thread(target=_add_by_reading, args=[db], name="adding")
    thread.start()
    thread.join()


def _add_twice_in_a_pool(db: Db) -> None:
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(partial(_add_by_reading, db), range(2)))


def test_commands_of_an_operations_own_threads(explore: Explorer) -> None:
    message = (
        r"a _add_in_a_thread sent find jars \(adding\) in a thread of its own, where no schedule can hold it: send"
    )
    for threads_in_turn in (False, True):  # what a thread does is not given to a pool
        with pytest.raises(AssertionError, match=message):
            explore([_add_in_a_thread, _add], prepare=_jar, threads_in_turn=threads_in_turn)
    with pytest.raises(AssertionError, match="b _add_twice_in_a_pool sent find jars"):
        explore([_add, _add_twice_in_a_pool], prepare=_jar)
    with pytest.raises(AssertionError, match="b _add_in_a_thread sent find jars"):
        explore([_add], between=[_add_in_a_thread], prepare=_jar, crashes=0)
    assert explore([_add, _add], prepare=_jar).complete  # others go on undisturbed


def test_a_thread_that_goes_on_after_its_operation(explore: Explorer) -> None:
    def add_later(db: Db) -> None:
        _add(db)
        threading.Timer(0.05, _add_by_reading, [db]).start()

    with pytest.raises(AssertionError, match="a add_later sent find jars"):
        explore([add_later], prepare=_jar, serial=False)
    assert explore([_add, _add], prepare=_jar).complete  # others go on undisturbed


def test_a_client_of_an_operations_own(explore: Explorer, mongod: Embedded) -> None:
    def add_elsewhere(db: Db) -> None:
        _add(db)
        with client_for(mongod.uri) as client:
            _add(client[db.name])

    with pytest.raises(AssertionError, match="a add_elsewhere made a client of its own"):
        explore([add_elsewhere], prepare=_jar)


def test_commands_by_another_client(explore: Explorer, mongod: Embedded) -> None:
    with client_for(mongod.uri) as client:

        def add_twice(db: Db) -> None:
            _add(db)
            _add(client[db.name])

        with pytest.raises(AssertionError, match="a add_twice sent a command by another client"):
            explore([add_twice], prepare=_jar)


def test_a_write_to_another_database(explore: Explorer) -> None:

    def add_elsewhere(db: Db) -> None:
        _add(db)
        db.client[f"{db.name}_other"]["jars"].update_one({"_id": "a"}, {"$inc": {"beans": 1}})

    with pytest.raises(AssertionError, match=r"a add_elsewhere wrote to the database 'explorer_\w+_other'"):
        explore([add_elsewhere], prepare=_jar)


def test_an_operation_that_goes_on_after_its_death(explore: Explorer) -> None:
    def add_whatever_happens(db: Db) -> None:
        while True:
            try:
                return _add(db)
            except:  # noqa: E722
                pass

    with pytest.raises(AssertionError, match="a add_whatever_happens goes on after its death"):
        explore([add_whatever_happens], prepare=_jar, lost_replies=0)
    assert explore([_add, _add], prepare=_jar).complete  # others go on undisturbed


def test_a_pool_whose_work_runs_in_turn_is_never_explored_completely(explore: Explorer) -> None:
    explored = explore([_add_twice_in_a_pool], prepare=_jar, crashes=0, threads_in_turn=True)
    assert (explored.schedules, explored.complete) == (1, False)  # the two additions may lose each other
    with pytest.raises(Refuted, match="no serial order"):
        explore([_add_twice_in_a_pool, _add], prepare=_jar, crashes=0, threads_in_turn=True)


def test_what_earlier_schedules_were_refused_does_not_change_the_next(explore: Explorer) -> None:
    """A process asks a document by a read whose guard has just failed; each operation stands for another process."""

    def take(db: Db) -> None:
        guard = {"beans": {"$gte": 1}}
        Transactions(db).run("take", [Step("jars", "a", guard=guard, update={"$inc": {"beans": -1}}, refused=Full)])

    explored = [explore([take], prepare=_jar, schedules=30) for _ in range(2)]
    assert len({one.schedules for one in explored}) == 1
    assert explored[0].complete, explored


def test_an_operation_that_polls_forever(explore: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "MAX_STEPS", 200)
    with pytest.raises(Refuted, match=r"does not end in 200 commands: a \(find jars\)"):
        explore([_ask_for_ever], prepare=_jar, serial=False, crashes=0)


def test_a_failure_after_a_schedule_is_reported_with_the_schedule(explore: Explorer) -> None:
    with pytest.raises(Refuted, match="check failed: the check returned False"):
        explore([_add, _add], _false, prepare=_jar)
    with pytest.raises(Refuted, match="settle failed: Full") as found:
        explore([_add, _add], prepare=_jar, settle=_refuse, lost_replies=0)
    assert "!" in found.value.schedule
    with pytest.raises(Refuted, match="problems failed: Full"):
        explore([_add, _add], prepare=_jar, problems=_refuse)


def test_long_documents_are_cut_in_the_message(explore: Explorer) -> None:
    def fill(db: Db) -> None:
        if db["jars"].find_one({"_id": "a"})["beans"] == 0:  # type: ignore[index]
            db["jars"].insert_one({"note": "x" * 100_000})
            _add(db)

    with pytest.raises(Refuted, match="no serial order") as failure:
        explore([fill, fill], prepare=_jar, crashes=0)
    assert len(str(failure.value)) < 5_000


def test_documents_that_are_alike_are_counted(explore: Explorer) -> None:
    with pytest.raises(Refuted) as found:
        explore([_drop_one_unless_there, _drop_one_unless_there], crashes=0)
    lines = [line.strip() for line in str(found.value).splitlines()]
    assert '+2 beans {"_id": "<fresh>", "colour": "red"}' in lines  # at once
    assert '+ beans {"_id": "<fresh>", "colour": "red"}' in lines  # one after the other


def test_crashes_are_counted_once_per_schedule(explore: Explorer) -> None:
    explored = explore([_add, _look], prepare=_jar, schedules=6)
    assert 0 < explored.crashes < explored.schedules
