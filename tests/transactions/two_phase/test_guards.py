"""Guards of the protocol that others normally hide, each tested separately."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from bson import ObjectId
from pymongo.errors import BulkWriteError
from tests.patterns.interrupt import stalled_client
from tests.transactions.two_phase.jars import TooFew, coins, expire, leftovers, moving
from tests.transactions.two_phase.test_runs import FIRST_CHANGE, SECOND_LOCK

from squinney.mongo.deadlines import operation
from squinney.mongo.embedded import Embedded
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db, Document
from squinney.transactions import Outcome, Plan
from squinney.transactions.two_phase import TwoPhase, records, recovering, settling, writes
from squinney.transactions.two_phase.documents import LOCK_FIELD, NAME
from squinney.transactions.two_phase.refusals import first_refusal


def begun(db: Db, seconds: float = 120) -> Document:
    """Return the record of a run that holds its documents and is not decided."""
    with operation(seconds):
        record: Any = records.begin(db, Outcome(ObjectId(), None), "move", Plan(moving(3)), None)
    src, dst, note = moving(3)
    for step in (src, dst):
        assert (
            db["jars"]
            .update_one(writes.locking_filter(step, record), {"$set": {LOCK_FIELD: record["_id"]}})
            .matched_count
        )
    db["notes"].bulk_write([writes.stub_request(note, record)])
    return record


def test_a_run_that_was_rolled_back_cannot_be_decided(jars: Db) -> None:
    db = pinned(jars)
    run_id = begun(db)["_id"]
    assert records.roll_back(db, run_id)
    assert not records.commit(db, run_id)


def test_a_run_cannot_be_decided_after_its_deadline(jars: Db) -> None:
    db = pinned(jars)
    run_id = begun(db)["_id"]
    expire(db)
    assert not records.commit(db, run_id)


def test_others_roll_a_run_back_only_after_its_deadline(jars: Db) -> None:
    db = pinned(jars)
    run_id = begun(db)["_id"]
    assert not settling.undo(db, run_id, overdue=True)
    expire(db)
    assert settling.undo(db, run_id, overdue=True)
    assert leftovers(db) == []


def test_a_committed_run_is_not_rolled_back(jars: Db) -> None:
    db = pinned(jars)
    run_id = begun(db)["_id"]
    assert records.commit(db, run_id)
    expire(db)
    assert not settling.undo(db, run_id, overdue=True)
    assert recovering.recover(db) == {"finished": 1}
    assert coins(db) == {"a": 7, "b": 3}


def test_a_document_that_a_run_holds_refuses_nobody(jars: Db) -> None:
    """That run may still be rolled back, or take the coins."""
    db = pinned(jars)
    run_id = begun(db)["_id"]
    assert first_refusal(db, moving(11)) is None
    settling.undo(db, run_id)
    assert isinstance(first_refusal(db, moving(11)), TooFew)


def test_the_servers_clock_stops_a_late_write(jars: Db) -> None:
    record = {"_id": "late", "deadline": datetime.now(UTC) - timedelta(seconds=1)}
    src, _, note = moving(3)
    assert not jars["jars"].update_one(writes.locking_filter(src, record), {"$set": {LOCK_FIELD: "late"}}).matched_count
    with pytest.raises(BulkWriteError, match="by zero"):
        jars["notes"].bulk_write([writes.stub_request(note, record)])


def test_a_run_that_is_settled_twice_is_applied_once(jars: Db) -> None:
    db = pinned(jars)
    run_id = begun(db)["_id"]
    assert records.commit(db, run_id)
    record: Any = db[NAME].find_one({"_id": run_id})
    for _ in range(2):
        settling.finish(db, record)
    assert (coins(db), leftovers(db)) == ({"a": 7, "b": 3}, [])


def test_a_late_finish_changes_no_document_of_another_run(jars: Db, mongod: Embedded) -> None:
    """A process is paused before it applies its run; others apply it, and a later run holds the documents."""
    with stalled_client(mongod, jars, FIRST_CHANGE) as (slow, stall), ThreadPoolExecutor(1) as pool:
        running = pool.submit(TwoPhase(slow).run, "move", moving(3))
        assert stall.asleep.wait(120)
        expire(jars)
        assert recovering.recover(jars) == {"finished": 1}
        with stalled_client(mongod, jars, FIRST_CHANGE - 1) as (other, held), ThreadPoolExecutor(1) as second:
            holding = second.submit(TwoPhase(other).run, "move", moving(3, "later"))
            assert held.asleep.wait(120)
            stall.awake.set()
            running.result()
            assert coins(jars) == {"a": 7, "b": 3}
            held.awake.set()
            holding.result()
    assert (coins(jars), leftovers(jars)) == ({"a": 4, "b": 6}, [])


def test_documents_are_locked_in_one_order(jars: Db, mongod: Embedded) -> None:
    for src, dst, note in (("a", "b", "n"), ("b", "a", "m")):
        with stalled_client(mongod, jars, SECOND_LOCK) as (slow, stall), ThreadPoolExecutor(1) as pool:
            running = pool.submit(TwoPhase(slow).run, "move", moving(0, note, src, dst))
            assert stall.asleep.wait(120)
            assert [jar["_id"] for jar in jars["jars"].find({LOCK_FIELD: {"$ne": None}})] == ["a"]
            stall.awake.set()
            running.result()
