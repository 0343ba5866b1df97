"""Sequences return no number twice."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor, wait
from threading import Barrier

import pytest
from pymongo import MongoClient
from pymongo.monitoring import CommandListener
from tests.patterns.interrupt import stalled_client

from squinney.errors import Invalid
from squinney.patterns.sequences import COLLECTIONS, Sequences


def test_numbers_begin_at_one_and_follow_each_other(db):
    sequences = Sequences(db, batch=3)
    assert [sequences.next("orders") for _ in range(8)] == list(range(1, 9))
    assert sequences.next("invoices") == 1


def test_a_batch_is_one_write(db):
    sequences = Sequences(db, batch=10)
    for _ in range(10):
        sequences.next("orders")
    assert db["squinney.sequences"].find_one({"_id": "orders"}) == {"_id": "orders", "last": 10}
    assert sequences.next("orders") == 11
    assert db["squinney.sequences"].find_one({"_id": "orders"})["last"] == 20


def test_a_new_process_leaves_a_gap_and_repeats_nothing(db):
    assert Sequences(db, batch=10).next("orders") == 1
    assert Sequences(db, batch=10).next("orders") == 11


def test_a_row_of_numbers_belongs_to_its_taker(db):
    sequences = Sequences(db, batch=10)
    assert sequences.next("orders") == 1
    assert sequences.take("orders", 5) == range(11, 16)
    assert sequences.next("orders") == 2
    assert Sequences(db).next("orders") == 16


@pytest.mark.parametrize("batch", [1, 7])
def test_threads_and_instances_never_share_a_number(db, batch):
    instances = [Sequences(db, batch=batch) for _ in range(4)]
    barrier = Barrier(16)

    def take(worker):
        barrier.wait()  # the first call of all is the race to create the counter
        return [instances[worker % 4].next("race") for _ in range(50)]

    with ThreadPoolExecutor(16) as pool:
        numbers = [number for some in pool.map(take, range(16)) for number in some]
    assert len(set(numbers)) == 16 * 50
    assert max(numbers) <= 16 * 50 + 4 * batch


def test_threads_without_numbers_reserve_one_batch(db, mongod):
    with stalled_client(mongod, db, at_write=1) as (slow, stall), ThreadPoolExecutor(2) as pool:
        sequences = Sequences(slow, batch=10)
        first = pool.submit(sequences.next, "orders")
        assert stall.asleep.wait(120)
        second = pool.submit(sequences.next, "orders")
        wait([second], timeout=0.3)  # it must not come back: it waits for the first one's batch
        stall.awake.set()
        assert {first.result(), second.result()} == {1, 2}
    assert db["squinney.sequences"].find_one()["last"] == 10


def test_two_processes_that_create_a_sequence_concurrently_both_get_numbers(own_db, failing):
    with failing(["findAndModify"], mode={"times": 1}, errorCode=11001):  # as the server answers the second of them
        assert Sequences(own_db).take("orders", 2) == range(1, 3)


def test_a_number_is_returned_when_a_majority_has_stored_the_counter(db, mongod):
    seen = []

    class Listener(CommandListener):
        def started(self, event):
            seen.append((event.command_name, event.command.get("writeConcern")))

        def succeeded(self, event): ...

        def failed(self, event): ...

    with MongoClient(mongod.uri, w=1, event_listeners=[Listener()]) as client:
        Sequences(client[db.name]).next("orders")
    assert [concern["w"] for name, concern in seen if name == "findAndModify"] == ["majority"]


@pytest.mark.filterwarnings("ignore:.*fork:")
def test_a_forked_child_leaves_the_waiting_numbers_to_its_parent(db, monkeypatch):
    sequences = Sequences(db, batch=10)
    assert sequences.next("orders") == 1
    parent = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: parent + 1)  # what a child of fork() would see, with its copy
    assert sequences.next("orders") == 11


@pytest.mark.parametrize(("name", "count"), [("", 1), ("a\0", 1), ("x" * 201, 1), ({"$gt": ""}, 1), (None, 1),
                                             ("a", 0), ("a", -1), ("a", 10**7), ("a", 1.5), ("a", True)])  # fmt: skip
def test_bad_input_is_refused(db, name, count):
    with pytest.raises(Invalid):
        Sequences(db).take(name, count)
    assert db["squinney.sequences"].find_one() is None


def test_the_collection_is_declared():
    assert [collection.name for collection in COLLECTIONS] == ["squinney.sequences"]
