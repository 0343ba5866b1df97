"""An operation that sends a write again after its reply was lost is refuted, unless the second write has no effect."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pymongo
import pytest
from pymongo.errors import AutoReconnect, NetworkTimeout

from squinney.errors import Unavailable
from squinney.mongo.deadlines import operation
from squinney.mongo.schema import Db
from squinney.testing import Explorer, NotCrashSafe, Refuted
from squinney.testing.crash.child import WAYS

Act = Callable[[Db], object]
ATTEMPTS = 3


def _jar(db: Db) -> None:
    db["jars"].insert_one({"_id": "a", "beans": 5})


def _at_most_one_more(db: Db) -> None:
    assert db["jars"].find_one({"_id": "a"})["beans"] in (5, 6)  # type: ignore[index]


def _retrying(write: Act, db: Db) -> None:
    for _ in range(ATTEMPTS):
        try:
            write(db)
            return
        except (AutoReconnect, Unavailable):
            time.sleep(0.01)


def _inc(db: Db) -> None:
    db["jars"].update_one({"_id": "a"}, {"$inc": {"beans": 1}})


def _add(db: Db) -> None:
    _retrying(_inc, db)


def _add_to_many(db: Db) -> None:
    """The driver does not send such a write again by itself."""
    _retrying(lambda db: db["jars"].update_many({}, {"$inc": {"beans": 1}}), db)


def _add_in_time(db: Db) -> None:
    """The driver tries again and again until the time limit."""

    def inc(db: Db) -> None:
        with pymongo.timeout(30):
            _inc(db)

    _retrying(inc, db)


def _add_as_operation(db: Db) -> None:
    _retrying(operation(30)(_inc), db)


def _add_in_transaction(db: Db) -> None:
    def inc(db: Db) -> None:
        with db.client.start_session() as session, session.start_transaction():
            db["jars"].update_one({"_id": "a"}, {"$inc": {"beans": 1}}, session=session)

    _retrying(inc, db)


def _add_by_key(db: Db) -> None:
    wanted = {"_id": "a", "keys": {"$ne": "k"}}
    _retrying(lambda db: db["jars"].update_one(wanted, {"$inc": {"beans": 1}, "$push": {"keys": "k"}}), db)


def _add_by_callback(db: Db) -> None:
    """The driver repeats the commit, not the transaction, if the reply to the commit is lost."""

    def inc(session: Any) -> None:
        db["jars"].update_one({"_id": "a"}, {"$inc": {"beans": 1}}, session=session)

    with db.client.start_session() as session:
        session.with_transaction(inc)


def _pass_the_error_on(db: Db) -> None:
    with pytest.raises(NetworkTimeout):
        _inc(db)


NAIVE = [_add, _add_to_many, _add_in_time, _add_as_operation, _add_in_transaction]
GUARDED = [_add_by_key, _add_by_callback, _inc]


@pytest.mark.parametrize("act", NAIVE)
def test_a_sweep_refutes_a_retry_that_adds_twice(sweep: Callable[..., Any], act: Act) -> None:
    with pytest.raises(NotCrashSafe) as found:
        sweep(_jar, act, _at_most_one_more, ways=WAYS if act is _add else ["reconnected"])
    assert {point.way for point in found.value.points} == {"reconnected"}
    last = found.value.points[-1]
    assert str(last).startswith(f"lost the reply to write {last.write} ({last.what}) and went on: AssertionError")


@pytest.mark.parametrize("act", GUARDED)
def test_a_sweep_accepts_a_retry_without_a_second_effect(sweep: Callable[..., Any], act: Act) -> None:
    swept = sweep(_jar, act, _at_most_one_more, ways=["after", "reconnected"])
    assert "reconnected" in {point.way for point in swept.points}


@pytest.mark.parametrize("act", NAIVE)
def test_the_explorer_refutes_a_retry_that_adds_twice(explore: Explorer, act: Act) -> None:
    with pytest.raises(Refuted, match="no serial order of the operations gives this result") as found:
        explore([act], prepare=_jar)
    assert "a?" in found.value.schedule
    assert ", and its reply is lost" in str(found.value)
    with pytest.raises(Refuted) as again:
        explore([act], prepare=_jar, replay=found.value.schedule)
    assert again.value.schedule == found.value.schedule


@pytest.mark.parametrize("act", GUARDED)
def test_the_explorer_accepts_a_retry_without_a_second_effect(explore: Explorer, act: Act) -> None:
    explored = explore([act], _at_most_one_more, prepare=_jar)
    assert explored.complete
    assert explored.lost_replies


def test_no_reply_is_lost_on_request(explore: Explorer) -> None:
    explored = explore([_add], prepare=_jar, lost_replies=0)
    assert (explored.schedules, explored.lost_replies, explored.complete) == (2, 0, True)


def test_the_operation_gets_the_error_of_the_driver_and_the_write_has_happened(explore: Explorer) -> None:
    def six(db: Db) -> None:
        assert db["jars"].find_one({"_id": "a"})["beans"] == 6  # type: ignore[index]

    def inc_and_look(db: Db) -> None:
        _pass_the_error_on(db)
        six(db)

    explore([inc_and_look], six, prepare=_jar, serial=False, replay="a? a")


def test_an_error_that_says_that_nothing_happened_is_refuted_if_it_did(explore: Explorer) -> None:
    def add_or_give_up(db: Db) -> None:
        try:
            _inc(db)
        except AutoReconnect:
            raise Unavailable("not added", outcome_unknown=False) from None

    with pytest.raises(Refuted, match="gave up: Unavailable"):
        explore([add_or_give_up], prepare=_jar)
