"""What a two-phase run promises: all steps or none, once per key, each document held by one run."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from bson.timestamp import Timestamp
from tests.patterns.interrupt import stalled_client
from tests.transactions.two_phase.jars import TooFew, coins, expire, leftovers, moving

from squinney.errors import Conflict, Unavailable
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db
from squinney.transactions import AlreadyExists, Busy, Key, KeyReused, Plan, Stale, Step, WriteRefused
from squinney.transactions.two_phase import StillRunning, TimedOut, TwoPhase, recover, visible
from squinney.transactions.two_phase.documents import NAME

BEGIN, FIRST_LOCK, SECOND_LOCK, STUB, DECISION, FIRST_CHANGE = range(1, 7)  # the writes of `moving`


def test_all_steps_happen(jars: Db) -> None:
    outcome = TwoPhase(jars).run("move", Plan(moving(3), result="moved"))
    assert (outcome.result, outcome.replayed) == ("moved", False)
    assert coins(jars) == {"a": 7, "b": 3}
    assert jars["notes"].find_one() == {"_id": "n", "coins": 3}
    assert leftovers(jars) == []


def test_every_kind_of_step(jars: Db) -> None:
    jars["jars"].insert_one({"_id": "c", "rows": [{"n": 1}, {"n": 2}], "old": 1})
    update = {"$inc": {"rows.$[one].n": 5}, "$unset": {"old": ""}}
    steps = [
        Step("jars", "a", guard={"coins": 10}),
        Step("jars", "b", guard={"coins": 0}, delete=True),
        Step("jars", "c", update=update, array_filters=[{"one.n": 2}]),
        Step("notes", "n", insert={"by": "c", "at": Timestamp(0, 0)}, route={"by": "c"}),
    ]
    TwoPhase(jars).run("all", steps)
    assert list(jars["jars"].find()) == [{"_id": "a", "coins": 10}, {"_id": "c", "rows": [{"n": 1}, {"n": 7}]}]
    note: Any = jars["notes"].find_one()
    assert note["at"].time > 0, "the server fills an empty timestamp"
    assert set(note) == {"_id", "by", "at"}
    assert leftovers(jars) == []


def test_a_refused_run_changes_nothing_and_names_the_first_step_of_the_plan(jars: Db) -> None:
    missing = Step("jars", "A", update={"$inc": {"coins": 1}})  # comes first in the order of the locks
    with pytest.raises(TooFew):
        TwoPhase(jars).run("move", [*moving(11), missing])
    assert coins(jars) == {"a": 10, "b": 0}
    assert (jars["notes"].count_documents({}), leftovers(jars)) == (0, [])


def test_the_same_id_twice_is_refused(jars: Db) -> None:
    TwoPhase(jars).run("move", moving(1))
    with pytest.raises(AlreadyExists):
        TwoPhase(jars).run("move", moving(1))
    assert (coins(jars), leftovers(jars)) == ({"a": 9, "b": 1}, [])


def test_stale_steps_are_built_again(jars: Db) -> None:
    guesses = iter([{"coins": 9}, {"coins": 10}])

    def steps() -> list[Step]:
        return [Step("jars", "a", guard=next(guesses), update={"$inc": {"coins": 1}}, refused=Stale)]

    TwoPhase(jars).run("add", steps)
    assert coins(jars)["a"] == 11


# ---- keys ----


def test_a_key_runs_once(jars: Db) -> None:
    once: Any = {"key": Key("k", "scope"), "arguments": {"coins": 1}}
    first = TwoPhase(jars).run("move", Plan(moving(1), result=(1,)), **once)
    again = TwoPhase(jars).run("move", Plan(moving(1, "other"), result=(2,)), **once)
    assert (again.id, again.result, again.replayed) == (first.id, [1], True)
    assert first.result == [1], "the first caller gets the value that a repeat gets"
    with pytest.raises(KeyReused):
        TwoPhase(jars).run("move", moving(2, "other"), key=Key("k", "scope"), arguments={"coins": 2})
    assert coins(jars) == {"a": 9, "b": 1}


def test_a_refusal_frees_the_key(jars: Db) -> None:
    once: Any = {"key": "k", "arguments": {}}
    with pytest.raises(TooFew):
        TwoPhase(jars).run("move", moving(11), **once)
    jars["jars"].update_one({"_id": "a"}, {"$inc": {"coins": 1}})
    assert not TwoPhase(jars).run("move", moving(11), **once).replayed


def test_a_repeat_gets_the_first_outcome_although_the_steps_cannot_be_built_now(jars: Db) -> None:
    first = TwoPhase(jars).run("move", moving(10), key="k", arguments={})

    def refuse() -> list[Step]:
        raise TooFew("no coins are left")

    assert TwoPhase(jars).run("move", refuse, key="k", arguments={}).id == first.id


def test_a_key_whose_run_is_undecided_is_still_running_until_its_deadline(jars: Db, mongod: Embedded) -> None:
    once: Any = {"key": "k", "arguments": {}}
    with stalled_client(mongod, jars, DECISION) as (slow, stall), ThreadPoolExecutor(1) as pool:
        running = pool.submit(TwoPhase(slow).run, "move", moving(1), **once)
        assert stall.asleep.wait(120)
        with pytest.raises(StillRunning):
            TwoPhase(jars).run("move", moving(1, "other"), **once)
        expire(jars)
        assert not TwoPhase(jars).run("move", moving(1, "other"), **once).replayed
        stall.awake.set()
        with pytest.raises(TimedOut):
            running.result()
    assert (coins(jars), leftovers(jars)) == ({"a": 9, "b": 1}, [])


def test_many_threads_with_one_key_move_once(jars: Db) -> None:
    def move(number: int) -> Any:
        try:
            return TwoPhase(jars).run("move", moving(1, f"n{number}"), key="k", arguments={}).id
        except StillRunning:
            return None

    with ThreadPoolExecutor(8) as pool:
        ids = set(pool.map(move, range(8))) - {None}
    assert len(ids) == 1
    assert coins(jars) == {"a": 9, "b": 1}


# ---- beside other runs ----


def test_a_run_waits_for_the_document_of_another(jars: Db, mongod: Embedded) -> None:
    with stalled_client(mongod, jars, DECISION) as (slow, stall), ThreadPoolExecutor(2) as pool:
        running = pool.submit(TwoPhase(slow).run, "move", moving(10))
        assert stall.asleep.wait(120)
        with pytest.raises(Busy):
            TwoPhase(jars, timeout_seconds=2).run("move", moving(1, "other"))
        waiting = pool.submit(TwoPhase(jars).run, "move", moving(1, "other"))
        stall.awake.set()
        running.result()
        with pytest.raises(TooFew):
            waiting.result()
    assert (coins(jars), leftovers(jars)) == ({"a": 0, "b": 10}, [])


def test_an_insert_waits_for_one_that_is_not_decided(jars: Db, mongod: Embedded) -> None:
    note = [Step("notes", "n", insert={"coins": 0})]
    with stalled_client(mongod, jars, DECISION) as (slow, stall), ThreadPoolExecutor(2) as pool:
        running = pool.submit(TwoPhase(slow).run, "move", moving(10))
        assert stall.asleep.wait(120)
        assert jars["notes"].find_one(visible({})) is None, "readers do not see a stub"
        waiting = pool.submit(TwoPhase(jars).run, "note", note)
        expire(jars)
        waiting.result(120)
        stall.awake.set()
        with pytest.raises(TimedOut):
            running.result()
    assert jars["notes"].find_one() == {"_id": "n", "coins": 0}
    assert (coins(jars), leftovers(jars)) == ({"a": 10, "b": 0}, [])


def test_nothing_is_changed_before_the_decision(jars: Db, mongod: Embedded) -> None:
    with stalled_client(mongod, jars, DECISION) as (slow, stall), ThreadPoolExecutor(1) as pool:
        running = pool.submit(TwoPhase(slow).run, "move", moving(3))
        assert stall.asleep.wait(120)
        assert coins(jars) == {"a": 10, "b": 0}
        stall.awake.set()
        running.result()


def test_opposite_moves_never_block_each_other(jars: Db) -> None:
    jars["jars"].update_many({}, {"$set": {"coins": 1_000}})

    def move(number: int) -> None:
        src, dst = ("a", "b") if number % 2 else ("b", "a")
        TwoPhase(jars).run("move", moving(number, f"n{number}", src, dst))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(move, range(40)))
    assert sum(coins(jars).values()) == 2_000
    assert (jars["notes"].count_documents({}), leftovers(jars)) == (40, [])


def test_concurrent_runs_cannot_take_more_than_there_is(jars: Db) -> None:
    def move(number: int) -> bool:
        try:
            TwoPhase(jars).run("move", moving(3, f"n{number}"))
        except TooFew:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(move, range(8))) == 3
    assert (coins(jars), leftovers(jars)) == ({"a": 1, "b": 9}, [])


# ---- what cannot be decided in two phases ----


def test_a_collection_with_a_unique_index_is_refused(jars: Db) -> None:
    jars["jars"].create_index("owner", unique=True, sparse=True)
    with pytest.raises(WriteRefused, match="the unique index owner_1"):
        TwoPhase(jars).run("move", moving(1))
    assert jars[NAME].count_documents({}) == 0


def test_a_collection_with_a_collation_is_refused(jars: Db) -> None:
    jars["notes"].drop()
    jars.create_collection("notes", collation={"locale": "en"})
    with pytest.raises(WriteRefused, match="the option collation"):
        TwoPhase(jars).run("move", moving(1))


@pytest.mark.parametrize(
    "step",
    [Step("jars", "a", update={"$set": {"txn_lock": 1}}), Step("jars", "c", insert={"txn_stub": 1})],
    ids=["update", "insert"],
)
def test_a_step_must_not_write_the_fields_of_the_protocol(jars: Db, step: Step) -> None:
    with pytest.raises(ValueError, match="must not write the field"):
        TwoPhase(jars).run("spoil", [step])


def test_a_write_that_a_validator_rejects_is_refused_before_the_decision(jars: Db) -> None:
    jars.command("collMod", "notes", validator={"coins": {"$lt": 5}})
    with pytest.raises(WriteRefused, match="rejects the insert of notes 'n'"):
        TwoPhase(jars).run("move", moving(6))
    assert (coins(jars), leftovers(jars)) == ({"a": 10, "b": 0}, [])


def test_steps_that_do_not_fit_into_a_record_are_refused(jars: Db) -> None:
    large = [Step("jars", name, update={"$set": {"text": "x" * 9_000_000}}) for name in ("a", "b")]
    with pytest.raises(WriteRefused, match="contains all its steps"):
        TwoPhase(jars).run("write", large)


# ---- time ----


@pytest.mark.parametrize("at_write", [FIRST_LOCK, SECOND_LOCK, STUB, DECISION])
def test_a_late_writer_is_stopped(jars: Db, mongod: Embedded, at_write: int) -> None:
    """A process that was paused sends its next write after its run was rolled back."""
    with stalled_client(mongod, jars, at_write) as (slow, stall), ThreadPoolExecutor(1) as pool:
        running = pool.submit(TwoPhase(slow, timeout_seconds=1).run, "move", moving(3))
        assert stall.asleep.wait(120)
        while not recover(jars):
            pass
        stall.awake.set()
        with pytest.raises((Unavailable, Conflict)):
            running.result()
    assert (coins(jars), leftovers(jars)) == ({"a": 10, "b": 0}, [])
    assert jars["notes"].count_documents({}) == 0


def test_recover_leaves_a_run_alone_until_its_deadline(jars: Db, mongod: Embedded) -> None:
    with stalled_client(mongod, jars, DECISION) as (slow, stall), ThreadPoolExecutor(1) as pool:
        running = pool.submit(TwoPhase(slow).run, "move", moving(3))
        assert stall.asleep.wait(120)
        assert not recover(jars)
        stall.awake.set()
        running.result()
    assert coins(jars) == {"a": 7, "b": 3}


def test_a_waiting_run_finishes_one_that_was_decided(jars: Db, mongod: Embedded) -> None:
    with stalled_client(mongod, jars, FIRST_CHANGE) as (slow, stall), ThreadPoolExecutor(1) as pool:
        running = pool.submit(TwoPhase(slow).run, "move", moving(10))
        assert stall.asleep.wait(120)
        with pytest.raises(TooFew):
            TwoPhase(jars).run("move", moving(1, "other"))
        stall.awake.set()
        running.result()
    assert (coins(jars), leftovers(jars)) == ({"a": 0, "b": 10}, [])


def test_settled_runs_expire_and_open_ones_do_not(jars: Db, mongod: Embedded) -> None:
    TwoPhase(jars).run("move", moving(1))
    with stalled_client(mongod, jars, DECISION) as (slow, stall), ThreadPoolExecutor(1) as pool:
        running = pool.submit(TwoPhase(slow).run, "move", moving(1, "other"))
        assert stall.asleep.wait(120)
        assert sorted(("expires_at" in record, record["state"]) for record in jars[NAME].find()) == [
            (False, "new"),
            (True, "done"),
        ]
        stall.awake.set()
        running.result()
