"""Guarded steps: all of them happen or none, once per key, and no error leaves a trace."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import Mock

import pytest
from bson.datetime_ms import DatetimeMS
from pymongo import MongoClient
from pymongo.client_session import ClientSession
from pymongo.errors import OperationFailure
from tests.patterns.interrupt import client_losing_reply, meanwhile
from tests.patterns.jars import TooLittle, beans, fill, filled, move, outcome_of
from tests.racing import at_once

from squinney import clock
from squinney.errors import Conflict, Invalid, Unavailable
from squinney.mongo.connect import client_for
from squinney.mongo.deadlines import operation
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db
from squinney.mongo.server_time import server_now
from squinney.transactions import (
    KEEP_KEYS_SECONDS,
    AlreadyExists,
    Key,
    KeyReused,
    Plan,
    Stale,
    Step,
    Transactions,
    WriteRefused,
    attempts,
    commits,
    in_transaction,
    once,
)

BEFORE = {"a": 100, "b": 0, "c": 0, "d": 0}
AFTER = {**BEFORE, "a": 97, "b": 3}
MOVE = move("a", "b", 3, "n")


@pytest.fixture
def jars(db: Db) -> Db:
    return filled(db)


def unchanged(db: Db) -> bool:
    return beans(db) == BEFORE and db.notes.count_documents({}) == db["squinney.keys"].count_documents({}) == 0


# ---- all or nothing ----


def test_all_steps_happen(jars: Db) -> None:
    Transactions(jars).run("move", MOVE)
    assert beans(jars) == AFTER
    assert jars.notes.find_one() == {"_id": "n", "from": "a", "to": "b", "beans": 3}
    assert jars["squinney.keys"].count_documents({}) == 0
    assert set(jars.jars.find_one() or {}) == {"_id", "beans"}, "no field of ours"


def test_a_refused_run_changes_nothing(jars: Db) -> None:
    with pytest.raises(TooLittle):
        Transactions(jars).run("move", move("a", "b", 101, "n"), key="k", arguments={})
    assert unchanged(jars)


def test_a_run_may_be_larger_than_one_message(jars: Db) -> None:
    text = "x" * (7 * 2**20)
    notes = [Step("notes", number, insert={"text": text}) for number in range(3)]
    Transactions(jars).run("write", [*notes, *MOVE])
    assert [note["_id"] for note in jars.notes.find({}, {"_id": 1}).sort("_id")] == [0, 1, 2, "n"]
    assert beans(jars) == AFTER


def test_a_run_of_many_documents_is_a_few_commands(jars: Db, audit: Any) -> None:
    jars.jars.insert_many([{"_id": number, "beans": 1} for number in range(500)])
    eat = [Step("jars", number, guard={"beans": 1}, update={"$inc": {"beans": -1}}) for number in range(500)]
    Transactions(audit.db).run("eat", eat)
    assert audit.round_trips() == ["update", "commitTransaction"]
    assert jars.jars.count_documents({"beans": 0}) == 503


@pytest.mark.parametrize("taken", ["n", None], ids=["id", "unique value"])
def test_a_duplicate_is_refused(jars: Db, taken: str | None) -> None:
    jars.notes.create_index("beans", unique=True)
    jars.notes.insert_one({"_id": taken or "other", "beans": 3})
    with pytest.raises(AlreadyExists):
        Transactions(jars).run("move", MOVE)
    assert beans(jars) == BEFORE


def test_a_delete_happens_or_not(jars: Db) -> None:
    Transactions(jars).run("empty", [Step("jars", "b", guard={"beans": 0}, delete=True), *fill("c")])
    with pytest.raises(TooLittle):
        Transactions(jars).run(
            "empty", [*fill("c"), Step("jars", "a", guard={"beans": 0}, delete=True, refused=TooLittle)]
        )
    assert beans(jars) == {"a": 100, "c": 1, "d": 0}


def test_an_array_filter_goes_with_the_step_that_uses_it(jars: Db) -> None:
    jars.boxes.insert_one({"_id": 1, "slots": [{"n": 1, "q": 5}, {"n": 2, "q": 5}]})
    filters = [{"slot.n": 2}]
    enough = {"slots": {"$elemMatch": {"n": 2, "q": {"$gte": 4}}}}
    take = {"$inc": {"slots.$[slot].q": -4}, "$push": {"labels": "costs $[n]"}}
    label = {"$push": {"labels": "costs $[n]"}}
    plan = [
        Step("boxes", 1, guard=enough, update=take, array_filters=filters, refused=TooLittle),
        Step("jars", "a", update=label, array_filters=[{"n": 1}]),
    ]
    Transactions(jars).run("restock", plan)
    with pytest.raises(TooLittle):
        Transactions(jars).run("restock", plan)
    box = jars.boxes.find_one() or {}
    assert ([slot["q"] for slot in box["slots"]], box["labels"]) == ([5, 1], ["costs $[n]"])


def test_a_guard_may_have_a_condition_on_the_id(jars: Db) -> None:
    """A guard on the id is added to the filter by id, and does not replace it."""
    guarded = Step("jars", "a", guard={"_id": {"$ne": "a"}}, update={"$inc": {"beans": 1}}, refused=TooLittle)
    with pytest.raises(TooLittle):
        Transactions(jars).run("odd", [guarded])
    assert unchanged(jars)


def test_a_write_that_cannot_be_encoded_changes_nothing(jars: Db) -> None:
    with pytest.raises(OverflowError):
        Transactions(jars).run("move", [*MOVE, Step("notes", "large", insert={"number": 2**70})])
    assert unchanged(jars)


def test_a_unique_value_is_passed_on(jars: Db) -> None:
    jars.names.create_index("name", unique=True)
    jars.names.insert_one({"_id": 1, "name": "x"})
    Transactions(jars).run("hand on", [Step("names", 1, delete=True), Step("names", 2, insert={"name": "x"})])
    assert [one["_id"] for one in jars.names.find()] == [2]


def test_stale_steps_are_built_again(jars: Db) -> None:
    built: list[int] = []

    def double() -> list[Step]:
        read = (jars.jars.find_one({"_id": "a"}) or {})["beans"]
        if not built:
            jars.jars.update_one({"_id": "a"}, {"$inc": {"beans": 5}})
        built.append(read)
        return [Step("jars", "a", guard={"beans": read}, update={"$set": {"beans": read * 2}}, refused=Stale)]

    Transactions(jars).run("double", double)
    assert built == [100, 105]
    assert beans(jars)["a"] == 210
    with pytest.raises(Stale):
        Transactions(jars).run("double", [Step("jars", "a", guard={"beans": 1}, refused=Stale)])


def test_a_plan_takes_further_steps_of_the_caller(jars: Db) -> None:
    Transactions(jars).run("move", Plan(move("a", "b", 3), "x").also([Step("notes", 1, insert={})]))
    with pytest.raises(TooLittle):
        Transactions(jars).run("move", Plan(move("b", "c", 9)).also([Step("notes", 2, insert={})]))
    assert [note["_id"] for note in jars.notes.find()] == [1]


# ---- keys ----


def result_of(seen: datetime) -> Any:
    return {"at": seen, "pair": (1, (2.0, "x")), "none": None, "big": 2**40, "deep": [{"bytes": b"x"}]}


WITH_MICROSECONDS = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)
AS_STORED = {
    "at": datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC),
    "pair": [1, [2.0, "x"]],
    "none": None,
    "big": 2**40,
    "deep": [{"bytes": b"x"}],
}


def same_types(one: Any, other: Any) -> bool:
    parts: list[Any] = list(one.values()) if isinstance(one, dict) else one if isinstance(one, list) else []
    others: list[Any] = list(other.values()) if isinstance(other, dict) else other if isinstance(other, list) else []
    return type(one) is type(other) and all(map(same_types, parts, others))


def test_a_repeat_gets_the_first_result_equal_in_value_and_type(jars: Db, mongod: Embedded) -> None:
    """Also with a client that has naive times and does not wait for a majority."""
    with MongoClient[Any](mongod.uri, w=1) as plain:
        run = Transactions(plain[jars.name]).run
        plan = Plan(MOVE, result_of(WITH_MICROSECONDS))
        first, repeat = (run("move", plan, key="k", arguments={"beans": 3}) for _ in range(2))
    assert (first.replayed, repeat.replayed) == (False, True)
    assert first.id == repeat.id
    assert first.result == repeat.result == AS_STORED
    assert same_types(first.result, repeat.result)
    assert beans(jars) == AFTER


def test_a_repeat_of_once_gets_the_first_result_equal_in_value_and_type(jars: Db, mongod: Embedded) -> None:
    with MongoClient[Any](mongod.uri) as plain:
        work = Mock(return_value=result_of(WITH_MICROSECONDS))
        first, repeat = (once(plain[jars.name], "see", work, key="k", arguments={}) for _ in range(2))
    assert first == repeat == AS_STORED
    assert same_types(first, repeat)
    assert work.call_count == 1


def test_a_repeat_gets_a_date_that_python_has_no_value_for(jars: Db) -> None:
    far = DatetimeMS(10**15)
    run = Transactions(jars).run
    assert [run("move", Plan(MOVE, far), key="k", arguments={}).result for _ in range(2)] == [far, far]
    assert [once(jars, "see", lambda session: far, key="k", arguments={}) for _ in range(2)] == [far, far]


def test_a_key_belongs_to_its_scope_kind_and_arguments(jars: Db) -> None:
    run = Transactions(jars).run
    run("fill", fill("b"), key="k", arguments={"beans": 1})
    with pytest.raises(KeyReused):
        run("fill", fill("b"), key="k", arguments={"beans": 2})
    assert not run("fill", fill("b"), key=Key("k", "another"), arguments={"beans": 2}).replayed
    assert not run("pour", fill("b"), key="k", arguments={"beans": 2}).replayed
    with pytest.raises(ValueError, match="a key needs arguments"):
        run("fill", fill("b"), key="k")
    with pytest.raises(Invalid):
        run("fill", fill("b"), key="", arguments={})
    assert beans(jars)["b"] == 3


def test_a_refusal_frees_the_key(jars: Db) -> None:
    run = Transactions(jars).run
    with pytest.raises(TooLittle):
        run("move", move("b", "c", 1), key="k", arguments={})
    run("fill", fill("b"))
    assert not run("move", move("b", "c", 1), key="k", arguments={}).replayed
    assert run("move", move("b", "c", 1), key="k", arguments={}).replayed, "although the jar is empty again"


def test_a_repeat_needs_no_steps(jars: Db) -> None:
    """What the steps were built from may be gone."""
    run = Transactions(jars).run
    plan = Mock(side_effect=[Plan(fill("b"), "x"), TooLittle("gone"), TooLittle("gone")])
    assert [run("fill", plan, key="k", arguments={}).result for _ in range(2)] == ["x", "x"]
    with pytest.raises(TooLittle):
        run("fill", plan, key="another", arguments={})


def test_keys_are_kept_by_the_servers_clock(jars: Db, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client whose clock is years slow must not write records that expire at once."""
    wrong = Mock(wraps=datetime)
    wrong.now.return_value = datetime(2000, 1, 1, tzinfo=UTC)
    monkeypatch.setattr(clock, "datetime", wrong)
    Transactions(jars).run("move", MOVE, key="k", arguments={})
    (record,) = jars["squinney.keys"].find()
    now = server_now(jars)
    assert now - timedelta(seconds=30) < record["at"] <= now
    assert record["expires_at"] - record["at"] == timedelta(seconds=KEEP_KEYS_SECONDS)
    by_time = [index for index in jars["squinney.keys"].list_indexes() if "expireAfterSeconds" in index]
    assert [dict(index["key"]) for index in by_time] == [{"expires_at": 1}]


@pytest.mark.parametrize("code", [2, 96])  # BadValue, OperationFailed
def test_a_record_that_the_server_rejects_raises_write_refused(own_db: Db, failing: Any, code: int) -> None:
    run = Transactions(filled(own_db)).run
    refused = {"errorCode": code, "namespace": f"{own_db.name}.squinney.keys"}
    with failing(["update"], **refused), pytest.raises(WriteRefused, match=r"rejects the update of squinney\.keys"):
        run("move", MOVE, key="k", arguments={})
    assert unchanged(own_db)
    assert not run("move", MOVE, key="k", arguments={}).replayed


def test_a_result_too_large_for_a_record_is_refused(jars: Db) -> None:
    with pytest.raises(WriteRefused, match=r"rejects the update of squinney\.keys"):
        Transactions(jars).run("move", Plan(MOVE, "x" * 2**24), key="k", arguments={})
    assert unchanged(jars)


def test_once_runs_a_transaction_once_per_key(jars: Db) -> None:
    """Also if several calls use the key concurrently, and if the first was refused."""
    refusals = [Conflict("not now")]

    def work(session: ClientSession) -> Any:
        found = jars.jars.find_one_and_update({"_id": "a"}, {"$inc": {"beans": 1}}, session=session)
        if refusals:
            raise refusals.pop()
        return {"before": found["beans"]}

    def add(amount: int) -> Any:
        return once(jars, "add", work, key="k", arguments={"amount": amount})

    with pytest.raises(Conflict, match="not now"):
        add(1)
    assert at_once(4, lambda _: add(1)) == [{"before": 100}] * 4
    assert beans(jars)["a"] == 101
    with pytest.raises(KeyReused):
        add(2)
    assert once(jars, "add", work, key=Key("k", "another"), arguments={"amount": 1}) == {"before": 101}
    assert once(jars, "add", work, key=None, arguments={"amount": 1}) == {"before": 102}


@pytest.mark.parametrize("command", ["update", "commitTransaction"])
def test_a_repeat_waits_for_the_first_call_instead_of_being_refused(jars: Db, mongod: Embedded, command: str) -> None:
    """Its callback decides by a document that it does not write, and which changes before the first call commits."""

    def add(db: Db) -> int:
        def work(session: ClientSession) -> int:
            before = db.jars.find_one({"_id": "a"}, session=session)
            if not before or before["beans"] < 100:
                raise TooLittle
            db.jars.update_one({"_id": "b"}, {"$inc": {"beans": 1}}, session=session)
            return 7

        return once(db, "add", work, key="k", arguments={})

    def meanwhile_repeat() -> None:
        jars.jars.update_one({"_id": "a"}, {"$set": {"beans": 0}})
        retried = attempts.retries()["retried"]
        repeats.append(pool.submit(add, jars))
        while not repeats[0].done() and attempts.retries()["retried"] < retried + 3:
            time.sleep(0.01)

    repeats: list[Future[int]] = []
    collection = 1 if command == "commitTransaction" else "jars"
    with (
        ThreadPoolExecutor(1) as pool,
        meanwhile(mongod, jars, meanwhile_repeat, command, collection) as db,  # type: ignore[arg-type]
    ):
        assert add(db) == 7
        assert repeats[0].result() == 7
    assert beans(jars)["b"] == 1


# ---- lost replies, time, and what the server ends ----


@pytest.mark.parametrize("at_write", [1, 2, 3, 4])  # the key's record, jars, notes, the commit
def test_a_lost_reply_is_settled_by_a_repeat(jars: Db, mongod: Embedded, at_write: int) -> None:
    with client_losing_reply(mongod, jars, at_write) as cut_off:
        run = Transactions(cut_off, timeout_seconds=2).run
        lost = outcome_of(lambda: run("move", MOVE, key="k", arguments={"beans": 3}))
    assert isinstance(lost, Unavailable)
    assert lost.outcome_unknown
    repeat = Transactions(jars).run("move", MOVE, key="k", arguments={"beans": 3})
    assert repeat.replayed == (at_write == 4)
    assert beans(jars) == AFTER


@pytest.mark.parametrize(("command", "code"), [("update", 290), ("commitTransaction", 388)])
def test_a_transaction_that_the_server_ended_is_retried_while_time_is_left(
    own_db: Db, failing: Any, command: str, code: int
) -> None:
    """Code 290: it took longer than `transactionLifetimeLimitSeconds`, which the embedded server has at ten. Code 388:
    what it wrote did not fit into the cache beside what others wrote; a commit may say so too.
    """
    filled(own_db)

    def work(session: ClientSession) -> None:
        own_db.jars.update_one({"_id": "b"}, {"$inc": {"beans": 10}}, session=session)

    with failing([command], mode={"times": 1}, errorCode=code):
        Transactions(own_db).run("fill", fill("b"))
    with failing([command], mode={"times": 1}, errorCode=code):
        in_transaction(own_db, work)
    assert beans(own_db)["b"] == 11
    with failing([command], errorCode=code):
        with pytest.raises(Unavailable):
            Transactions(own_db, timeout_seconds=0.3).run("fill", fill("b"))
        with pytest.raises(Unavailable):
            in_transaction(own_db, work, seconds=0.3)
    assert beans(own_db)["b"] == 11


@pytest.mark.parametrize("code", [290, 388, 11601])
def test_a_write_during_which_the_server_ended_the_transaction_is_no_rejection(
    jars: Db, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """The server may report this as the error of one write. It cannot be made to: its replies are replaced."""
    ended = {"n": 0, "nModified": 0, "ok": 1, "writeErrors": [{"index": 0, "code": code, "errmsg": "ended"}]}
    send, replies = commits.send_writes, [ended, ended]  # also when the run is tried alone
    monkeypatch.setattr(commits, "send_writes", lambda *given: replies.pop() if replies else send(*given))
    Transactions(jars).run("move", MOVE)
    assert not replies
    assert beans(jars) == AFTER


def test_a_commit_that_the_server_rejects_has_an_unknown_outcome(own_db: Db, failing: Any) -> None:
    """The reason is not a conflict with another transaction."""
    filled(own_db)
    refused = failing(["commitTransaction"], mode={"times": 1}, errorCode=96)  # OperationFailed
    with refused, pytest.raises(Unavailable) as caught:
        Transactions(own_db).run("fill", fill("a"))
    assert caught.value.outcome_unknown


def test_a_transaction_that_ran_out_of_time_is_aborted(jars: Db, mongod: Embedded) -> None:
    """Otherwise the server would lock its documents for a minute."""

    def work(session: ClientSession) -> None:
        jars.jars.update_one({"_id": "a"}, {"$inc": {"beans": 1}}, session=session)
        time.sleep(0.4)
        jars.jars.find_one({"_id": "a"}, session=session)

    with pytest.raises(Unavailable), operation(0.3):
        in_transaction(jars, work)
    with client_for(mongod.uri) as another, operation(5):
        another[jars.name].jars.update_one({"_id": "a"}, {"$inc": {"beans": 10}})
    assert beans(jars)["a"] == 110


def test_an_error_of_the_driver_that_no_retry_cures_is_not_hidden(jars: Db) -> None:
    def work(session: ClientSession) -> None:
        jars.jars.update_one({"_id": "a"}, {"$nothing": 1}, session=session)

    with pytest.raises(OperationFailure):
        in_transaction(jars, work)
