"""Task queues: each task is delivered at least once."""

from __future__ import annotations

import math
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from tests.patterns.interrupt import stalled_client
from tests.racing import at_once

from squinney import transactions
from squinney.errors import Conflict, Invalid, LimitReached, Unavailable
from squinney.mongo import schema
from squinney.mongo.connect import client_for
from squinney.mongo.deadlines import operation
from squinney.mongo.embedded import Embedded
from squinney.mongo.queries import stages
from squinney.mongo.schema import Db
from squinney.mongo.server_time import server_now
from squinney.patterns import queue
from squinney.patterns.queue import Queue, Task
from squinney.transactions import Step, Transactions


@pytest.fixture
def ready(db: Db) -> Db:
    schema.apply(db, [*queue.COLLECTIONS, *transactions.COLLECTIONS])
    return db


@pytest.fixture
def mail(ready: Db) -> Queue:
    return Queue(ready, "mail", backoff_seconds=0.02, max_tries=3)


def test_tasks_come_in_order_and_are_gone_when_done(mail: Queue) -> None:
    for number in range(3):
        mail.put({"n": number})
        time.sleep(0.002)  # tasks of one millisecond have no order
    taken = [mail.take() for _ in range(4)]
    assert [task["body"]["n"] for task in taken if task] == [0, 1, 2]
    assert taken[3] is None
    assert all(mail.done(task) for task in taken if task)
    assert mail.counts() == {"ready": 0, "dead": 0}


def test_many_takers_get_each_task_once(mail: Queue, ready: Db) -> None:
    for number in range(60):
        mail.put({"n": number})
    seen: Counter[int] = Counter()

    def work(_: int) -> Counter[str]:
        return Queue(ready, "mail").work(lambda task: seen.update([task["body"]["n"]]))

    with ThreadPoolExecutor(8) as pool:
        done = sum(pool.map(work, range(8)), Counter())
    assert done == {"done": 60}
    assert set(seen.values()) == {1}


def test_some_are_taken_in_order_and_are_gone_when_done(mail: Queue) -> None:
    for number in range(4):
        mail.put({"n": number}, key=str(number))
    some = mail.take_some(3)
    assert [task["body"]["n"] for task in some] == [0, 1, 2]
    assert [task["body"]["n"] for task in mail.take_some(3)] == [3]
    assert mail.take_some(3) == []
    mail.put({"n": 9}, key="1")
    assert mail.done_all(some) == 3
    assert [task["body"]["n"] for task in mail.take_some(3)] == [9], "it was put again while it was worked on"
    assert mail.done_all(some) == 0, "they are no longer this taker's"


def test_many_takers_of_some_get_each_task_once(mail: Queue, ready: Db) -> None:
    for number in range(60):
        mail.put({"n": number})
    taken = at_once(6, lambda _: Queue(ready, "mail").take_some(25))
    numbers = [task["body"]["n"] for some in taken for task in some]
    numbers += [task["body"]["n"] for task in mail.take_some(60)]
    assert sorted(numbers) == list(range(60))


def test_a_worker_gets_no_tasks_that_another_takes_first(mail: Queue, ready: Db, mongod: Embedded) -> None:
    mail.put({})
    with stalled_client(mongod, ready, at_write=1) as (slow, stall), ThreadPoolExecutor(1) as pool:
        late = pool.submit(Queue(slow, "mail").take_some, 5)
        stall.asleep.wait(120)
        taken = mail.take_some(5)
        stall.awake.set()
        assert late.result() == []
    assert mail.done_all(taken) == 1, "they are still the first taker's"


def test_one_of_some_that_kills_its_takers_dies_too(ready: Db) -> None:
    mail = Queue(ready, "mail", visibility_seconds=0.01, max_tries=2)
    mail.put({})
    while mail.counts()["dead"] == 0:
        mail.take_some(5)
        time.sleep(0.02)
    (dead,) = mail.dead().items
    assert (dead["tries"], dead["error"]) == (2, "it was taken and never finished")


def test_queues_do_not_see_each_other(mail: Queue, ready: Db) -> None:
    mail.put({}, key="k")
    other = Queue(ready, "other")
    assert other.take() is None
    other.put({}, key="k")
    assert mail.counts()["ready"] == other.counts()["ready"] == 1


def test_what_a_dead_worker_took_is_due_again(ready: Db) -> None:
    mail = Queue(ready, "mail", visibility_seconds=60)
    mail.put({"n": 1})
    lost = mail.take()
    assert lost
    assert mail.take() is None
    due_at = ready["squinney.tasks"].find_one({})["due_at"]
    assert timedelta(seconds=0) < due_at - server_now(ready) <= timedelta(seconds=60)
    ready["squinney.tasks"].update_one({}, {"$set": {"due_at": server_now(ready)}})  # a minute later
    again = mail.take()
    assert again
    assert again["tries"] == 2
    assert not mail.done(lost), "the first taker came too late"
    assert mail.done(again)


def test_extending_keeps_it_from_others(ready: Db) -> None:
    short = Queue(ready, "mail", visibility_seconds=0.1)
    short.put({})
    task = short.take()
    assert task
    assert short.extend(task, 30)
    time.sleep(0.15)
    assert short.take() is None


def test_failures_wait_longer_each_time_and_end_with_the_dead(mail: Queue) -> None:
    task_id = mail.put({"n": 1})

    def handle(task: Task) -> None:
        raise RuntimeError("no")

    counts: Counter[str] = Counter()
    while mail.counts()["ready"]:
        counts += mail.work(handle)
    assert counts == {"failed": 3}
    dead = mail.dead().items
    assert [task["_id"] for task in dead] == [task_id]
    assert dead[0]["error"] == "RuntimeError: no"
    assert mail.revive(task_id)
    assert mail.work(lambda task: None) == {"done": 1}


def test_a_task_that_kills_its_workers_becomes_a_dead_letter(ready: Db) -> None:
    deadly = Queue(ready, "mail", visibility_seconds=0.01, max_tries=2)
    task_id = deadly.put({})
    for _ in range(2):
        assert deadly.take()
        time.sleep(0.02)
    assert deadly.take() is None
    assert [task["_id"] for task in deadly.dead().items] == [task_id]
    assert deadly.drop(task_id)
    assert not deadly.drop(task_id)


def test_a_key_is_one_task_while_it_waits(mail: Queue) -> None:
    assert mail.put({"n": 1}, key="k") == mail.put({"n": 2}, key="k")
    assert mail.counts()["ready"] == 1
    task = mail.take()
    assert task
    assert task["body"] == {"n": 2}


def test_many_may_put_the_same_key_first(mail: Queue) -> None:
    for key in "abcdefghijklmnopqrst":
        ids = at_once(8, lambda number, key=key: mail.put({"n": number}, key=key))
        assert set(ids) == {f"mail/{key}"}
    assert mail.counts() == {"ready": 20, "dead": 0}


def test_put_again_while_it_is_worked_on_runs_it_once_more(mail: Queue) -> None:
    mail.put({"n": 1}, key="k")
    task = mail.take()
    assert task
    mail.put({"n": 2}, key="k")
    assert mail.take() is None, "one at a time"
    assert mail.done(task)
    again = mail.take()
    assert again
    assert (again["body"], again["tries"]) == ({"n": 2}, 1)
    assert mail.done(again)
    assert mail.counts()["ready"] == 0


def test_put_again_before_the_last_try_fails_keeps_it_alive(mail: Queue) -> None:
    mail.put({}, key="k")
    for _ in range(2):
        task = None
        while task is None:
            task = mail.take()
        mail.fail(task, "no")
    last = None
    while last is None:
        last = mail.take()
    mail.put({}, key="k")
    mail.fail(last, "no")
    assert mail.counts() == {"ready": 1, "dead": 0}


def test_put_again_before_the_last_taker_dies_keeps_it_alive(ready: Db) -> None:
    hasty = Queue(ready, "hasty", visibility_seconds=0.02, max_tries=1)
    hasty.put({"n": 1}, key="k")
    assert hasty.take()
    hasty.put({"n": 2}, key="k")
    time.sleep(0.05)
    task = hasty.take()
    assert task, "what was put is not given up for what was put before it"
    assert (task["body"], task["tries"]) == ({"n": 2}, 1)
    assert hasty.done(task)
    assert hasty.counts() == {"ready": 0, "dead": 0}, "and runs once"


def test_an_error_in_a_handler_fails_only_its_task(ready: Db) -> None:
    mail = Queue(ready, "mail", backoff_seconds=60)

    def handle(task: Task) -> None:
        raise ValueError(f"no file {chr(0xDC80)}")

    for number in range(2):
        mail.put({"n": number})
    assert mail.work(handle) == {"failed": 2}


def test_a_dead_key_lives_again_when_put(ready: Db) -> None:
    once = Queue(ready, "mail", max_tries=1)
    once.put({}, key="k")
    task = once.take()
    assert task
    once.fail(task, "no")
    assert once.counts() == {"ready": 0, "dead": 1}
    once.put({"n": 2}, key="k")
    again = once.take()
    assert again
    assert again["tries"] == 1


def test_a_delay_is_kept(mail: Queue) -> None:
    mail.put({}, delay_seconds=60)
    assert mail.take() is None


def test_a_step_puts_it_behind_what_waits_already(mail: Queue, ready: Db) -> None:
    first = mail.put({"n": 1})
    Transactions(ready).run("post", [mail.step({"n": 2})])
    last = mail.put({"n": 3})
    assert [task["_id"] in (first, last) for task in (mail.take(), mail.take(), mail.take()) if task] == [
        True,
        False,
        True,
    ]


def test_a_step_puts_it_exactly_when_the_operation_is_decided(mail: Queue, ready: Db) -> None:
    run = Transactions(ready).run
    run("post", [Step("posts", "p", insert={"_id": "p"}), mail.step({"post": "p"})])
    with pytest.raises(Conflict):
        run("post", [Step("posts", "p", insert={"_id": "p"}), mail.step({"post": "p"})])
    task = mail.take()
    assert task
    assert task["body"] == {"post": "p"}
    assert mail.take() is None
    assert mail.done(task)


def test_two_processes_that_put_a_new_key_concurrently_both_succeed(own_db: Db, failing: Any) -> None:
    schema.apply(own_db, queue.COLLECTIONS)
    with failing(["update"], mode={"times": 1}, errorCode=11001):  # as the server answers the second of them
        assert Queue(own_db, "mail").put({}, key="k") == "mail/k"


def test_only_the_dead_are_revived_or_dropped(mail: Queue) -> None:
    task_id = mail.put({})
    assert mail.take()
    assert not mail.revive(task_id), "a task that is handed out is not handed out again"
    assert not mail.drop(task_id)
    assert mail.take() is None
    assert mail.counts() == {"ready": 1, "dead": 0}


def test_bodies_are_checked_and_never_evaluated(mail: Queue) -> None:
    with pytest.raises(LimitReached):
        mail.put({"x": "y" * 1_000_001})
    deep: dict[str, Any] = {}
    for _ in range(10_000):
        deep = {"x": deep}
    for odd in ({"x": object()}, {"x": "\ud800"}, {"x": 2**64}, deep):
        with pytest.raises(Invalid):
            mail.put(odd)
    mail.put({"x": "$$NOW", "y": {"$add": [1, 2]}})
    task = mail.take()
    assert task
    assert task["body"] == {"x": "$$NOW", "y": {"$add": [1, 2]}}


@pytest.mark.parametrize("odd", [math.nan, math.inf, 1e300, -1, "1", True])
def test_spans_of_time_are_checked(mail: Queue, odd: Any) -> None:
    with pytest.raises(Invalid):
        mail.put({}, delay_seconds=odd)
    mail.put({})
    task = mail.take()
    assert task
    with pytest.raises(Invalid):
        mail.extend(task, odd)


def test_taking_reads_one_key_of_the_index(mail: Queue, ready: Db) -> None:
    for number in range(50):
        mail.put({"n": number})
    plan = ready.command(
        {
            "explain": {
                "findAndModify": queue.NAME,
                "query": queue.DUE(queue="mail"),
                "sort": dict(queue.DUE.sort),
                "update": {"$set": {"x": 1}},
            },
            "verbosity": "executionStats",
        }
    )
    assert not {"SORT", "COLLSCAN"} & stages(plan["queryPlanner"]["winningPlan"])
    assert plan["executionStats"]["totalDocsExamined"] == 1


def test_a_step_without_its_server_is_unavailable() -> None:
    with client_for("mongodb://127.0.0.1:1/?directConnection=true") as client:
        mail = Queue(client["nowhere"], "mail")
        with operation(0.2), pytest.raises(Unavailable):
            mail.step({})
