"""No number is ever given twice."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

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
    assert db.sequences.find_one({"_id": "orders"}) == {"_id": "orders", "last": 10}
    assert sequences.next("orders") == 11
    assert db.sequences.find_one({"_id": "orders"})["last"] == 20


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
    assert db.sequences.find_one() is None


def test_the_collection_is_declared():
    assert [collection.name for collection in COLLECTIONS] == ["sequences"]
