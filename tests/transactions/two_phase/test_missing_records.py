"""A read at a new primary may miss the record of a run that lives: nothing that it holds may be released then."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pymongo.collection import Collection
from tests.patterns.interrupt import stalled_client
from tests.transactions.two_phase.jars import coins, leftovers, moving
from tests.transactions.two_phase.test_runs import DECISION

from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db
from squinney.transactions import Busy
from squinney.transactions.two_phase import TimedOut, TwoPhase, drop_orphans, find_orphans, records
from squinney.transactions.two_phase.documents import NAME


@pytest.fixture
def unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every read miss the records of runs, as at a new primary that has not caught up."""
    find_one = Collection.find_one

    def missing(collection: Any, *arguments: Any, **options: Any) -> Any:
        return None if collection.name == NAME else find_one(collection, *arguments, **options)

    monkeypatch.setattr(Collection, "find_one", missing)


def wait_in_vain(db: Db) -> None:
    with pytest.raises(Busy):
        TwoPhase(db, timeout_seconds=2).run("move", moving(1, "other"))


def insert_in_vain(db: Db) -> None:
    with pytest.raises(Busy):
        TwoPhase(db, timeout_seconds=2).run("note", moving(1)[2:])


def repair(db: Db) -> None:
    assert not +drop_orphans(db, ["jars", "notes"])


@pytest.mark.parametrize("act", [wait_in_vain, insert_in_vain, repair])
def test_a_live_run_keeps_its_documents(jars: Db, mongod: Embedded, unseen: None, act: Callable[[Db], None]) -> None:
    with stalled_client(mongod, jars, DECISION) as (slow, stall), ThreadPoolExecutor(1) as pool:
        running = pool.submit(TwoPhase(slow).run, "move", moving(10))
        assert stall.asleep.wait(120)
        act(jars)
        stall.awake.set()
        running.result()
    assert (coins(jars), jars["notes"].count_documents({"coins": 10})) == ({"a": 0, "b": 10}, 1)
    assert leftovers(jars) == []


def test_a_run_whose_record_is_gone_cannot_be_decided(jars: Db, mongod: Embedded) -> None:
    """Its documents are released only after a record says that it is rolled back."""
    with stalled_client(mongod, jars, DECISION) as (slow, stall), ThreadPoolExecutor(1) as pool:
        running = pool.submit(TwoPhase(slow).run, "move", moving(10))
        assert stall.asleep.wait(120)
        jars[NAME].delete_many({})
        assert {problem.code for problem in find_orphans(jars, ["jars", "notes"])} == {"orphan-lock", "orphan-stub"}
        assert TwoPhase(jars).run("move", moving(1, "other"))
        assert [record["state"] for record in jars[NAME].find().sort("state", -1)] == ["rolled back", "done"]
        assert drop_orphans(jars, ["jars", "notes"]) == {"documents freed": 1}
        stall.awake.set()
        with pytest.raises(TimedOut):
            running.result()
    assert (coins(jars), jars["notes"].count_documents({})) == ({"a": 9, "b": 1}, 1)
    assert leftovers(jars) == []


def test_a_run_whose_record_was_missed_cannot_begin(jars: Db) -> None:
    """Whoever missed it has inserted it as rolled back: another run gets an id of its own."""
    with pytest.MonkeyPatch.context() as patch:
        begin = records.begin
        seen: list[Any] = []

        def late(db: Db, run: Any, *arguments: Any) -> Any:
            if not seen:
                assert records.roll_back_missing(db, run.id)
            seen.append(run.id)
            return begin(db, run, *arguments)

        patch.setattr(records, "begin", late)
        outcome = TwoPhase(jars).run("move", moving(1))
    assert outcome.id == seen[1]
    assert coins(jars) == {"a": 9, "b": 1}
