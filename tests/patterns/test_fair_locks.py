"""Fair locks: threads take turns, and no thread waits too long."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import patch

import pytest

from squinney.mongo.deadlines import operation, seconds_left
from squinney.patterns import fair_locks
from squinney.patterns.fair_locks import FairLocks


def test_one_at_a_time_in_the_order_of_coming() -> None:
    line, done, inside = FairLocks(), [], threading.Semaphore(1)

    def visit(number: int) -> None:
        with line.hold("node"):
            assert inside.acquire(blocking=False)
            done.append(number)
            inside.release()

    with ThreadPoolExecutor(8) as pool, line.hold("node"):
        for number in range(8):
            pool.submit(visit, number)
            while len(line._waiting["node"]) < number + 2:
                time.sleep(0.001)
    assert done == list(range(8))
    assert line._waiting == {}


def test_nodes_do_not_wait_for_each_other() -> None:
    line = FairLocks()
    with line.hold("one"), line.hold("other"):
        assert set(line._waiting) == {"one", "other"}


def test_a_failure_passes_the_turn_on() -> None:
    line = FairLocks()
    for _ in range(2):
        with pytest.raises(KeyError), line.hold("node"):
            raise KeyError
    assert line._waiting == {}


def test_a_thread_that_has_waited_for_long_goes_ahead() -> None:
    line, went = FairLocks(), threading.Event()

    def visit() -> None:
        with line.hold("node"):
            went.set()

    with patch.object(fair_locks, "MAX_WAIT_SECONDS", 0.01), line.hold("node"):
        thread = threading.Thread(target=visit)
        thread.start()
        assert went.wait(120)
        thread.join()
    assert line._waiting == {}


def test_waiting_leaves_time_for_the_work() -> None:
    line, left = FairLocks(), []

    def visit() -> None:
        with operation(2), line.hold("node"):
            left.append(seconds_left())

    with line.hold("node"):
        thread = threading.Thread(target=visit)
        thread.start()
        thread.join()
    assert 0 < left[0] < 1.5


def test_a_lock_reports_whether_other_threads_have_it() -> None:
    line = FairLocks()
    with line.hold("node") as crowded:
        assert not crowded
        with patch.object(fair_locks, "MAX_WAIT_SECONDS", 0), line.hold("node") as crowded:
            assert crowded


def test_releasing_a_lock_notifies_the_next_thread() -> None:
    line, went = FairLocks(), threading.Event()

    def visit() -> None:
        with line.hold("node"):
            went.set()

    with patch.object(fair_locks, "MAX_WAIT_SECONDS", 15):
        with line.hold("node"):
            thread = threading.Thread(target=visit)
            thread.start()
            while len(line._waiting["node"]) < 2:
                time.sleep(0.001)
        assert went.wait(120)
        thread.join()
