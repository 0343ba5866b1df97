"""Guarded steps: the promises of both modes, and the recovery of unfinished runs."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from unittest.mock import Mock

import pytest
from bson import ObjectId
from pymongo import MongoClient
from pymongo.client_session import ClientSession
from pymongo.errors import PyMongoError
from tests.patterns.interrupt import client_losing_reply, stalled_client
from tests.racing import at_once

from squinney import clock, transactions
from squinney.errors import Conflict, SquinneyError, Unavailable
from squinney.mongo import schema
from squinney.mongo.connect import client_for, operation, server_now
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Collection, Db, Document
from squinney.testing import Audit
from squinney.transactions import (
    AlreadyExists,
    Busy,
    Key,
    KeyReused,
    Mode,
    Plan,
    Stale,
    Step,
    StillRunning,
    TimedOut,
    Transactions,
    find_stuck,
    in_transaction,
    once,
    open_run,
    recovery,
    two_phase,
    visible,
)

IN_VAIN_SECONDS = 3  # a fifth of it must do to undo and say so, on a busy machine
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
JARS = Collection("jars", escrow={"beans": "floor"})
BEGIN, TAKE, PIN, STUB, FLIP, UNSTUB, GIVE, CLOSE = range(1, 9)  # the writes of a two-phase `move`


class TooLittle(Conflict):
    """The jar does not contain that many beans."""


@pytest.fixture(params=["native", "two-phase"])
def mode(request: pytest.FixtureRequest) -> Mode:
    return request.param


@pytest.fixture
def jars(db: Db) -> Db:
    """Two jars with beans."""
    schema.apply(db, transactions.COLLECTIONS)
    db.jars.insert_many([{"_id": "a", "beans": 10}, {"_id": "b", "beans": 0}])
    return db


def move(beans: int = 3, note: str = "n") -> list[Step]:
    """Move beans from one jar to another, and insert a note about it."""
    return [
        Step(
            JARS,
            "a",
            guard={"beans": {"$gte": beans}},
            take={"$inc": {"beans": -beans}},
            undo={"$inc": {"beans": beans}},
            shared=True,
            refused=TooLittle,
        ),
        Step(JARS, "b", give={"$inc": {"beans": beans}}, shared=True),
        Step("notes", note, insert={"beans": beans}),
    ]


def test_a_deleted_id_is_free_only_after_the_rest_of_its_run_was_applied(jars: Db, audit: Audit) -> None:
    """Otherwise a document inserted under the id could meet changes of the run that are still to come."""
    jars.a_first.insert_one({"_id": "a"})
    steps = [Step("a_first", "a", delete=True), Step("jars", "b", give={"$inc": {"beans": 1}})]
    Transactions(audit.db, "two-phase").run("replace", steps)
    sent = audit.round_trips()
    assert sent[sent.index("delete") :] == ["delete", "delete"], "the document, and then the run's record"


@pytest.mark.parametrize(("prefer", "commits"), [("native", 1), ("two-phase", 0)])
def test_in_the_mode_auto_an_operation_chooses_how_it_runs(
    jars: Db, audit: Audit, prefer: Literal["native", "two-phase"], commits: int
) -> None:
    Transactions(audit.db).run("move", move(), prefer=prefer)
    assert jars.jars.find_one({"_id": "b"}, {"_id": 0, "beans": 1}) == {"beans": 3}
    assert sum(command.startswith("commitTransaction") for command in audit.round_trips()) == commits


def beans(db: Db) -> list[int]:
    return [jar["beans"] for jar in db.jars.find().sort("_id")]


def traces(db: Db) -> list[Document]:
    """Return what the protocol left in documents and records."""
    marks = [{"txns.0": {"$exists": True}}, {"txn_lock": {"$ne": None}}, {"txn_stub": {"$ne": None}}]
    left = [
        doc for name in ("jars", "notes") for doc in db[name].find({"$or": [*marks, {"tombs.0": {"$exists": True}}]})
    ]
    return left + list(db.transactions.find({"state": {"$ne": "done"}}))


def let_time_pass(db: Db) -> None:
    db.transactions.update_many({"state": {"$ne": "done"}}, {"$set": {"deadline": LONG_AGO, "due_at": LONG_AGO}})


def outcome_of(work: Any) -> Any:
    try:
        return work()
    except (SquinneyError, PyMongoError) as error:
        return error


# ---- both modes ----


def test_all_steps_happen(jars: Db, mode: Mode) -> None:
    Transactions(jars, mode).run("move", move())
    assert beans(jars) == [7, 3]
    assert jars.notes.find_one(visible({"_id": "n"})) == {"_id": "n", "beans": 3}
    assert traces(jars) == []


def test_a_run_may_be_larger_than_one_message(jars: Db, mode: Mode) -> None:
    text = "x" * (7 * 2**20)
    notes = [Step("notes", number, insert={"text": text}) for number in range(3)]
    Transactions(jars, mode).run("write", [*notes, *move(note="n")])
    assert [note["_id"] for note in jars.notes.find({}, {"_id": 1}).sort("_id")] == [0, 1, 2, "n"]
    assert beans(jars) == [7, 3]


def test_a_run_of_many_documents_takes_no_longer_than_its_writes(jars: Db, mode: Mode) -> None:
    jars.jars.insert_many([{"_id": number, "beans": 1} for number in range(500)])
    eat = {"take": {"$inc": {"beans": -1}}, "undo": {"$inc": {"beans": 1}}}
    plan = [Step("jars", number, guard={"beans": 1}, **eat) for number in range(500)]
    Transactions(jars, mode, timeout_seconds=10).run("eat", plan)
    assert jars.jars.count_documents({"beans": 0}) == 501
    assert traces(jars) == []


def test_a_refused_run_changes_nothing(jars: Db, mode: Mode) -> None:
    with pytest.raises(TooLittle):
        Transactions(jars, mode).run("move", move(11))
    assert beans(jars) == [10, 0]
    assert jars.notes.count_documents({}) == 0
    assert traces(jars) == []


def test_the_same_id_twice_is_refused(jars: Db, mode: Mode) -> None:
    jars.notes.insert_one({"_id": "n"})
    with pytest.raises(AlreadyExists):
        Transactions(jars, mode).run("move", move())
    assert beans(jars) == [10, 0]
    assert traces(jars) == []


def test_an_insert_with_a_duplicate_unique_value_is_refused(jars: Db, mode: Mode) -> None:
    jars.notes.create_index("name", unique=True)
    jars.notes.insert_one({"_id": "old", "name": "x"})
    plan = [move()[0], Step("jars", "b", give={"$inc": {"beans": 3}}), Step("notes", "new", insert={"name": "x"})]
    with pytest.raises(AlreadyExists):
        Transactions(jars, mode, timeout_seconds=5).run("move", plan)
    assert beans(jars) == [10, 0]
    assert traces(jars) == []


def test_an_update_to_a_duplicate_unique_value_is_refused(jars: Db, mode: Mode) -> None:
    jars.jars.create_index("label", unique=True, sparse=True)
    jars.jars.update_one({"_id": "b"}, {"$set": {"label": "x"}})
    label = Step("jars", "a", take={"$set": {"label": "x"}}, undo={"$unset": {"label": ""}})
    with pytest.raises(AlreadyExists):
        Transactions(jars, mode, timeout_seconds=2).run("label", [label])
    assert traces(jars) == []


def test_a_delete_happens_or_not(jars: Db, mode: Mode) -> None:
    gone = Step("jars", "b", guard={"beans": 0}, delete=True, refused=TooLittle)
    Transactions(jars, mode).run("empty", [gone, move()[2]])
    assert jars.jars.count_documents({}) == 1
    with pytest.raises(TooLittle):
        Transactions(jars, mode).run("empty", [Step("jars", "a", guard={"beans": 0}, delete=True, refused=TooLittle)])
    assert jars.jars.find_one({"_id": "a"}, {"beans": 1}) == {"_id": "a", "beans": 10}
    assert traces(jars) == []


def test_array_filters_over_two_collections(jars: Db, mode: Mode) -> None:
    jars.boxes.insert_one({"_id": 1, "slots": [{"n": 1, "q": 5}, {"n": 2, "q": 5}]})
    jars.shelves.insert_one({"_id": 1, "slots": [{"n": 1, "q": 0}, {"n": 2, "q": 0}]})
    plan = [
        Step(
            "boxes",
            1,
            guard={"slots": {"$elemMatch": {"n": 2, "q": {"$gte": 4}}}},
            take={"$inc": {"slots.$[slot].q": -4}},
            undo={"$inc": {"slots.$[slot].q": 4}},
            array_filters=[{"slot.n": 2}],
            refused=TooLittle,
        ),
        Step("shelves", 1, give={"$inc": {"slots.$[slot].q": 4}}, array_filters=[{"slot.n": 2}]),
    ]
    run = Transactions(jars, mode)
    run.run("restock", plan)
    with pytest.raises(TooLittle):
        run.run("restock", plan)
    assert [slot["q"] for slot in jars.boxes.find_one()["slots"]] == [5, 1]
    assert [slot["q"] for slot in jars.shelves.find_one()["slots"]] == [0, 4]


def test_a_guard_may_have_a_condition_on_the_id(jars: Db, mode: Mode) -> None:
    """A guard on the id is added to the filter by id, and does not replace it."""
    guarded = Step("jars", "a", guard={"_id": {"$ne": "a"}}, give={"$inc": {"beans": 1}}, refused=TooLittle)
    with pytest.raises(TooLittle):
        Transactions(jars, mode).run("odd", [guarded])
    assert beans(jars) == [10, 0]


def test_a_write_that_cannot_be_encoded_changes_nothing(jars: Db, mode: Mode) -> None:
    """The error comes after the takes of a two-phase run; other runs need not wait for its deadline."""
    with pytest.raises(OverflowError):
        Transactions(jars, mode).run("move", [*move(), Step("notes", "large", insert={"number": 2**70})])
    assert beans(jars) == [10, 0]
    assert traces(jars) == []


def test_array_filters_are_used_by_paths_and_not_by_values(jars: Db, mode: Mode) -> None:
    jars.jars.update_one({"_id": "a"}, {"$set": {"lids": [{"n": 1, "turns": 0}]}})
    labelled = Step(
        "jars",
        "a",
        take={"$push": {"labels": "costs $[n]"}},
        undo={"$pull": {"labels": "costs $[n]"}},
        give={"$inc": {"lids.$[lid].turns": 1}},
        array_filters=[{"lid.n": 1}],
    )
    Transactions(jars, mode).run("label", [labelled])
    jar = jars.jars.find_one({"_id": "a"})
    assert (jar["labels"], jar["lids"]) == (["costs $[n]"], [{"n": 1, "turns": 1}])


def test_stale_steps_are_built_again(jars: Db, mode: Mode) -> None:
    built: list[int] = []

    def set_from_what_was_read() -> list[Step]:
        read = jars.jars.find_one({"_id": "a"})["beans"]
        if not built:
            jars.jars.update_one({"_id": "a"}, {"$inc": {"beans": 5}})
        built.append(read)
        set_to = {"$set": {"beans": read * 2}}
        return [Step("jars", "a", guard={"beans": read}, take=set_to, undo={"$set": {"beans": read}}, refused=Stale)]

    Transactions(jars, mode).run("double", set_from_what_was_read)
    assert built == [10, 15]
    assert beans(jars)[0] == 30
    with pytest.raises(Stale):
        Transactions(jars, mode).run("double", [Step("jars", "a", guard={"beans": 1}, refused=Stale)])


@pytest.mark.parametrize("other", ["native", "two-phase"])
def test_exclusive_steps_wait_for_undecided_runs(jars: Db, mongod: Embedded, mode: Mode, other: Any) -> None:
    """While a two-phase run holds a document, a `$set` in any mode waits, and so does a `$inc` for a `$set`."""
    setting = Step("jars", "a", take={"$set": {"beans": 100}}, undo={"$set": {"beans": 10}})
    plans = (move(), [setting]) if other == "native" else ([setting], move())
    with stalled_client(mongod, jars, PIN) as (slow, stall), ThreadPoolExecutor(1) as pool:
        first = pool.submit(Transactions(slow, "two-phase").run, "first", plans[0])
        assert stall.asleep.wait(10)
        before = beans(jars)
        with pytest.raises(Busy):
            Transactions(jars, mode, timeout_seconds=IN_VAIN_SECONDS).run("second", plans[1])
        assert beans(jars) == before
        stall.awake.set()
        first.result()
    Transactions(jars, mode).run("second", plans[1])
    assert traces(jars) == []


def test_a_step_waits_for_undecided_runs_unless_both_are_shared(jars: Db, mode: Mode) -> None:
    jars.jars.update_one({"_id": "a"}, {"$push": {"txns": "somebody"}})
    Transactions(jars, mode).run("fill", [Step(JARS, "a", give={"$inc": {"beans": 1}}, shared=True)])
    for alone in (Step("jars", "a", give={"$inc": {"beans": 1}}), Step("jars", "a", guard={"beans": 11})):
        with pytest.raises(Busy):
            Transactions(jars, mode, timeout_seconds=1).run("fill", [alone])
    assert beans(jars) == [11, 0]


def test_two_pushes_to_one_path_cannot_use_slice_or_position(jars: Db) -> None:
    push = {"$push": {"labels": {"$each": ["x"], "$slice": 1}}}
    with pytest.raises(ValueError, match=r"\$slice"):
        Transactions(jars, "native").run(
            "label", [Step("jars", "a", take=push, undo={"$pull": {"labels": "x"}}, give=push)]
        )


def test_a_run_on_a_locked_document_is_busy_and_changes_nothing(jars: Db, mode: Mode) -> None:
    jars.jars.update_one({"_id": "b"}, {"$set": {"txn_lock": "somebody"}})
    with pytest.raises(Busy):
        Transactions(jars, mode, timeout_seconds=IN_VAIN_SECONDS).run("move", move())
    assert beans(jars) == [10, 0]
    assert jars.jars.find_one({"_id": "a"}).get("txns", []) == []
    assert jars.transactions.count_documents({}) == 0


def test_an_insert_waits_for_one_that_is_not_decided(jars: Db, mongod: Embedded, mode: Mode) -> None:
    """The id may become free again: an operation that never commits must not refuse another."""
    other = Step("notes", "n", insert={"other": True})
    with stalled_client(mongod, jars, FLIP) as (slow, stall), ThreadPoolExecutor(1) as pool:
        first = pool.submit(outcome_of, lambda: Transactions(slow, "two-phase", timeout_seconds=20).run("move", move()))
        assert stall.asleep.wait(10)
        with pytest.raises(Busy):
            Transactions(jars, mode, timeout_seconds=IN_VAIN_SECONDS).run("note", [other])
        let_time_pass(jars)
        Transactions(jars).recover()
        Transactions(jars, mode, timeout_seconds=IN_VAIN_SECONDS).run("note", [other])
        stall.awake.set()
        assert isinstance(first.result(), TimedOut)
    assert jars.notes.find_one({"_id": "n"}) == {"_id": "n", "other": True}


def test_a_client_with_naive_times_works(jars: Db, mongod: Embedded, mode: Mode) -> None:
    """The client needs neither aware datetimes nor majority writes."""
    with MongoClient(mongod.uri, w=1) as plain:
        run = Transactions(plain[jars.name], mode, timeout_seconds=IN_VAIN_SECONDS)
        run.run("move", move(), key="k", arguments={})
        assert run.run("move", move(), key="k", arguments={}).replayed
        jars.jars.update_one({"_id": "b"}, {"$set": {"txn_lock": "somebody"}})
        with pytest.raises(Busy):
            run.run("move", move(note="2"))
    assert beans(jars) == [7, 3]


# ---- two-phase: the late writer, and what readers may see ----


def stall_and_recover(jars: Db, mongod: Embedded, at_write: int) -> Any:
    """Suspend a run before a write, roll it back by `recover()`, and let it continue."""
    with stalled_client(mongod, jars, at_write) as (slow, stall), ThreadPoolExecutor(1) as pool:
        run = Transactions(slow, "two-phase", timeout_seconds=1, margin_seconds=0).run
        late = pool.submit(outcome_of, lambda: run("move", move()))
        assert stall.asleep.wait(10)
        assert not stall.awake.wait(1.1)
        counts = Transactions(jars, margin_seconds=0).recover()
        assert counts == {"rolled back": 1}
        stall.awake.set()
        return late.result()


@pytest.mark.parametrize("at_write", [TAKE, PIN, STUB, FLIP])
def test_a_late_writer_is_stopped(jars: Db, mongod: Embedded, at_write: int) -> None:
    late = stall_and_recover(jars, mongod, at_write)
    assert isinstance(late, Unavailable)
    assert beans(jars) == [10, 0]
    assert jars.notes.count_documents({}) == 0
    let_time_pass(jars)
    assert Transactions(jars).recover() == {"swept": 1}
    assert traces(jars) == []


@pytest.mark.parametrize("at_write", [TAKE, PIN, STUB])
def test_the_deadline_alone_stops_a_late_writer(jars: Db, mongod: Embedded, at_write: int) -> None:
    """Tombstones are removed some day, so the deadline must suffice."""
    with stalled_client(mongod, jars, at_write) as (slow, stall), ThreadPoolExecutor(1) as pool:
        run = Transactions(slow, "two-phase", timeout_seconds=1, margin_seconds=0).run
        late = pool.submit(outcome_of, lambda: run("move", move()))
        assert stall.asleep.wait(10)
        assert not stall.awake.wait(1.1)
        Transactions(jars).recover()
        let_time_pass(jars)
        assert Transactions(jars).recover() == {"swept": 1}
        assert traces(jars) == []
        stall.awake.set()
        assert isinstance(late.result(), Unavailable)
    assert beans(jars) == [10, 0]
    assert traces(jars) == []


@pytest.mark.parametrize("at_write", [TAKE, PIN])
def test_the_tombstone_alone_stops_a_late_writer(jars: Db, mongod: Embedded, at_write: int) -> None:
    """A server's clock may be wrong after a failover: here the deadline is far in the future."""
    with stalled_client(mongod, jars, at_write) as (slow, stall), ThreadPoolExecutor(1) as pool:
        run = Transactions(slow, "two-phase", timeout_seconds=IN_VAIN_SECONDS).run
        late = pool.submit(outcome_of, lambda: run("move", move()))
        assert stall.asleep.wait(10)
        jars.transactions.update_one({}, {"$set": {"due_at": LONG_AGO}})
        assert Transactions(jars).recover() == {"rolled back": 1}
        stall.awake.set()
        assert isinstance(late.result(), Busy)
    assert beans(jars) == [10, 0]
    assert [jar for jar in jars.jars.find() if jar.get("txns")] == []


def test_a_stub_that_was_inserted_too_late_is_deleted(jars: Db, mode: Mode) -> None:
    """A server that was suspended during an insert may write it when the record of its run is already deleted."""
    jars.notes.insert_one({"_id": "n", "txn_stub": ObjectId(), "txn_lock": ObjectId()})
    Transactions(jars, mode, timeout_seconds=IN_VAIN_SECONDS).run("move", move())
    assert jars.notes.find_one({"_id": "n"}) == {"_id": "n", "beans": 3}


def test_undecided_amounts_cannot_be_spent(jars: Db, mongod: Embedded, mode: Mode) -> None:
    spend = [
        Step(
            JARS,
            "b",
            guard={"beans": {"$gte": 1}},
            take={"$inc": {"beans": -1}},
            shared=True,
            refused=TooLittle,
        )
    ]
    with stalled_client(mongod, jars, FLIP) as (slow, stall), ThreadPoolExecutor(1) as pool:
        first = pool.submit(Transactions(slow, "two-phase").run, "move", move())
        assert stall.asleep.wait(10)
        assert beans(jars) == [7, 0]
        assert jars.notes.find_one(visible({"_id": "n"})) is None
        with pytest.raises(Busy):  # what is on its way may yet arrive, or not
            Transactions(jars, mode, timeout_seconds=IN_VAIN_SECONDS).run("spend", spend)
        stall.awake.set()
        first.result()
    Transactions(jars, mode).run("spend", spend)
    assert beans(jars) == [7, 2]


def test_two_runs_cannot_each_empty_the_jar_that_the_other_relies_on(jars: Db, mongod: Embedded, mode: Mode) -> None:
    jars.jars.update_one({"_id": "b"}, {"$set": {"beans": 10}})
    empty = {"take": {"$inc": {"beans": -10}}, "undo": {"$inc": {"beans": 10}}, "refused": TooLittle}

    def plan(kept: str, emptied: str) -> list[Step]:
        some, all_of_them = {"beans": {"$gte": 1}}, {"beans": {"$gte": 10}}
        return [Step("jars", kept, guard=some, refused=TooLittle), Step("jars", emptied, guard=all_of_them, **empty)]

    with stalled_client(mongod, jars, PIN) as (slow, stall), ThreadPoolExecutor(1) as pool:
        first = pool.submit(Transactions(slow, "two-phase").run, "empty", plan("a", "b"))
        assert stall.asleep.wait(10)
        with pytest.raises(Busy):
            Transactions(jars, mode, timeout_seconds=IN_VAIN_SECONDS / 3).run("empty", plan("b", "a"))
        stall.awake.set()
        first.result()
    with pytest.raises(TooLittle):
        Transactions(jars, mode).run("empty", plan("b", "a"))
    assert beans(jars) == [10, 0]
    assert traces(jars) == []


def test_no_two_runs_pass_one_limit(jars: Db, mongod: Embedded, mode: Mode) -> None:
    """A two-phase run gives later than it checks its guard: a run in between must wait, and check again."""

    def plan() -> list[Step]:
        return [Step("jars", "a", guard={"beans": {"$lt": 11}}, give={"$inc": {"beans": 1}}, refused=TooLittle)]

    with stalled_client(mongod, jars, 3) as (slow, stall), ThreadPoolExecutor(1) as pool:  # its flip
        first = pool.submit(Transactions(slow, "two-phase").run, "grow", plan())
        assert stall.asleep.wait(10)
        with pytest.raises(Busy):
            Transactions(jars, mode, timeout_seconds=IN_VAIN_SECONDS / 3).run("grow", plan())
        stall.awake.set()
        first.result()
    with pytest.raises(TooLittle):
        Transactions(jars, mode).run("grow", plan())
    assert beans(jars) == [11, 0]
    assert traces(jars) == []


# ---- two-phase: recovery ----


@pytest.mark.parametrize("at_write", [BEGIN, TAKE, PIN, STUB, FLIP, UNSTUB, GIVE, CLOSE])
@pytest.mark.parametrize("recoverers", [1, 4])
def test_a_lost_reply_is_settled_by_recover_or_a_repeat(
    jars: Db, mongod: Embedded, at_write: int, recoverers: int
) -> None:
    with client_losing_reply(mongod, jars, at_write) as cut_off:
        run = Transactions(cut_off, "two-phase", timeout_seconds=2, margin_seconds=0).run
        lost = outcome_of(lambda: run("move", move(), key="k", arguments={"beans": 3}))
    decided = at_write >= FLIP
    if at_write <= FLIP:
        assert isinstance(lost, Unavailable)
        assert lost.outcome_unknown
        if not decided:
            with pytest.raises(StillRunning):
                Transactions(jars).run("move", move(), key="k", arguments={"beans": 3})
    let_time_pass(jars)
    with ThreadPoolExecutor(recoverers) as pool:
        list(pool.map(lambda _: Transactions(jars).recover(), range(recoverers)))
    assert beans(jars) == ([7, 3] if decided else [10, 0])
    assert jars.notes.count_documents({}) == (1 if decided else 0)
    repeat = Transactions(jars).run("move", move(), key="k", arguments={"beans": 3})
    assert repeat.replayed == decided
    assert beans(jars) == [7, 3]
    let_time_pass(jars)
    Transactions(jars).recover()
    assert traces(jars) == []


@pytest.mark.parametrize("at_write", [1, 2, 3, 4])  # the key's record, jars, notes, the commit
def test_a_lost_reply_in_native_mode_is_settled_by_a_repeat(jars: Db, mongod: Embedded, at_write: int) -> None:
    with client_losing_reply(mongod, jars, at_write) as cut_off:
        run = Transactions(cut_off, "native", timeout_seconds=1).run
        lost = outcome_of(lambda: run("move", move(), key="k", arguments={"beans": 3}))
    assert isinstance(lost, Unavailable)
    assert lost.outcome_unknown
    repeat = Transactions(jars, "native").run("move", move(), key="k", arguments={"beans": 3})
    assert repeat.replayed == (at_write == 4)
    assert beans(jars) == [7, 3]


def test_two_recoveries_at_once_give_once(jars: Db, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(10):
        with monkeypatch.context() as patch:
            patch.setattr(recovery, "finish", lambda *args: None)
            Transactions(jars, "two-phase").run("move", move(1, note=f"n{number}"))
    start = threading.Barrier(4)

    def recover() -> None:
        start.wait()
        Transactions(jars).recover()

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(recover) for _ in range(4)]:
            done.result()
    assert beans(jars) == [0, 10]
    assert jars.notes.count_documents(visible({})) == 10
    assert traces(jars) == []


def test_recover_waits_no_longer_than_the_caller_did(jars: Db, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "finish", lambda *args: None)
    with operation(3):
        Transactions(jars, "two-phase", timeout_seconds=30).run("move", move())
    record = jars.transactions.find_one()
    assert (record["deadline"] - record["at"]).total_seconds() <= 3


def test_only_done_records_expire(jars: Db, monkeypatch: pytest.MonkeyPatch) -> None:
    for mode in ("native", "two-phase"):
        Transactions(jars, mode).run("move", move(1, note=mode), key=mode, arguments={})
    monkeypatch.setattr(recovery, "finish", lambda *args: None)
    Transactions(jars, "two-phase").run("move", move(1), key="open", arguments={})
    states = {(record["state"], "expires_at" in record) for record in jars.transactions.find()}
    assert states == {("done", True), ("commit", False)}
    by_time = [index for index in jars.transactions.list_indexes() if "expireAfterSeconds" in index]
    assert [dict(index["key"]) for index in by_time] == [{"expires_at": 1}]


def test_keys_are_kept_by_the_servers_clock(jars: Db, mode: Mode, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client whose clock is years slow must not write records that expire at once."""
    wrong = Mock(wraps=datetime)
    wrong.now.return_value = LONG_AGO
    monkeypatch.setattr(clock, "datetime", wrong)
    Transactions(jars, mode, keep_keys_seconds=60).run("move", move(), key="k", arguments={})
    (record,) = jars.transactions.find()
    now = server_now(jars)
    assert now - timedelta(seconds=30) < record["at"] <= now < record["expires_at"] <= now + timedelta(seconds=60)


def test_a_run_that_cannot_be_settled_is_reported_and_does_not_block_others(
    jars: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a writer that ignores the protocol can cause this."""
    run = Transactions(jars, "two-phase")
    with monkeypatch.context() as patch:
        patch.setattr(recovery, "finish", lambda *args: None)
        run.run("fill", [Step("jars", "b", give={"$inc": {"beans": 1}})])
    jars.jars.update_one({"_id": "b"}, {"$set": {"beans": "many"}})
    let_time_pass(jars)
    run.run("note", [Step("notes", "n", insert={})])
    assert run.recover() == {"failed": 1}
    stuck = list(find_stuck(jars))
    assert [problem.code for problem in stuck] == ["stuck-transaction"]
    assert open_run(jars, jars.transactions.find_one()["txn"])
    jars.jars.update_one({"_id": "b"}, {"$set": {"beans": 0}})
    assert run.recover() == {"finished": 1}
    assert list(find_stuck(jars)) == []
    assert beans(jars) == [10, 1]


def test_a_run_that_cannot_be_undone_is_reported_however_often_that_was_tried(
    jars: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Transactions(jars, "two-phase")
    with monkeypatch.context() as patch:
        patch.setattr(two_phase, "_flip", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run.run("move", move())
    jars.jars.update_one({"_id": "a"}, {"$set": {"beans": "many"}})
    let_time_pass(jars)
    assert run.recover()["failed"]
    let_time_pass(jars)
    assert run.recover()["failed"]
    assert [problem.code for problem in find_stuck(jars)] == ["stuck-transaction"]
    jars.jars.update_one({"_id": "a"}, {"$set": {"beans": 7}})
    assert run.recover()["rolled back"] == 1
    assert beans(jars) == [10, 0]


@pytest.mark.parametrize("code", [50, 64])  # MaxTimeMSExpired, WriteConcernFailed
def test_a_slow_majority_leaves_the_outcome_open(own_db: Db, failing: Any, code: int) -> None:
    """The stubs were written, but the server ran out of time waiting for other members."""
    schema.apply(own_db, transactions.COLLECTIONS)
    own_db.jars.insert_many([{"_id": "a", "beans": 10}, {"_id": "b", "beans": 0}])
    run = Transactions(own_db, "two-phase", timeout_seconds=5)
    stubs = move()[2:]
    expired = {"code": code, "errmsg": "waiting for replication timed out"}
    with failing(["update"], mode={"times": 1}, writeConcernError=expired), pytest.raises(Unavailable) as caught:
        run.run("note", Plan(stubs))
    assert caught.value.outcome_unknown
    let_time_pass(own_db)
    run.recover()
    assert own_db.notes.count_documents({}) == 0


@pytest.mark.parametrize(("command", "code"), [("update", 290), ("commitTransaction", 388)])
def test_a_transaction_that_the_server_ended_is_retried_while_time_is_left(
    own_db: Db, failing: Any, command: str, code: int
) -> None:
    """Code 290: it took longer than `transactionLifetimeLimitSeconds`, which the embedded server has at ten. Code 388:
    what it wrote did not fit into the cache beside what others wrote; a commit may say so too.
    """
    own_db.jars.insert_one({"_id": "a", "beans": 0})
    steps = [Step("jars", "a", give={"$inc": {"beans": 1}})]

    def work(session: ClientSession) -> None:
        own_db.jars.update_one({"_id": "a"}, {"$inc": {"beans": 10}}, session=session)

    with failing([command], mode={"times": 1}, errorCode=code):
        Transactions(own_db).run("fill", steps)
    with failing([command], mode={"times": 1}, errorCode=code):
        in_transaction(own_db, work)
    assert own_db.jars.find_one() == {"_id": "a", "beans": 11}
    with failing([command], errorCode=code):
        with pytest.raises(Unavailable):
            Transactions(own_db, timeout_seconds=0.3).run("fill", steps)
        with pytest.raises(Unavailable):
            in_transaction(own_db, work, seconds=0.3)
    assert own_db.jars.find_one() == {"_id": "a", "beans": 11}


def test_a_failing_rollback_is_left_to_recover(own_db: Db, failing: Any) -> None:
    """The caller gets the reason of the refusal, not the error of the rollback."""
    schema.apply(own_db, transactions.COLLECTIONS)
    own_db.jars.insert_many([{"_id": "a", "beans": 10}, {"_id": "b", "beans": 0, "txn_lock": "somebody"}])
    run = Transactions(own_db, "two-phase", timeout_seconds=1)
    with failing(["update"], errorCode=96, namespace=f"{own_db.name}.transactions"), pytest.raises(Busy):
        run.run("move", move())
    let_time_pass(own_db)
    assert run.recover()["rolled back"] == 1
    assert beans(own_db) == [10, 0]


def test_a_commit_that_the_server_rejects_has_an_unknown_outcome(own_db: Db, failing: Any) -> None:
    """The reason is not a conflict with another transaction."""
    own_db.jars.insert_one({"_id": "a", "beans": 0})
    refused = failing(["commitTransaction"], mode={"times": 1}, errorCode=96)  # OperationFailed
    with refused, pytest.raises(Unavailable) as caught:
        Transactions(own_db).run("fill", [Step("jars", "a", give={"$inc": {"beans": 1}})])
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
    assert jars.jars.find_one({"_id": "a"}) == {"_id": "a", "beans": 20}


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
    assert at_once(4, lambda _: add(1)) == [{"before": 10}] * 4
    assert jars.jars.find_one({"_id": "a"}) == {"_id": "a", "beans": 11}
    with pytest.raises(KeyReused):
        add(2)
    assert once(jars, "add", work, key=Key("k", "another"), arguments={"amount": 1}) == {"before": 11}
