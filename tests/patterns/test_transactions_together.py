"""Group commit: waiting runs share one transaction, with the same outcome as without."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import Any

import pytest
from pymongo.monitoring import CommandStartedEvent
from tests.patterns.interrupt import Stall
from tests.patterns.jars import FULL, TooLittle, beans, by_notes, fill, filled, move, outcome_of
from tests.racing import at_once
from tests.sizes import a_tenth_of

from squinney.errors import Conflict, Unavailable
from squinney.mongo.connect import client_for
from squinney.mongo.deadlines import operation
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db
from squinney.mongo.write_commands import is_write
from squinney.testing.crash.proxy import Proxy, proxy_to
from squinney.testing.crash.sweep import abort_open_transactions
from squinney.transactions import (
    CHECKS_FIELD,
    AlreadyExists,
    Busy,
    KeyReused,
    Outcome,
    Plan,
    Step,
    Transactions,
    WriteRefused,
    attempts,
    commits,
    group_commit,
)

Work = Callable[[Db], Any]


@pytest.fixture
def jars(db: Db) -> Db:
    return filled(db)


def runs(*steps: list[Step] | Plan, **options: Any) -> list[Work]:
    """Runs, with further arguments for `run` and `Transactions`."""
    asked = {name: options.pop(name) for name in ("key", "arguments") if name in options}
    return [lambda db, plan=plan: Transactions(db, **options).run("move", plan, **asked) for plan in steps]


class Held(Stall):
    """Blocks the n-th write, and records the names of it and of all later writes, and of the commits of these."""

    def __init__(self, at_write: int) -> None:
        super().__init__(at_write)
        self.names: list[str] = []
        self._wrote: set[tuple[bytes, int]] = set()

    def started(self, event: CommandStartedEvent) -> None:
        super().started(event)
        if not is_write(event.command_name, event.command) or "txnNumber" not in event.command:
            return
        transaction = bytes(event.command["lsid"]["id"]), event.command["txnNumber"]
        if event.command_name != "commitTransaction":
            self._wrote.add(transaction)
        if self.awake.is_set() and transaction in self._wrote:
            self.names.append(event.command_name)


@contextmanager
def one_under_way(
    mongod: Embedded, db: Db, first: Work, *, at_write: int = 1
) -> Iterator[tuple[Held, Future[Any], Callable[[Work], Future[Any]]]]:
    """Block a run at its n-th write while it is the only transaction in flight, so that runs added later queue."""
    held = Held(at_write)
    app = f"together-{secrets.token_hex(6)}"
    with client_for(mongod.uri, event_listeners=[held], appname=app) as client, ThreadPoolExecutor(40) as pool:
        ours = client[db.name]
        leader = pool.submit(outcome_of, lambda: first(ours))
        assert held.asleep.wait(120)
        queue = group_commit.pending_runs_of(ours)

        def add(work: Work) -> Future[Any]:
            waiting = len(queue._waiting)
            added = pool.submit(outcome_of, lambda: work(ours))
            until = time.monotonic() + 120
            while len(queue._waiting) == waiting and not added.done():
                assert time.monotonic() < until
                time.sleep(0.001)
            return added

        try:
            yield held, leader, add
        finally:
            held.awake.set()
    abort_open_transactions(db, app)


@pytest.fixture
def one_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "SLOTS", 1)


WAIT = runs([Step("others", "held", insert={})])[0]


def grouped(mongod: Embedded, db: Db, works: Sequence[Work]) -> tuple[list[Any], list[str]]:
    """Return the outcomes of runs that queued together, and the writes they took, without those of the run before."""
    with one_under_way(mongod, db, WAIT) as (held, leader, add):
        added = [add(work) for work in works]
        held.awake.set()
        leader.result()
        outcomes = [one.result() for one in added]
    return outcomes, held.names[2:]


# ---- who goes together, and in which order ----


def test_waiting_runs_share_one_transaction(jars: Db, mongod: Embedded, one_slot: None) -> None:
    """Each run can only succeed after the one before it, in both collections."""
    jars.turns.insert_one({"_id": 1, "turn": 0})
    chain = [("a", "b", 70), ("b", "c", 60), ("c", "d", 50)]

    def after(turn: int) -> Step:
        return Step("turns", 1, guard={"turn": turn}, update={"$set": {"turn": turn + 1}})

    plans = [[after(number), *move(*hop, note=f"n{number}")] for number, hop in enumerate(chain)]
    outcomes, commands = grouped(mongod, jars, runs(*plans))
    assert len({outcome.id for outcome in outcomes}) == 3
    assert beans(jars) == {"a": 30, "b": 10, "c": 10, "d": 50}
    assert jars.turns.find_one() == {"_id": 1, "turn": 3}
    assert jars.notes.count_documents({}) == 3
    assert commands == ["update", "insert", "update", "commitTransaction"]


def test_a_run_without_conflicts_starts_at_once_and_alone(jars: Db, mongod: Embedded) -> None:
    """Another run is in flight on other documents."""
    with one_under_way(mongod, jars, runs(move("a", "b", 1))[0]) as (_, _, add):
        for work in runs([Step("jars", "c", guard={"beans": 0})], [Step("jars", "d", guard={"beans": 0})]):
            assert add(work).result(120).id
        waiting = add(runs(move("b", "c", 1))[0])
        assert not waiting.done()
    assert waiting.result().id


@contextmanager
def four_under_way(jars: Db) -> Iterator[tuple[Callable[[str], group_commit.Run], list[int]]]:
    """Put four runs in flight in two groups, with a free slot; yield a function that adds runs, and the group sizes."""
    queue, sent = group_commit.PendingRuns(jars), []
    may_end = {name: threading.Event() for name in "abcd"}

    def send(group: Sequence[group_commit.Run], _: Any) -> None:
        sent.append(len(group))
        assert may_end[max(group[0].documents)[0]].wait(60)

    with ThreadPoolExecutor(10) as pool:

        def come(*documents: str) -> group_commit.Run:
            before = len(sent), len(queue._waiting)
            run = group_commit.Run([], frozenset(documents))
            pool.submit(operation(60)(queue.commit), run, send)
            wait_for(lambda: (len(sent), len(queue._waiting)) != before)
            return run

        for documents in (["a"], ["b"], ["a", "c1"], ["a", "c2"], ["a", "c3"]):
            come(*documents)
        may_end["a"].set()
        wait_for(lambda: sent == [1, 1, 3])
        yield come, sent
        for event in may_end.values():
            event.set()


def wait_for(true: Callable[[], bool]) -> None:
    until = time.monotonic() + 120
    while not true():
        assert time.monotonic() < until
        time.sleep(0.001)


def test_while_many_are_in_flight_a_run_waits_until_as_many_wait(jars: Db, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise each run that arrives while others are in flight would be a separate transaction."""
    monkeypatch.setattr(group_commit, "COMPANY_SECONDS", 100)
    monkeypatch.setattr(group_commit, "MAX_WAIT_SECONDS", 100)
    with four_under_way(jars) as (come, sent):
        for name in ("d1", "d2", "d3"):
            come(name)
        assert sent == [1, 1, 3]
        come("d4")
        wait_for(lambda: sent == [1, 1, 3, 4])


def test_one_slow_group_does_not_delay_all_others(jars: Db, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "MAX_WAIT_SECONDS", 100)
    with four_under_way(jars) as (come, sent):
        run = come("d1")
        wait_for(lambda: sent == [1, 1, 3, 1])
        assert run.group  # it did not give up waiting, and go alone


def test_no_run_overtakes_one_that_waits_for_the_same_document(jars: Db, mongod: Embedded) -> None:
    """Otherwise a run on two documents could wait forever."""
    with one_under_way(mongod, jars, runs(move("a", "b", 1))[0]) as (_, _, add):
        needs_both = add(runs(move("b", "c", 1))[0])
        behind = add(runs(move("c", "d", 1))[0])
        assert not needs_both.done()
        assert not behind.done()
    assert needs_both.result().id
    assert behind.result().id
    assert beans(jars) == {"a": 99, "b": 0, "c": 0, "d": 1}


@pytest.mark.parametrize(("limit", "most"), [("MAX_WRITES", 5), ("MAX_BYTES", 400)])
def test_a_group_has_limits(
    jars: Db, mongod: Embedded, one_slot: None, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    monkeypatch.setattr(group_commit, limit, most)
    outcomes, commands = grouped(mongod, jars, runs(*[move("a", "b", 1)] * 5))
    assert all(outcome.id for outcome in outcomes)
    assert commands.count("commitTransaction") == 3
    assert beans(jars)["b"] == 5


def test_a_unique_value_is_passed_on_from_run_to_run(jars: Db, mongod: Embedded, one_slot: None) -> None:
    jars.seats.create_index("seat", unique=True)
    jars.seats.insert_one({"_id": 0, "seat": 7})
    plans = [[Step("seats", n, delete=True), Step("seats", n + 1, insert={"seat": 7})] for n in range(3)]
    outcomes, commands = grouped(mongod, jars, runs(*plans))
    assert all(outcome.id for outcome in outcomes)
    assert commands.count("commitTransaction") == 1
    assert list(jars.seats.find()) == [{"_id": 3, "seat": 7}]


# ---- refusals and repeats inside a group ----

REFUSED: dict[str, tuple[list[Step], type[Exception]]] = {
    "a guard that does not match": (move("a", "b", FULL + 1, "x"), TooLittle),
    "a document that is not there": ([*fill("a"), *fill("nowhere")], Conflict),
    "an insert with the id of another": ([Step("notes", "old", insert={"n": 1}), *fill("a")], AlreadyExists),
    "an insert with the value of another": ([Step("names", 2, insert={"name": "x"}), *fill("a")], AlreadyExists),
    "an update to the value of another": ([Step("names", 1, update={"$set": {"name": "x"}})], AlreadyExists),
    "a document that its validator rejects": ([Step("names", 1, update={"$set": {"size": 10}})], WriteRefused),
    "a missing document that the validator would reject": ([Step("names", 7, update={"$set": {"n": 1}})], Conflict),
    "a guard beside a validator": ([Step("names", 1, guard={"n": 1}, update={"$set": {"n": 1}})], Conflict),
    "an operator that does not fit": ([Step("names", 0, update={"$inc": {"name": 1}})], WriteRefused),
    "an array filter for a missing array": (
        [Step("jars", "z", update={"$inc": {"beans.$[i]": 1}}, array_filters=[{"i": 1}])],
        Conflict,
    ),
}
OLD_WAY: dict[str, tuple[list[Step], type[Exception]]] = {
    "an expression": ([Step("jars", "b", guard={"$expr": {"$gt": ["$beans", 500]}}, refused=TooLittle)], TooLittle),
    "an expression within": ([Step("jars", "b", guard={"$or": [{"$expr": {"$gt": ["$beans", 5]}}]})], Conflict),
    "a delete": ([Step("jars", "b", guard={"beans": 77}, delete=True, refused=TooLittle)], TooLittle),
    "a delete of what is not there": ([Step("jars", "nowhere", delete=True)], Conflict),
    "a write that cannot be encoded": ([Step("notes", "huge", insert={"number": 2**70})], OverflowError),
    "a document that is too large": ([Step("notes", "huge", insert={"text": "x" * 2**24})], WriteRefused),
    "an id that no upsert may have": ([Step("jars", [1])], Conflict),
}


def prepared_for_refusals(db: Db) -> list[dict[str, Any]]:
    """Make a note, and names that are unique and that a validator checks; return all documents."""
    rules = {"$jsonSchema": {"required": ["name"], "properties": {"size": {"maximum": 9}}}}
    db.create_collection("names", validator=rules)
    db.names.create_index("name", unique=True)
    db.names.insert_many([{"_id": 0, "name": "x"}, {"_id": 1, "name": "y"}])
    db.notes.insert_one({"_id": "old"})
    return stored(db)


def stored(db: Db) -> list[dict[str, Any]]:
    return [*db.names.find().sort("_id"), *db.jars.find({"_id": {"$nin": ["a", "c", "d"]}}).sort("_id")]


@pytest.mark.parametrize("place", [0, 1, 2], ids=["leader", "between", "last"])
@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_run_leaves_its_group_and_the_others_go_on(
    jars: Db, mongod: Embedded, one_slot: None, name: str, place: int
) -> None:
    """The others share one transaction all the same."""
    before = prepared_for_refusals(jars)
    plan, error = REFUSED[name]
    plans = [move("a", "c", 1, "n1"), move("a", "d", 2, "n2")]
    plans.insert(place, plan)
    outcomes, commands = grouped(mongod, jars, runs(*plans))
    assert isinstance(outcomes.pop(place), error)
    assert len({outcome.id for outcome in outcomes}) == 2
    assert commands.count("commitTransaction") == 1
    assert stored(jars) == before
    assert {note["_id"] for note in jars.notes.find()} == {"old", "n1", "n2"}
    assert beans(jars) == {"a": 97, "b": 0, "c": 1, "d": 2}


@pytest.mark.parametrize("place", [0, 1, 2], ids=["leader", "between", "last"])
@pytest.mark.parametrize("name", OLD_WAY)
def test_a_refused_run_that_the_reply_does_not_name_refuses_only_itself(
    jars: Db, mongod: Embedded, one_slot: None, name: str, place: int
) -> None:
    before = prepared_for_refusals(jars)
    plan, error = OLD_WAY[name]
    plans = [move("a", "c", 1, "n1"), move("a", "d", 2, "n2")]
    plans.insert(place, plan)
    outcomes, _ = grouped(mongod, jars, runs(*plans))
    assert isinstance(outcomes.pop(place), error)
    assert len({outcome.id for outcome in outcomes}) == 2
    assert stored(jars) == before
    assert beans(jars) == {"a": 97, "b": 0, "c": 1, "d": 2}


def test_each_run_gets_its_own_error_if_all_are_refused(jars: Db, mongod: Embedded, one_slot: None) -> None:
    before = prepared_for_refusals(jars)
    outcomes, commands = grouped(mongod, jars, runs(*[plan for plan, _ in REFUSED.values()]))
    for outcome, (_, error) in zip(outcomes, REFUSED.values(), strict=True):
        assert isinstance(outcome, error)
    assert commands.count("commitTransaction") == 0
    assert stored(jars) == before
    assert beans(jars)["a"] == FULL


def test_a_run_that_depends_on_a_refused_one_is_refused_too(jars: Db, mongod: Embedded, one_slot: None) -> None:
    plans = [move("a", "b", 40, "n0"), move("a", "c", 70, "n1"), move("a", "d", 50, "n2"), move("d", "c", 51, "n3")]
    outcomes, _ = grouped(mongod, jars, runs(*plans))
    assert [isinstance(outcome, TooLittle) for outcome in outcomes] == [False, True, False, True]
    assert beans(jars) == {"a": 10, "b": 40, "c": 0, "d": 50}
    assert sorted(note["_id"] for note in jars.notes.find()) == ["n0", "n2"]


def test_a_step_that_changes_nothing_is_a_write_in_a_group(jars: Db, mongod: Embedded, one_slot: None) -> None:
    """Beside one that changes something, and one that only checks."""
    jars.jars.update_many({}, {"$set": {"kind": "jar"}})
    same = [Step("jars", "b", guard={"beans": 0}, update={"$set": {"kind": "jar"}})]
    plans = [same, move("b", "a", 1), fill("c"), [Step("jars", "d")], fill("nowhere")]
    outcomes, commands = grouped(mongod, jars, runs(*plans))
    assert [type(outcome) for outcome in outcomes] == [Outcome, TooLittle, Outcome, Outcome, Conflict]
    assert {jar["_id"] for jar in jars.jars.find({CHECKS_FIELD: {"$gte": 1}})} >= {"b", "d"}
    assert commands.count("commitTransaction") == 1
    assert jars.jars.count_documents({}) == 4


def test_a_duplicate_id_within_a_group_refuses_the_later_run(jars: Db, mongod: Embedded, one_slot: None) -> None:
    outcomes, commands = grouped(mongod, jars, runs(move("a", "b", 1, "same"), move("a", "c", 1, "same")))
    assert [type(outcome) for outcome in outcomes] == [Outcome, AlreadyExists]
    assert commands.count("commitTransaction") == 1
    assert beans(jars)["a"] == 99


def test_a_key_that_is_twice_in_a_group_is_used_once(jars: Db, mongod: Embedded, one_slot: None) -> None:
    same, other = {"key": "k", "arguments": {}}, {"key": "other", "arguments": {}}
    works = [
        *runs(Plan(move("a", "b", 1), "x"), Plan(move("a", "b", 1), "x"), **same),
        *runs(move("a", "c", 1), **other),
    ]
    outcomes, commands = grouped(mongod, jars, works)
    assert [outcome.replayed for outcome in outcomes] == [False, True, False]
    assert [outcome.result for outcome in outcomes] == ["x", "x", None]
    assert commands.count("commitTransaction") == 1
    assert beans(jars) == {"a": 98, "b": 1, "c": 1, "d": 0}
    assert jars["squinney.keys"].count_documents({}) == 2


def test_a_key_that_was_used_before_costs_only_its_own_run(jars: Db, mongod: Embedded, one_slot: None) -> None:
    """Whether its arguments are the same or others, and whether its run leads the group."""
    first = runs(Plan(move("a", "b", 1), (1, 2)), key="k", arguments={"beans": 1})[0](jars)
    again, reused = (runs(move("a", "b", n), key="k", arguments={"beans": n})[0] for n in (1, 2))
    works = [again, *runs(move("a", "c", 1)), reused, *runs(move("a", "d", 1), key="new", arguments={})]
    outcomes, commands = grouped(mongod, jars, works)
    assert outcomes[0] == Outcome(first.id, [1, 2], replayed=True)
    assert isinstance(outcomes[2], KeyReused)
    assert [outcome.replayed for outcome in (outcomes[1], outcomes[3])] == [False, False]
    assert commands.count("commitTransaction") == 1
    assert beans(jars) == {"a": 97, "b": 1, "c": 1, "d": 1}


def test_keys_are_recorded_with_their_group(jars: Db, mongod: Embedded, one_slot: None) -> None:
    works = [work for key in "xyz" for work in runs(move("a", "b", 1), key=key, arguments={})]
    outcomes, commands = grouped(mongod, jars, works)
    assert commands == ["update", "update", "commitTransaction"]
    repeats = [work(jars) for work in works]
    assert [repeat.id for repeat in repeats] == [outcome.id for outcome in outcomes]
    assert beans(jars)["b"] == 3


def test_a_result_too_large_for_its_record_refuses_only_its_run(jars: Db, mongod: Embedded, one_slot: None) -> None:
    large = runs(Plan(move("a", "d", 1), "x" * 2**24), key="k", arguments={})
    outcomes, _ = grouped(mongod, jars, [*runs(move("a", "b", 1)), *large, *runs(move("a", "c", 1))])
    assert [type(outcome) for outcome in outcomes] == [Outcome, WriteRefused, Outcome]
    assert beans(jars) == {"a": 98, "b": 1, "c": 1, "d": 0}


# ---- conflicts, time and death ----


def test_a_group_that_conflicts_with_another_process_is_retried(
    own_db: Db, own_mongod: Embedded, one_slot: None, failing: Any
) -> None:
    filled(own_db)
    met = {"errorCode": 112, "errorLabels": ["TransientTransactionError"]}
    meeting = failing(["commitTransaction"], mode={"skip": 1}, **met)
    with meeting, one_under_way(own_mongod, own_db, WAIT) as (held, _, add):
        added = [add(work) for work in runs(*[move("a", "b", 1)] * 5)]
        held.awake.set()
        while held.names.count("commitTransaction") < 4:
            time.sleep(0.01)
        assert not any(one.done() for one in added)
        own_mongod_recovers(own_db)
        assert all(one.result(120).id for one in added)
    assert beans(own_db)["b"] == 5


def own_mongod_recovers(db: Db) -> None:
    db.client.admin.command({"configureFailPoint": "failCommand", "mode": "off"})


def test_a_thread_that_has_waited_for_long_goes_ahead(
    jars: Db, mongod: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waited for a document, or for others to join."""
    monkeypatch.setattr(group_commit, "MAX_WAIT_SECONDS", 0.01)
    monkeypatch.setattr(group_commit, "COMPANY_SECONDS", 100)
    monkeypatch.setattr(group_commit, "SHARE_FOR_WAITING", 1)
    with one_under_way(mongod, jars, runs(move("a", "b", 1))[0]) as (_, leader, add):
        assert add(runs(move("a", "c", 1), timeout_seconds=20)[0]).result(120).id
        assert not leader.done()
    assert leader.result().id
    assert beans(jars) == {"a": 98, "b": 1, "c": 1, "d": 0}


def test_a_run_that_runs_out_of_time_in_the_queue_is_busy(jars: Db, mongod: Embedded) -> None:
    """Nothing was written: another run has locked the document on the server."""
    with one_under_way(mongod, jars, runs(move("a", "b", 1, "n"))[0], at_write=2) as (_, leader, add):
        refused = add(runs(move("a", "c", 1), timeout_seconds=3)[0]).result(120)
        assert isinstance(refused, Busy)
        assert not leader.done()
    assert beans(jars) == {"a": 99, "b": 1, "c": 0, "d": 0}


def test_a_run_with_little_time_goes_alone(
    jars: Db, mongod: Embedded, one_slot: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group has the time limit of its most urgent run."""
    monkeypatch.setattr(group_commit, "MIN_SECONDS", 20)
    hasty = runs(move("a", "b", 1), timeout_seconds=15)
    outcomes, commands = grouped(mongod, jars, [*runs(*[move("a", "b", 1)] * 2), *hasty, *hasty])
    assert all(outcome.id for outcome in outcomes)
    assert commands.count("commitTransaction") == 3


def test_a_group_has_the_time_limit_of_its_most_urgent_run(
    own_db: Db, own_mongod: Embedded, one_slot: None, failing: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader has a minute, but notifies the other run before its time is over."""
    monkeypatch.setattr(group_commit, "MIN_SECONDS", 0)
    filled(own_db)
    slow = failing(["commitTransaction"], mode={"skip": 1}, blockConnection=True, blockTimeMS=1_500)
    works = [*runs(move("a", "b", 1), timeout_seconds=60), *runs(move("a", "c", 1), timeout_seconds=1)]
    with slow:
        outcomes, _ = grouped(own_mongod, own_db, works)
    assert [(type(outcome), outcome.outcome_unknown) for outcome in outcomes] == [(Unavailable, True)] * 2


@pytest.mark.parametrize("name", ["_send_batched", "_commit"])
def test_a_leader_that_dies_notifies_its_group(
    jars: Db, mongod: Embedded, one_slot: None, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Before the commit was sent the other runs are retried; after that their outcome is unknown."""
    module = commits if name == "_send_batched" else attempts
    real, called = getattr(module, name), []

    def interrupted(*arguments: Any) -> None:
        called.append(threading.current_thread())
        if len(called) == 2:  # the first is the one before the group
            raise KeyboardInterrupt
        real(*arguments)

    monkeypatch.setattr(module, name, interrupted)
    with one_under_way(mongod, jars, WAIT) as (held, _, add):
        leader, *others = [add(work) for work in runs(*[move("a", "b", 1)] * 3)]
        held.awake.set()
        with pytest.raises(KeyboardInterrupt):
            leader.result(120)
        outcomes = [other.result(120) for other in others]
    if name == "_send_batched":
        assert all(outcome.id for outcome in outcomes)
        assert beans(jars)["b"] == 2
    else:
        assert all(isinstance(outcome, Unavailable) and outcome.outcome_unknown for outcome in outcomes)


def test_a_lost_reply_to_the_commit_is_settled_by_repeats(
    jars: Db, mongod: Embedded, one_slot: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit happened, but got no reply: every run has an unknown outcome, and repeats with the keys return it."""
    monkeypatch.setattr(group_commit, "MIN_SECONDS", 0)
    app = f"losing-{secrets.token_hex(6)}"
    held = Held(1)
    commits: list[int] = []

    class LoseSecondCommit(Stall):
        def __init__(self, proxy: Proxy) -> None:
            super().__init__(0)
            self._proxy = proxy

        def started(self, event: CommandStartedEvent) -> None:
            if event.command_name == "commitTransaction":
                commits.append(event.request_id)
                if len(commits) == 2:
                    self._proxy.drop_reply_to = commits[1]

    works = [runs(move("a", "b", 1), key=key, arguments={}, timeout_seconds=2)[0] for key in "xyz"]
    with (
        proxy_to(mongod.socket) as proxy,
        client_for(proxy.uri, event_listeners=[held, LoseSecondCommit(proxy)], appname=app) as client,
        ThreadPoolExecutor(4) as pool,
    ):
        ours = client[jars.name]
        first = pool.submit(WAIT, ours)
        assert held.asleep.wait(120)
        added = [pool.submit(outcome_of, lambda work=work: work(ours)) for work in works]
        queue = group_commit.pending_runs_of(ours)
        while len(queue._waiting) < 3:
            time.sleep(0.001)
        held.awake.set()
        assert first.result(120).id
        lost = [one.result(120) for one in added]
    abort_open_transactions(jars, app)
    assert [(type(one), one.outcome_unknown) for one in lost] == [(Unavailable, True)] * 3
    repeats = [work(jars) for work in works]
    assert [repeat.replayed for repeat in repeats] == [True] * 3
    assert beans(jars)["b"] == 3


def test_a_forked_child_starts_with_an_empty_queue(jars: Db, mongod: Embedded) -> None:
    """A thread of the parent may have held the queue's lock during the fork; it does not exist in the child."""
    with one_under_way(mongod, jars, WAIT) as (_, _, _):
        queue = group_commit.pending_runs_of(jars)
        with queue._lock:
            child = os.fork()
            if not child:
                os._exit(0 if group_commit.pending_runs_of(jars)._lock.acquire(timeout=5) else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# ---- many at once ----


@pytest.mark.parametrize("most", [9, 40], ids=["few refusals", "many refusals"])
def test_many_threads_over_few_documents_lose_nothing(jars: Db, most: int) -> None:
    """Each acknowledged move happened once, no other did, and each key has one outcome; some threads share theirs."""
    each = a_tenth_of(100)

    def work(thread: int) -> list[tuple[str, Any]]:
        done = []
        for number in range(each):
            note = f"{thread // 2 if thread < 8 else thread}-{number}"
            chance = Random(note)
            source, target = chance.sample("abcd", 2)
            plan = Plan(move(source, target, chance.randint(1, most), note), result=note)
            run = Transactions(jars).run
            done.append((note, outcome_of(partial(run, "move", plan, key=note, arguments={}))))
        return done

    outcomes = [pair for done in at_once(32, work) for pair in done]
    succeeded = [(note, outcome) for note, outcome in outcomes if not isinstance(outcome, Exception)]
    assert {type(outcome) for _, outcome in outcomes if isinstance(outcome, Exception)} <= {TooLittle}
    assert {note["_id"] for note in jars.notes.find()} == {note for note, _ in succeeded}
    assert all(outcome.result == note for note, outcome in succeeded)
    assert len([note for note, outcome in succeeded if not outcome.replayed]) == len(dict(succeeded))
    assert len({(note, outcome.id) for note, outcome in succeeded}) == len(dict(succeeded))
    assert beans(jars) == by_notes(jars)
    assert min(beans(jars).values()) >= 0


CHILD = """
import sys, threading
from random import Random
from squinney.mongo.connect import client_for
from squinney.mongo.deadlines import operation
from squinney.transactions import Transactions
from tests.patterns.jars import move
uri, name, app = sys.argv[1:]
db = client_for(uri, appname=app)[name]
def work(thread):
    chance = Random(thread)
    for number in range(1_000):
        source, target = chance.sample("abcd", 2)
        try:
            Transactions(db).run("move", move(source, target, chance.randint(1, 9), f"{thread}-{number}"))
        except Exception as error:
            if type(error).__name__ != "TooLittle":
                raise
        if thread == number == 1:
            print("going", flush=True)
for thread in range(12):
    threading.Thread(target=work, args=(thread,)).start()
"""


def test_a_killed_process_leaves_only_complete_runs(jars: Db, mongod: Embedded) -> None:
    app = f"killed-{secrets.token_hex(6)}"
    command = [sys.executable, "-c", CHILD, mongod.uri, jars.name, app]
    child = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"going\n"
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    abort_open_transactions(jars, app)
    Transactions(jars).run("look", [Step("jars", name) for name in "abcd"])  # when all it sent is over
    assert jars.notes.count_documents({})
    assert beans(jars) == by_notes(jars)
