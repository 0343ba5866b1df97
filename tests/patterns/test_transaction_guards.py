"""The guards of the protocol, each tested separately: other guards that could hide its absence are disabled."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import Mock

import pytest
from bson import ObjectId
from pymongo.errors import AutoReconnect
from tests.patterns.interrupt import held_client, meanwhile, stalled_client

from squinney import transactions
from squinney.errors import Conflict, SquinneyError, Unavailable
from squinney.mongo import schema
from squinney.mongo.connect import server_now
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Collection, Db, Document
from squinney.transactions import Busy, Step, StillRunning, TimedOut, Transactions, recovery, two_phase, visible

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
FLIP = 3  # the writes of `fill`: its record, the marker, the decision


@pytest.fixture
def jars(db: Db) -> Db:
    schema.apply(db, transactions.COLLECTIONS)
    db.jars.insert_many([{"_id": "a", "beans": 10}, {"_id": "b", "beans": 0}])
    return db


def fill(jar: str = "a") -> list[Step]:
    return [Step("jars", jar, give={"$inc": {"beans": 1}})]


def beans(db: Db, jar: str = "a") -> int:
    return int((db.jars.find_one({"_id": jar}) or {})["beans"])


def outcome_of(work: Any) -> Any:
    try:
        return work()
    except SquinneyError as error:
        return error


def set_record(db: Db, **fields: Any) -> None:
    db.transactions.update_one({}, {"$set": fields})


def at_its_flip(jars: Db, mongod: Embedded, act: Any, *, key: str | None = None) -> Any:
    """Run a plan, with a callback just before its decision; return the outcome."""
    with stalled_client(mongod, jars, FLIP) as (slow, stall), ThreadPoolExecutor(1) as pool:
        run = Transactions(slow, "two-phase", timeout_seconds=20).run
        running = pool.submit(outcome_of, lambda: run("fill", fill(), key=key, arguments={} if key else None))
        assert stall.asleep.wait(10)
        act()
        stall.awake.set()
        return running.result()


# ---- deciding ----


def test_a_run_cannot_be_committed_after_its_deadline(jars: Db, mongod: Embedded) -> None:
    """Although it has not been rolled back yet."""
    outcome = at_its_flip(jars, mongod, lambda: set_record(jars, deadline=LONG_AGO))
    assert isinstance(outcome, TimedOut)
    assert beans(jars) == 10


def test_a_run_that_is_being_rolled_back_cannot_be_committed(jars: Db, mongod: Embedded) -> None:
    outcome = at_its_flip(jars, mongod, lambda: set_record(jars, state="rollback"))
    assert isinstance(outcome, TimedOut)
    assert beans(jars) == 10


def test_a_late_run_does_not_commit_another_with_its_key(jars: Db, mongod: Embedded) -> None:
    """The late run was rolled back, and another run with its key is undecided."""
    outcome = at_its_flip(jars, mongod, lambda: set_record(jars, txn=ObjectId()), key="k")
    assert isinstance(outcome, TimedOut)
    assert (jars.transactions.find_one() or {})["state"] == "new"


def test_a_run_committed_meanwhile_is_not_rolled_back(jars: Db, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recovery that read the record before the decision comes too late."""
    with monkeypatch.context() as patch:
        patch.setattr(recovery, "finish", lambda *args: None)
        Transactions(jars, "two-phase").run("fill", fill())
    record = jars.transactions.find_one() or {}
    recovery.roll_back(jars, {**record, "state": "new"}, tombs_for_seconds=300)
    assert (jars.transactions.find_one() or {})["state"] == "commit"
    Transactions(jars).recover()
    assert beans(jars) == 11


# ---- preparing ----


def test_a_step_is_prepared_once(jars: Db, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver repeats a write whose reply was lost, and after a failover it may be applied twice."""
    shared = Collection("jars", escrow={"beans": "floor"})
    take = Step(shared, "a", guard={"beans": {"$gte": 3}}, take={"$inc": {"beans": -3}}, shared=True)
    prepare = two_phase._prepare_one

    def twice(db: Db, step: Step, *args: Any) -> None:
        prepare(db, step, *args)
        with pytest.raises((Busy, TimedOut)):
            prepare(db, step, *args[:-1], 0)

    monkeypatch.setattr(two_phase, "_prepare_one", twice)
    Transactions(jars, "two-phase").run("take", [take])
    assert beans(jars) == 7


def test_a_shared_step_waits_for_an_exclusive_one(jars: Db, mongod: Embedded) -> None:
    shared = Collection("jars", escrow={"beans": "floor"})
    take = Step(shared, "a", guard={"beans": {"$gte": 3}}, take={"$inc": {"beans": -3}}, shared=True)

    def be_refused() -> None:
        with pytest.raises(Busy):
            Transactions(jars, timeout_seconds=1).run("take", [take])

    at_its_flip(jars, mongod, be_refused)
    assert beans(jars) == 11


def test_shared_takes_of_two_limits_wait_for_each_other(jars: Db, mongod: Embedded) -> None:
    rooms = Collection("jars", escrow={"beans": "ceiling"})

    def book(limit: int) -> list[Step]:
        return [Step(rooms, "b", guard={"beans": {"$lt": limit}}, take={"$inc": {"beans": 1}}, shared=True)]

    with stalled_client(mongod, jars, FLIP) as (slow, stall), ThreadPoolExecutor(1) as pool:
        first = pool.submit(Transactions(slow, "two-phase").run, "book", book(5))
        assert stall.asleep.wait(10)
        Transactions(jars).run("book", book(5))
        with pytest.raises(Busy):
            Transactions(jars, timeout_seconds=1).run("book", book(9))
        stall.awake.set()
        first.result()
    assert beans(jars, "b") == 2


def test_a_native_step_that_only_guards_writes(jars: Db) -> None:
    """Otherwise the server would detect no conflict with a concurrent change of the document."""
    before = jars.jars.find_one({"_id": "a"})
    Transactions(jars, "native").run("look", [Step("jars", "a", guard={"beans": 10}), *fill("b")])
    assert jars.jars.find_one({"_id": "a"}) != before


@pytest.mark.parametrize("give", [None, {"$set": {"kind": "jar"}}], ids=["guards", "changes nothing"])
def test_a_native_run_that_only_guards_conflicts_with_changes(jars: Db, mongod: Embedded, give: Any) -> None:
    """Two runs each guard the jar that the other empties: with snapshots alone both would succeed."""

    def plan(kept: str, emptied: str) -> list[Step]:
        return [
            Step("jars", kept, guard={"beans": {"$gte": 1}}, give=give),
            Step("notes", kept, insert={}),
            Step("jars", emptied, give={"$set": {"beans": 0}}),
        ]

    jars.create_collection("notes")  # else the two would meet in making it
    jars.jars.update_many({}, {"$set": {"beans": 5, "kind": "jar"}})
    others: list[Any] = []
    with ThreadPoolExecutor(1) as pool:

        def meet() -> None:
            others.append(pool.submit(outcome_of, lambda: Transactions(jars, "native").run("empty", plan("b", "a"))))
            wait(others, timeout=1)  # it cannot come back before the first has ended

        with meanwhile(mongod, jars, meet, "insert", "notes") as db:
            first = outcome_of(lambda: Transactions(db, "native").run("empty", plan("a", "b")))
        second = others[0].result()
    assert sum(isinstance(one, Conflict) for one in (first, second)) == 1
    assert sorted(jar["beans"] for jar in jars.jars.find()) == [0, 5]


def test_documents_are_prepared_in_one_order(jars: Db, mongod: Embedded) -> None:
    """Whatever the order of the plan is, so that no two runs wait for each other."""

    def is_marked() -> bool:
        return jars.jars.find_one({"txns.0": {"$exists": True}}) is not None

    for plan in ([*fill("a"), *fill("b")], [*fill("b"), *fill("a")]):
        with held_client(mongod, jars, is_marked) as (slow, stall), ThreadPoolExecutor(1) as pool:
            running = pool.submit(Transactions(slow, "two-phase").run, "fill", plan)
            assert stall.asleep.wait(10)
            assert [jar["_id"] for jar in jars.jars.find({"txns.0": {"$exists": True}})] == ["a"]
            stall.awake.set()
            running.result()


def test_a_run_has_one_step_per_document(jars: Db) -> None:
    with pytest.raises(ValueError, match="one step per document"):
        Transactions(jars).run("fill", [*fill(), *fill()])


def test_a_unique_value_is_passed_on(jars: Db) -> None:
    jars.names.create_index("name", unique=True)
    jars.names.insert_one({"_id": 1, "name": "x"})
    steps = [Step("names", 2, insert={"name": "x"}), Step("names", 1, delete=True)]
    Transactions(jars, "native").run("hand on", [steps[1], steps[0]])
    assert [one["_id"] for one in jars.names.find()] == [2]


# ---- recovering ----


def test_recovery_waits_for_the_margin(jars: Db, mongod: Embedded) -> None:
    def look() -> None:
        record = jars.transactions.find_one() or {}
        assert record["due_at"] - record["deadline"] == timedelta(seconds=5)

    at_its_flip(jars, mongod, look)


def die_undecided(jars: Db) -> None:
    """The process of the run died before the decision."""

    class Death(BaseException):
        pass

    with pytest.MonkeyPatch.context() as patch, suppress(Death):
        patch.setattr(two_phase, "_flip", Mock(side_effect=Death))
        Transactions(jars, "two-phase").run("fill", fill())


def test_tombstones_are_set_before_the_undo(jars: Db, mongod: Embedded) -> None:
    """Otherwise a late writer could take again between the undo and the tombstone."""
    die_undecided(jars)
    set_record(jars, deadline=server_now(jars), due_at=LONG_AGO)
    seen: list[Document] = []

    def is_undone() -> bool:
        seen.append(jars.jars.find_one({"_id": "a"}) or {})
        return False

    with held_client(mongod, jars, is_undone) as (db, _):
        assert Transactions(db).recover() == {"rolled back": 1}
    undone = [jar for jar in seen if not jar.get("txns")]
    assert undone
    assert all(jar.get("tombs") for jar in undone)


def test_tombstones_are_kept_for_the_configured_time(jars: Db) -> None:
    die_undecided(jars)
    set_record(jars, deadline=server_now(jars), due_at=LONG_AGO)
    assert Transactions(jars).recover()["rolled back"] == 1
    assert Transactions(jars).recover() == {}
    assert (jars.jars.find_one({"_id": "a"}) or {})["tombs"]


def test_a_run_with_an_unknown_outcome_is_not_rolled_back(jars: Db, monkeypatch: pytest.MonkeyPatch) -> None:
    """The write may still arrive after an undo, so only `recover` undoes it, after the deadline."""
    insert = two_phase._insert_stubs

    def lose_the_answer(*args: Any) -> None:
        insert(*args)
        raise AutoReconnect("no answer")

    monkeypatch.setattr(two_phase, "_insert_stubs", lose_the_answer)
    with pytest.raises(Unavailable):
        Transactions(jars, "two-phase").run("note", [Step("notes", 1, insert={})])
    assert (jars.transactions.find_one() or {})["state"] == "new"
    assert jars.notes.count_documents({}) == 1


def test_only_its_own_run_makes_a_stub_a_document(jars: Db, monkeypatch: pytest.MonkeyPatch) -> None:
    """A late recovery finds the stub of another run under the same id."""
    with monkeypatch.context() as patch:
        patch.setattr(recovery, "finish", lambda *args: None)
        Transactions(jars, "two-phase").run("note", [Step("notes", 1, insert={})])
    other = ObjectId()
    jars.notes.update_one({"_id": 1}, {"$set": {"txn_stub": other, "txn_lock": other}})
    Transactions(jars).recover()
    assert jars.notes.find_one(visible({"_id": 1})) is None


# ---- keys ----


def test_a_repeat_finishes_a_committed_run(jars: Db, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(recovery, "finish", lambda *args: None)
        Transactions(jars, "two-phase").run("fill", fill(), key="k", arguments={})
    assert Transactions(jars, "two-phase").run("fill", fill(), key="k", arguments={}).replayed
    assert beans(jars) == 11


def test_an_undecided_run_has_no_outcome(jars: Db, mongod: Embedded) -> None:
    def ask_again() -> None:
        with pytest.raises(StillRunning):
            Transactions(jars, "two-phase").run("fill", fill(), key="k", arguments={})

    at_its_flip(jars, mongod, ask_again, key="k")
    assert beans(jars) == 11
