"""The explorer finds bugs in operations of any kind, and says how to reproduce them."""

from __future__ import annotations

import time

import pytest

from squinney.errors import Conflict
from squinney.mongo.schema import Db
from squinney.testing import Explorer, Refuted


class Short(Conflict):
    """There is not enough."""


def _jars(db: Db) -> None:
    db["jars"].insert_many([{"_id": "a", "beans": 10}, {"_id": "b", "beans": 0}])


def _ten_beans(db: Db) -> None:
    assert sum(jar["beans"] for jar in db["jars"].find()) == 10


def _add_by_reading(db: Db) -> None:
    beans = db["jars"].find_one({"_id": "a"})["beans"]
    db["jars"].update_one({"_id": "a"}, {"$set": {"beans": beans + 1}})


def _add(db: Db) -> None:
    db["jars"].update_one({"_id": "a"}, {"$inc": {"beans": 1}})


def _move(db: Db) -> None:
    """Move beans with two separate writes, as most people first write a transfer."""
    taken = db["jars"].update_one({"_id": "a", "beans": {"$gte": 7}}, {"$inc": {"beans": -7}})
    if not taken.matched_count:
        raise Short
    db["jars"].update_one({"_id": "b"}, {"$inc": {"beans": 7}})


def test_a_lost_update_is_found_and_its_schedule_replays(explore: Explorer) -> None:
    with pytest.raises(Refuted, match="no serial order of the operations gives this result") as found:
        explore([_add_by_reading, _add_by_reading], prepare=_jars, crashes=0)
    assert found.value.schedule == "a b2 a"
    with pytest.raises(Refuted) as again:
        explore([_add_by_reading, _add_by_reading], prepare=_jars, crashes=0, replay="a b2 a")
    assert (again.value.schedule, str(again.value)) == ("a b2 a", str(found.value))


def test_a_schedule_of_other_operations_is_not_replayed(explore: Explorer) -> None:
    unusable = {
        "a c2": "'c' names no operation",
        "a B2": "'B' names no operation",
        "zz 9": "'zz' names no operation",
        "a 9": "see '9'",
        "a,b2": "see 'a,b2'",
    }
    for text, why in unusable.items():
        with pytest.raises(ValueError, match=f"^'{text}' is not a schedule of the operations a, b: {why}$"):
            explore([_add, _add], prepare=_jars, replay=text)


def test_the_message_shows_the_commands_in_order_and_each_serial_result(explore: Explorer) -> None:
    with pytest.raises(Refuted) as found:
        explore([_add_by_reading, _add_by_reading], prepare=_jars, crashes=0)
    lines = [line.strip() for line in str(found.value).splitlines()]
    assert lines[-4:] == ["a  find jars", "b  find jars", "b  update jars", "a  update jars"]
    assert '+ jars {"_id": "a", "beans": 11}' in lines
    assert '+ jars {"_id": "a", "beans": 12}' in lines


def test_small_operations_are_tried_in_all_orders(explore: Explorer) -> None:
    explored = explore([_move, _move], _ten_beans, prepare=_jars, crashes=0)
    assert (explored.schedules, explored.complete) == (4, True)  # the second is refused at its first command
    three = explore([_add, _add, _add], prepare=_jars, crashes=0)
    assert (three.schedules, three.complete) == (6, True)


def test_a_crash_between_two_writes_is_found(explore: Explorer) -> None:
    with pytest.raises(Refuted, match="no serial order") as found:
        explore([_move], _ten_beans, prepare=_jars)
    assert found.value.schedule == "a a!"


def test_a_failed_check_is_reported_in_one_line(explore: Explorer) -> None:
    def full(db: Db) -> None:
        raise AssertionError("10 beans\nassert 10 == 11")  # as pytest words it

    with pytest.raises(Refuted) as found:
        explore([_add], full, prepare=_jars, crashes=0)
    first = "even one after the other and without a crash: check failed: AssertionError: 10 beans"
    changed = ["  changed:", '    - jars {"_id": "a", "beans": 10}', '    + jars {"_id": "a", "beans": 11}']
    assert str(found.value).splitlines()[:5] == [first, *changed, "  a _add: done"]


def test_a_failed_check_shows_the_changed_documents_but_not_too_many(explore: Explorer) -> None:
    def fill(db: Db) -> None:
        db["jars"].insert_many([{"_id": f"full {number}", "label": "x" * 1_000} for number in range(25)])

    with pytest.raises(Refuted) as found:
        explore([fill], lambda db: False, prepare=_jars, crashes=0)
    lines = str(found.value).splitlines()
    assert sum(line.startswith('    + jars {"_id": "full ') for line in lines) == 20
    assert "    ... and 5 more" in lines
    assert max(map(len, lines)) < 500


def test_a_check_that_fails_only_concurrently_is_told_from_one_that_always_fails(explore: Explorer) -> None:
    def twelve(db: Db) -> None:
        assert db["jars"].find_one({"_id": "a"})["beans"] == 12

    with pytest.raises(Refuted, match=r"^even one after the other and without a crash: check failed"):
        explore([_add_by_reading], twelve, prepare=_jars, crashes=0, serial=False)
    with pytest.raises(Refuted, match=r"^check failed"):
        explore([_add_by_reading, _add_by_reading], twelve, prepare=_jars, crashes=0, serial=False)
    with pytest.raises(Refuted, match=r"^check failed"):
        explore([_add, _add], twelve, prepare=_jars, serial=False)  # only if one of them dies


def test_a_deadlock_is_found(explore: Explorer) -> None:
    def lock(first: str, second: str, db: Db) -> None:
        for jar in (first, second):
            while not db["jars"].update_one({"_id": jar, "held": None}, {"$set": {"held": 1}}).matched_count:
                time.sleep(1)
        db["jars"].update_many({}, {"$unset": {"held": ""}})

    with pytest.raises(Refuted, match=r"waits forever: a \(sleep\), b \(sleep\)"):
        explore([lambda db: lock("a", "b", db), lambda db: lock("b", "a", db)], prepare=_jars, crashes=0)


def test_two_operations_that_wake_each_other_do_not_keep_a_third_one_asleep(explore: Explorer) -> None:
    """All sleep: the first two until the third, which sleeps once, has filled the jar."""

    def wait_for_beans(db: Db) -> None:
        until = time.monotonic() + 5
        while db["jars"].find_one({"beans": {"$gt": 10}}) is None and time.monotonic() < until:
            time.sleep(1)
        _add(db)

    def fill(db: Db) -> None:
        db["jars"].find_one()
        time.sleep(1)
        db["jars"].update_one({"_id": "a"}, {"$inc": {"beans": 10}})

    operations = [wait_for_beans, wait_for_beans, fill]
    explored = explore(operations, prepare=_jars, serial=False, crashes=0, schedules=40)
    assert explored.schedules == 40


def test_an_operation_that_waits_for_an_open_transaction_lets_its_holder_continue(explore: Explorer) -> None:
    def add_in_transaction(db: Db) -> None:
        with db.client.start_session() as session, session.start_transaction():
            db["jars"].update_one({"_id": "a"}, {"$inc": {"beans": 1}}, session=session)

    explored = explore([add_in_transaction, _add], prepare=_jars, schedules=100)
    assert explored.complete
    assert explored.crashes > 2


def test_a_refusal_that_no_order_explains_is_found(explore: Explorer) -> None:
    """Another operation takes the beans for a moment and returns them."""

    def borrow(db: Db) -> None:
        db["jars"].update_one({"_id": "a"}, {"$inc": {"beans": -5}})
        db["jars"].update_one({"_id": "a"}, {"$inc": {"beans": 5}})

    with pytest.raises(Refuted, match="b refused: Short"):
        explore([borrow, _move], prepare=_jars, crashes=0)


def test_a_reader_in_between_is_not_judged_but_must_not_fail(explore: Explorer) -> None:
    def read(db: Db) -> None:
        assert db["jars"].find_one({"_id": "a"})["beans"] < 12

    explored = explore([_add], between=[read], prepare=_jars, crashes=0)
    assert (explored.schedules, explored.complete) == (2, True)
    with pytest.raises(Refuted, match="c failed: AssertionError"):
        explore([_add, _add], between=[read], prepare=_jars, crashes=0)


def test_return_values_are_compared_on_request(explore: Explorer) -> None:
    def add_and_tell(db: Db) -> int:
        _add(db)
        return db["jars"].find_one({"_id": "a"})["beans"]

    explore([add_and_tell, add_and_tell], prepare=_jars, crashes=0)
    with pytest.raises(Refuted):
        explore([add_and_tell, add_and_tell], prepare=_jars, crashes=0, values=True)


def test_what_prepare_returns_reaches_the_operations_and_the_check(explore: Explorer) -> None:
    def prepare(db: Db) -> str:
        _jars(db)
        return "a"

    def add(db: Db, jar: str) -> None:
        db["jars"].update_one({"_id": jar}, {"$inc": {"beans": 1}})

    def check(db: Db, jar: str) -> None:
        assert db["jars"].find_one({"_id": jar})["beans"] in (10, 11)

    assert explore([add], check, prepare=prepare).schedules == 3
