"""Group commit: waiting native runs share one transaction, with the same outcome as without."""

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
from random import Random
from typing import Any

import pytest
from pymongo.errors import PyMongoError
from pymongo.monitoring import CommandStartedEvent
from tests.patterns.interrupt import Stall
from tests.racing import at_once
from tests.sizes import a_tenth_of

from squinney import transactions
from squinney.errors import Conflict, SquinneyError, Unavailable
from squinney.mongo import schema
from squinney.mongo.connect import client_for, operation
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Collection, Db
from squinney.testing.commands import is_write
from squinney.testing.crash.proxy import Proxy
from squinney.testing.crash.sweep import abort_open_transactions
from squinney.transactions import Busy, Plan, Step, Transactions, WriteRefused, attempts, group_commit
from squinney.transactions import native as native_runs

JARS = Collection("jars", escrow={"beans": "floor"})
FULL = 100

Work = Callable[[Db], Any]


class TooLittle(Conflict):
    """The jar does not contain that many beans."""


@pytest.fixture
def jars(db: Db) -> Db:
    """Jars a to d; only a has beans."""
    return filled(db)


def filled(db: Db) -> Db:
    schema.apply(db, transactions.COLLECTIONS)
    db.jars.insert_many([{"_id": name, "beans": FULL if name == "a" else 0} for name in "abcd"])
    return db


def move(source: str, target: str, beans: int, note: Any = None) -> list[Step]:
    take = {"guard": {"beans": {"$gte": beans}}, "take": {"$inc": {"beans": -beans}}, "refused": TooLittle}
    steps = [
        Step(JARS, source, shared=True, **take),
        Step(JARS, target, give={"$inc": {"beans": beans}}, shared=True),
    ]
    return [*steps, Step("notes", note, insert={"from": source, "to": target, "beans": beans})] if note else steps


def runs(*steps: list[Step] | Plan, **options: Any) -> list[Work]:
    """A native run, with further arguments for `run` and `Transactions`."""
    asked = {name: options.pop(name) for name in ("key", "arguments") if name in options}
    return [lambda db, plan=plan: Transactions(db, "native", **options).run("move", plan, **asked) for plan in steps]


def beans(db: Db) -> dict[str, int]:
    return {jar["_id"]: jar["beans"] for jar in db.jars.find().sort("_id")}


def outcome_of(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except (SquinneyError, PyMongoError, OverflowError) as error:
        return error


class Held(Stall):
    """Blocks the n-th write, and records the names of it and of all later commands."""

    def __init__(self, at_write: int) -> None:
        super().__init__(at_write)
        self.names: list[str] = []

    def started(self, event: CommandStartedEvent) -> None:
        super().started(event)
        if self.awake.is_set() and is_write(event.command_name, event.command):
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
        assert held.asleep.wait(10)
        queue = group_commit.queue_of(ours)

        def add(work: Work) -> Future[Any]:
            waiting = len(queue._waiting)
            added = pool.submit(outcome_of, lambda: work(ours))
            until = time.monotonic() + 10
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
        return Step("turns", 1, guard={"turn": turn}, give={"$set": {"turn": turn + 1}})

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
            assert add(work).result(10).id
        waiting = add(runs(move("b", "c", 1))[0])
        assert not waiting.done()
    assert waiting.result().id


@contextmanager
def four_under_way(jars: Db) -> Iterator[tuple[Callable[[str], None], list[int]]]:
    """Put four runs in flight in two groups, with a free slot; yield a function that adds runs, and the group sizes."""
    queue, sent = group_commit.Queue(jars), []
    may_end = {name: threading.Event() for name in "abcd"}

    def send(group: Sequence[group_commit.Run], _: Any) -> None:
        sent.append(len(group))
        assert may_end[max(group[0].documents)[0]].wait(60)

    with ThreadPoolExecutor(10) as pool:

        def come(*documents: str) -> None:
            before = len(sent), len(queue._waiting)
            run = group_commit.Run(None, [], frozenset(documents))
            pool.submit(operation(60)(queue.commit), run, send)
            wait_for(lambda: (len(sent), len(queue._waiting)) != before)

        for documents in (["a"], ["b"], ["a", "c1"], ["a", "c2"], ["a", "c3"]):
            come(*documents)
        may_end["a"].set()
        wait_for(lambda: sent == [1, 1, 3])
        yield come, sent
        for event in may_end.values():
            event.set()


def wait_for(true: Callable[[], bool]) -> None:
    until = time.monotonic() + 10
    while not true():
        assert time.monotonic() < until
        time.sleep(0.001)


def test_while_many_are_in_flight_a_run_waits_until_as_many_wait(jars: Db, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise each run that arrives while others are in flight would be a separate transaction."""
    monkeypatch.setattr(group_commit, "COMPANY_SECONDS", 100)
    monkeypatch.setattr(group_commit, "LONGEST_WAIT_SECONDS", 100)
    with four_under_way(jars) as (come, sent):
        for name in ("d1", "d2", "d3"):
            come(name)
        assert sent == [1, 1, 3]
        come("d4")
        wait_for(lambda: sent == [1, 1, 3, 4])


def test_one_slow_group_does_not_delay_all_others(jars: Db, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "LONGEST_WAIT_SECONDS", 100)
    with four_under_way(jars) as (come, sent):
        come("d1")
        wait_for(lambda: sent == [1, 1, 3, 1])


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


@pytest.mark.parametrize(("limit", "most"), [("MOST_WRITES", 5), ("MOST_BYTES", 700)])
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


def test_a_refused_run_does_not_refuse_its_group(jars: Db, mongod: Embedded, one_slot: None) -> None:
    plans = [move("a", "b", 40, "n0"), move("a", "c", 70, "n1"), move("a", "d", 50, "n2"), move("d", "c", 51, "n3")]
    outcomes, _ = grouped(mongod, jars, runs(*plans))
    assert [isinstance(outcome, TooLittle) for outcome in outcomes] == [False, True, False, True]
    assert beans(jars) == {"a": 10, "b": 40, "c": 0, "d": 50}
    assert sorted(note["_id"] for note in jars.notes.find()) == ["n0", "n2"]


def test_runs_of_a_refused_group_are_retried_alone(jars: Db, mongod: Embedded, one_slot: None) -> None:
    """The group is split once into single runs, and not into ever smaller groups."""
    plans = [move("a", "b", 1), move("b", "c", 2), move("a", "b", 1), move("a", "b", 1)]
    outcomes, commands = grouped(mongod, jars, runs(*plans))
    assert [isinstance(outcome, TooLittle) for outcome in outcomes].count(True) <= 1
    assert commands.count("commitTransaction") == 4 - [isinstance(one, TooLittle) for one in outcomes].count(True)


def test_an_invalid_write_fails_only_its_own_run(jars: Db, mongod: Embedded, one_slot: None) -> None:
    """The server rejects it, or the driver cannot encode it, or its id is a duplicate."""
    jars.jars.insert_one({"_id": "odd", "beans": "many"})
    plans = [
        [Step("jars", "odd", give={"$inc": {"beans": 1}})],
        [Step("notes", "huge", insert={"number": 2**70})],
        move("a", "b", 1, "same"),
        move("a", "c", 1, "same"),
    ]
    huge_result = runs(Plan(move("a", "d", 1), result=2**70), key="k", arguments={})
    outcomes, _ = grouped(mongod, jars, [*runs(*plans), *huge_result])
    assert [type(outcomes[number]) for number in (0, 1, 4)] == [WriteRefused, OverflowError, OverflowError]
    assert sorted(type(outcome).__name__ for outcome in outcomes[2:4]) == ["AlreadyExists", "Outcome"]
    assert beans(jars)["a"] == 99


def test_a_key_that_is_twice_in_a_group_is_used_once(jars: Db, mongod: Embedded, one_slot: None) -> None:
    same, other = {"key": "k", "arguments": {}}, {"key": "other", "arguments": {}}
    works = [
        *runs(Plan(move("a", "b", 1), "x"), Plan(move("a", "b", 1), "x"), **same),
        *runs(move("a", "c", 1), **other),
    ]
    outcomes, _ = grouped(mongod, jars, works)
    assert sorted(outcome.replayed for outcome in outcomes) == [False, False, True]
    assert [outcome.result for outcome in outcomes] == ["x", "x", None]
    assert beans(jars) == {"a": 98, "b": 1, "c": 1, "d": 0}
    assert jars.transactions.count_documents({"state": "done"}) == 2


def test_keys_are_recorded_with_their_group(jars: Db, mongod: Embedded, one_slot: None) -> None:
    works = [work for key in "xyz" for work in runs(move("a", "b", 1), key=key, arguments={})]
    outcomes, commands = grouped(mongod, jars, works)
    assert commands == ["update", "update", "commitTransaction"]
    repeats = [work(jars) for work in works]
    assert [repeat.id for repeat in repeats] == [outcome.id for outcome in outcomes]
    assert beans(jars)["b"] == 3


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
        assert all(one.result(20).id for one in added)
    assert beans(own_db)["b"] == 5


def own_mongod_recovers(db: Db) -> None:
    db.client.admin.command({"configureFailPoint": "failCommand", "mode": "off"})


def test_a_thread_that_has_waited_for_long_goes_ahead(
    jars: Db, mongod: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waited for a document, or for others to join."""
    monkeypatch.setattr(group_commit, "LONGEST_WAIT_SECONDS", 0.01)
    monkeypatch.setattr(group_commit, "COMPANY_SECONDS", 100)
    with one_under_way(mongod, jars, runs(move("a", "b", 1))[0]) as (_, leader, add):
        assert add(runs(move("a", "c", 1))[0]).result(10).id
        assert not leader.done()
    assert leader.result().id
    assert beans(jars) == {"a": 98, "b": 1, "c": 1, "d": 0}


def test_a_run_that_runs_out_of_time_in_the_queue_is_busy(jars: Db, mongod: Embedded) -> None:
    """Nothing was written: another run has locked the document on the server."""
    with one_under_way(mongod, jars, runs(move("a", "b", 1, "n"))[0], at_write=2) as (_, leader, add):
        refused = add(runs(move("a", "c", 1), timeout_seconds=1)[0]).result(10)
        assert isinstance(refused, Busy)
        assert not leader.done()
    assert beans(jars) == {"a": 99, "b": 1, "c": 0, "d": 0}


def test_a_run_with_little_time_goes_alone(
    jars: Db, mongod: Embedded, one_slot: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group has the time limit of its most urgent run."""
    monkeypatch.setattr(group_commit, "LEAST_SECONDS", 20)
    hasty = runs(move("a", "b", 1), timeout_seconds=15)
    outcomes, commands = grouped(mongod, jars, [*runs(*[move("a", "b", 1)] * 2), *hasty, *hasty])
    assert all(outcome.id for outcome in outcomes)
    assert commands.count("commitTransaction") == 3


def test_a_group_has_the_time_limit_of_its_most_urgent_run(
    own_db: Db, own_mongod: Embedded, one_slot: None, failing: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader has a minute, but notifies the other run before its time is over."""
    monkeypatch.setattr(group_commit, "LEAST_SECONDS", 0)
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
    module = native_runs if name == "_send_batched" else attempts
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
            leader.result(20)
        outcomes = [other.result(20) for other in others]
    if name == "_send_batched":
        assert all(outcome.id for outcome in outcomes)
        assert beans(jars)["b"] == 2
    else:
        assert all(isinstance(outcome, Unavailable) and outcome.outcome_unknown for outcome in outcomes)


def test_a_lost_reply_to_the_commit_is_settled_by_repeats(
    jars: Db, mongod: Embedded, one_slot: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit happened, but got no reply: every run has an unknown outcome, and repeats with the keys return it."""
    monkeypatch.setattr(group_commit, "LEAST_SECONDS", 0)
    proxy = Proxy(str(mongod.socket))
    app = f"losing-{secrets.token_hex(6)}"
    held = Held(1)
    commits: list[int] = []

    class LoseSecondCommit(Stall):
        def started(self, event: CommandStartedEvent) -> None:
            if event.command_name == "commitTransaction":
                commits.append(event.request_id)
                proxy.drop_reply_to = commits[1] if len(commits) == 2 else proxy.drop_reply_to

    works = [runs(move("a", "b", 1), key=key, arguments={}, timeout_seconds=2)[0] for key in "xyz"]
    listeners = [held, LoseSecondCommit(0)]
    with client_for(proxy.uri, event_listeners=listeners, appname=app) as client, ThreadPoolExecutor(4) as pool:
        ours = client[jars.name]
        first = pool.submit(WAIT, ours)
        assert held.asleep.wait(10)
        added = [pool.submit(outcome_of, lambda work=work: work(ours)) for work in works]
        queue = group_commit.queue_of(ours)
        while len(queue._waiting) < 3:
            time.sleep(0.001)
        held.awake.set()
        assert first.result(10).id
        lost = [one.result(20) for one in added]
    proxy.close()
    abort_open_transactions(jars, app)
    assert [(type(one), one.outcome_unknown) for one in lost] == [(Unavailable, True)] * 3
    repeats = [work(jars) for work in works]
    assert [repeat.replayed for repeat in repeats] == [True] * 3
    assert beans(jars)["b"] == 3


def test_a_forked_child_starts_with_an_empty_queue(jars: Db, mongod: Embedded) -> None:
    """A thread of the parent may have held the queue's lock during the fork; it does not exist in the child."""
    with one_under_way(mongod, jars, WAIT) as (_, _, _):
        queue = group_commit.queue_of(jars)
        with queue._lock:
            child = os.fork()
            if not child:
                os._exit(0 if group_commit.queue_of(jars)._lock.acquire(timeout=5) else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# ---- many at once ----


def test_many_threads_over_few_documents_lose_nothing(jars: Db) -> None:
    """Every acknowledged move happened once, every other move did not, and every refusal was justified."""
    each = a_tenth_of(100)

    def work(thread: int) -> list[tuple[str, Any]]:
        chance = Random(thread)
        done = []
        for number in range(each):
            source, target = chance.sample("abcd", 2)
            note, amount = f"{thread}-{number}", chance.randint(1, 40)
            plan = move(source, target, amount, note)
            done.append((note, outcome_of(lambda plan=plan: Transactions(jars, "native").run("move", plan))))
        return done

    outcomes = [pair for done in at_once(32, work) for pair in done]
    succeeded = {note for note, outcome in outcomes if not isinstance(outcome, Exception)}
    assert {type(outcome) for _, outcome in outcomes if isinstance(outcome, Exception)} <= {TooLittle}
    assert {note["_id"] for note in jars.notes.find()} == succeeded
    assert beans(jars) == by_notes(jars)
    assert min(beans(jars).values()) >= 0
    assert succeeded


def by_notes(db: Db) -> dict[str, int]:
    """Return what the jars must contain according to the notes."""
    held = {name: FULL if name == "a" else 0 for name in "abcd"}
    for note in db.notes.find():
        held[note["from"]] -= note["beans"]
        held[note["to"]] += note["beans"]
    return held


CHILD = """
import sys, threading
from random import Random
from squinney.mongo.connect import client_for, operation
from squinney.transactions import Transactions
from tests.patterns.test_transactions_together import move
uri, name, app = sys.argv[1:]
db = client_for(uri, appname=app)[name]
def work(thread):
    chance = Random(thread)
    for number in range(1_000):
        source, target = chance.sample("abcd", 2)
        try:
            Transactions(db, "native").run("move", move(source, target, chance.randint(1, 9), f"{thread}-{number}"))
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
    Transactions(jars, "native").run("look", [Step("jars", name) for name in "abcd"])  # when all it sent is over
    assert jars.notes.count_documents({})
    assert beans(jars) == by_notes(jars)


# ---- the key's record ----


@pytest.mark.parametrize("mode", ["native", "two-phase"])
@pytest.mark.parametrize("code", [2, 96])  # BadValue, OperationFailed
def test_a_record_that_the_server_rejects_raises_write_refused(own_db: Db, failing: Any, mode: Any, code: int) -> None:
    filled(own_db)
    run = Transactions(own_db, mode).run
    refused = {"errorCode": code, "namespace": f"{own_db.name}.transactions"}
    with failing(["update", "findAndModify"], **refused), pytest.raises(WriteRefused, match="the key's record"):
        run("move", move("a", "b", 1), key="k", arguments={})
    assert beans(own_db)["b"] == 0
    assert not run("move", move("a", "b", 1), key="k", arguments={}).replayed
