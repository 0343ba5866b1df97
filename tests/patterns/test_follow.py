"""Followers miss no change, and repeat only those that the contract allows."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from pymongo import MongoClient
from tests.sizes import IN_FULL, heavy

from squinney import transactions
from squinney.errors import Conflict
from squinney.mongo import schema
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db
from squinney.mongo.server_time import server_now
from squinney.patterns import follow
from squinney.patterns.follow import Change, Feed, Follower, Source
from squinney.transactions import Step, Transactions

NOTES = Source("notes", since="at")
BATCH = 10


@pytest.fixture
def ready(db: Db) -> Db:
    schema.apply(db, [*follow.COLLECTIONS, schema.Collection("notes", indexes=[schema.Index([("at", 1)])])])
    return db


@contextmanager
def following(follower: Follower, read: Callable[[Change], object]) -> Iterator[None]:
    stop = threading.Event()
    follower.begin()
    thread = threading.Thread(target=follower.follow, args=(read,), kwargs={"stop": stop})
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def wait_for(condition: Callable[[], Any], seconds: float = 120) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.01)


def note(db: Db, number: int) -> None:
    db["notes"].insert_one({"_id": number, "at": server_now(db)})


@pytest.mark.parametrize("polling", [False, True])
def test_changes_come_in_order(ready: Db, polling: bool) -> None:
    seen: list[Change] = []
    with following(Follower(ready, "f", [NOTES], polling=polling, poll_seconds=0.05), seen.append):
        for number in range(30):
            note(ready, number)
        wait_for(lambda: len(seen) >= 30)
    assert [change.document_id for change in seen] == list(range(30))
    assert {change.kind for change in seen} == {"seen" if polling else "insert"}


@pytest.mark.parametrize("polling", [False, True])
@pytest.mark.parametrize("name", ["f", None])
def test_what_changes_between_the_beginning_and_the_first_look_is_seen(
    ready: Db, name: str | None, polling: bool
) -> None:
    follower = Follower(ready, name, [NOTES], polling=polling, poll_seconds=0.05)
    follower.begin()
    for number in range(3):  # a stream that begins only now would still have the last of them
        note(ready, number)
    seen: list[Change] = []
    with following(follower, seen.append):
        wait_for(lambda: {change.document_id for change in seen} >= {2})
    assert [change.document_id for change in seen] == [0, 1, 2]


def test_a_stream_looked_at_now_and_then_gives_all_that_came_meanwhile(ready: Db) -> None:
    seen: list[Change] = []
    follower = Follower(ready, "f", [NOTES], look_up=False, read_every_seconds=3600)
    follower.begin()
    with ready.client.start_session() as session, session.start_transaction():
        ready["notes"].insert_many([{"_id": number} for number in range(30)], session=session)
    with following(follower, seen.append):
        wait_for(lambda: len(seen) >= 30)
        time.sleep(3)  # its look ends; the next one is an hour away
        note(ready, 30)
        time.sleep(0.1)
    assert [(change.kind, change.document_id, change.document) for change in seen] == [
        ("insert", number, None) for number in range(30)
    ]


def test_updates_and_deletes_come_with_what_is_there_now(ready: Db) -> None:
    seen: list[Change] = []
    with following(Follower(ready, "f", ["notes"]), seen.append):
        note(ready, 1)
        ready["notes"].update_one({"_id": 1}, {"$set": {"text": "a"}})
        ready["notes"].delete_one({"_id": 1})
        ready["others"].insert_one({})
        wait_for(lambda: len(seen) >= 3)
    assert [change.kind for change in seen] == ["insert", "update", "delete"]


@pytest.mark.parametrize("polling", [False, True])
def test_what_a_run_inserts_comes_when_it_is_committed(ready: Db, polling: bool) -> None:
    schema.apply(ready, transactions.COLLECTIONS)
    seen: list[Change] = []
    run = Transactions(ready).run
    with following(Follower(ready, "f", [NOTES], polling=polling, poll_seconds=0.02), seen.append):
        with pytest.raises(Conflict):
            run("write", [Step("notes", "refused", insert={"at": server_now(ready)}), Step("notes", "nowhere")])
        run("write", [Step("notes", 1, insert={"at": server_now(ready)})])
        note(ready, 2)
        wait_for(lambda: any(change.document_id == 2 for change in seen))
    assert [change.document_id for change in seen] == [1, 2]


@pytest.mark.parametrize("polling", [False, True])
def test_a_named_follower_goes_on_where_it_was(ready: Db, polling: bool) -> None:
    seen: list[Any] = []
    options: dict[str, Any] = {"polling": polling, "poll_seconds": 0.02, "overlap_seconds": 0.5}
    with following(Follower(ready, "f", [NOTES], **options), lambda change: seen.append(change.document_id)):
        note(ready, 1)
        wait_for(lambda: seen)
        time.sleep(3)  # by polling, what lies behind the overlap is not seen again
    note(ready, 2)
    with following(Follower(ready, "f", [NOTES], **options), lambda change: seen.append(change.document_id)):
        wait_for(lambda: 2 in seen)
    assert seen == [1, 2]


def test_a_client_with_naive_times_works(ready: Db, mongod: Embedded) -> None:
    """A plain client reads naive times."""
    seen: list[Any] = []
    with MongoClient[Any](mongod.uri) as client:
        for number in (1, 2):
            follower = Follower(client[ready.name], "f", [NOTES], polling=True, poll_seconds=0.02)
            with following(follower, lambda change: seen.append(change.document_id)):
                note(ready, number)
                wait_for(lambda wanted=number: wanted in seen)


def test_a_follower_that_polled_goes_on_by_change_stream(ready: Db) -> None:
    Follower(ready, "f", [NOTES], polling=True).begin()
    note(ready, 1)
    seen: list[Any] = []
    with following(Follower(ready, "f", [NOTES]), lambda change: seen.append(change.document_id)):
        note(ready, 2)
        wait_for(lambda: 2 in seen)
    assert seen == [1, 2]


def test_a_poller_that_dies_over_much_that_waited_repeats_at_most_a_batch(ready: Db) -> None:
    options: dict[str, Any] = {"polling": True, "batch": BATCH, "poll_seconds": 0.02, "overlap_seconds": 0.05}
    others = Source("others", since="at")
    Follower(ready, "f", [NOTES, others], **options).begin()
    for number in range(100):
        at = server_now(ready) + timedelta(milliseconds=number)
        ready["notes" if number % 2 else "others"].insert_one({"_id": number, "at": at})
    time.sleep(0.5)
    seen: list[Any] = []

    def die_at(number: int) -> Callable[[Change], None]:
        def read(change: Change) -> None:
            if len(seen) == number:
                raise RuntimeError("dead")
            seen.append(change.document_id)

        return read

    for number in (45, 90):
        with pytest.raises(RuntimeError):
            Follower(ready, "f", [NOTES, others], **options).follow(die_at(number), stop=threading.Event())
    with following(Follower(ready, "f", [NOTES, others], **options), die_at(-1)):
        wait_for(lambda: len(set(seen)) == 100)
    assert len(seen) <= 100 + 3 * BATCH


def test_polling_sees_what_became_visible_late_and_repeats_nothing(ready: Db) -> None:
    seen: list[Any] = []
    follower = Follower(ready, "f", [NOTES], polling=True, poll_seconds=0.02)
    with following(follower, lambda change: seen.append(change.document_id)):
        earlier = server_now(ready)
        time.sleep(0.05)
        note(ready, 2)
        wait_for(lambda: 2 in seen)
        ready["notes"].insert_one({"_id": 1, "at": earlier})
        wait_for(lambda: 1 in seen)
        time.sleep(0.1)
    assert seen == [2, 1]


def test_a_lost_position_is_reported_as_a_gap_and_following_continues(own_db: Db, failing: Any) -> None:
    Follower(own_db, "f", ["notes"]).begin()
    seen: list[Change] = []
    history_lost = failing(["aggregate"], mode={"times": 1}, errorCode=286)
    with history_lost, following(Follower(own_db, "f", ["notes"]), seen.append):
        wait_for(lambda: seen)
        note(own_db, 1)
        wait_for(lambda: len(seen) >= 2)
    assert [change.kind for change in seen] == ["gap", "insert"]


@pytest.mark.parametrize("command", ["getMore", "aggregate"])
@pytest.mark.parametrize("code", [175, 237])  # the query, or the cursor, was killed
def test_a_follower_goes_on_after_a_rollback_of_the_primary(
    own_db: Db, failing: Any, caplog: pytest.LogCaptureFixture, command: str, code: int
) -> None:
    """A rollback ends every query of the member. Without the label the driver does not open the stream again."""
    seen: list[Change] = []
    follower = Follower(own_db, "f", ["notes"], polling=False)
    follower.begin()
    note(own_db, 1)
    rollback = failing([command], mode={"times": 1}, errorCode=code, errorLabels=[])
    with rollback, following(follower, seen.append):
        wait_for(lambda: "the follower waits for MongoDB: OperationFailure" in caplog.text)
        note(own_db, 2)
        wait_for(lambda: len(seen) >= 2)
    assert [(change.kind, change.document_id) for change in seen] == [("insert", 1), ("insert", 2)]


@pytest.mark.parametrize("stopped", [False, True])
def test_the_position_is_saved_only_after_what_was_handed_out_is_settled(ready: Db, stopped: bool) -> None:
    """At a pause, and when the follower is stopped."""
    collected: list[Change] = []
    stop = threading.Event()

    def collect(change: Change) -> None:
        collected.append(change)
        if stopped:
            stop.set()

    def die() -> None:
        if collected:
            raise RuntimeError("dead")

    follower = Follower(ready, "f", ["notes"])
    follower.begin()
    note(ready, 1)
    with pytest.raises(RuntimeError):
        follower.follow(collect, stop=stop, settle=die)
    seen: list[Any] = []
    with following(Follower(ready, "f", ["notes"]), lambda change: seen.append(change.document_id)):
        note(ready, 2)
        wait_for(lambda: 2 in seen)
    assert seen == [1, 2]


def test_the_position_of_an_idle_stream_advances(ready: Db, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise it would drop out of the oplog while other collections are written to."""
    monkeypatch.setattr(follow.follower, "IDLE_SAVE_SECONDS", 0.01)

    def saved() -> Any:
        return ready["squinney.positions"].find_one({"_id": "f"})["position"]["token"]["_data"]  # type: ignore[index]

    seen: list[Change] = []
    with following(Follower(ready, "f", ["notes"]), seen.append):
        before = saved()
        ready["songs"].insert_one({"_id": 1})  # not followed
        wait_for(lambda: saved() > before)
    assert seen == []


def test_a_crash_between_the_gaps_of_two_collections_loses_neither(own_db: Db, failing: Any) -> None:
    Follower(own_db, "f", ["notes", "songs"]).begin()
    own_db["songs"].insert_one({"_id": 1})
    seen: list[Change] = []

    def die_at_the_second(change: Change) -> None:
        seen.append(change)
        if len(seen) == 2:
            raise RuntimeError("dead")

    with failing(["aggregate"], mode={"times": 1}, errorCode=286), pytest.raises(RuntimeError):
        Follower(own_db, "f", ["notes", "songs"], batch=1).follow(die_at_the_second, stop=threading.Event())
    assert [(change.kind, change.collection) for change in seen] == [("gap", "notes"), ("gap", "songs")]
    with following(Follower(own_db, "f", ["notes", "songs"]), seen.append):
        wait_for(lambda: len(seen) > 2)
    assert (seen[2].collection, seen[2].document_id) == ("songs", 1), "it goes on at the position it had before"


def test_where_there_are_no_change_streams_it_polls(own_db: Db, failing: Any) -> None:
    seen: list[Change] = []
    with (
        failing(["aggregate"], errorCode=40573),
        following(Follower(own_db, "f", [NOTES], poll_seconds=0.02), seen.append),
    ):
        note(own_db, 1)
        wait_for(lambda: seen)
    assert [change.kind for change in seen] == ["seen"]


def test_an_error_of_the_reader_ends_following_before_the_position_is_saved(ready: Db) -> None:
    follower = Follower(ready, "f", ["notes"])
    follower.begin()
    note(ready, 1)
    with pytest.raises(ZeroDivisionError):
        follower.follow(lambda change: 1 // 0, stop=threading.Event())
    seen: list[Any] = []
    with following(Follower(ready, "f", ["notes"]), lambda change: seen.append(change.document_id)):
        wait_for(lambda: seen)
    assert seen == [1]


NOTED = 600 if IN_FULL else 200
READER = """
import sys, threading
from squinney.mongo.connect import client_for
from squinney.patterns.follow import Follower
uri, name, batch = sys.argv[1:]
db = client_for(uri)[name]
follower = Follower(db, "killed", ["notes"], batch=int(batch))
follower.follow(lambda change: print(change.document_id, flush=True), stop=threading.Event())
"""


@heavy
def test_killed_again_and_again_it_misses_nothing_and_repeats_at_most_a_batch(ready: Db, mongod: Embedded) -> None:
    Follower(ready, "killed", ["notes"]).begin()
    writer_done = threading.Event()

    def write() -> None:
        for number in range(NOTED):
            ready["notes"].insert_one({"_id": number})
        writer_done.set()

    writer = threading.Thread(target=write)
    writer.start()
    lives: list[list[int]] = []
    chance = random.Random(3)
    while not (writer_done.is_set() and lives and lives[-1] and lives[-1][-1] == NOTED - 1):
        assert len(lives) < 60
        lives.append(_life(mongod.uri, ready.name, chance.randint(20, 120)))
    writer.join()
    seen = [number for life in lives for number in life]
    assert sorted(set(seen)) == list(range(NOTED))
    furthest = -1
    for life in lives:
        assert life == list(range(life[0], life[0] + len(life))), "in order, without holes"
        assert furthest - BATCH < life[0] <= furthest + 1
        furthest = max(furthest, life[-1])


def _life(uri: str, name: str, length: int) -> list[int]:
    """Return what a follower printed until it was killed near its `length`-th line, or had read everything."""
    process = subprocess.Popen([sys.executable, "-c", READER, uri, name, str(BATCH)], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    lines: list[int] = []
    for line in process.stdout:
        lines.append(int(line))
        if len(lines) == length or lines[-1] == NOTED - 1:
            os.kill(process.pid, signal.SIGKILL)
    process.wait()
    return lines


def feed_threads() -> int:
    return sum(thread.name == "squinney-feed" for thread in threading.enumerate())


def test_a_feed_serves_many_readers_with_one_thread(ready: Db) -> None:
    feed = Feed(ready, ["notes"])
    try:
        even = feed.read(lambda change: change.document_id % 2 == 0)
        all_of_them = [feed.read() for _ in range(20)]
        assert feed_threads() == 1
        for number in range(4):
            note(ready, number)
        assert [even.next(10).document_id for _ in range(2)] == [0, 2]  # type: ignore[union-attr]
        for reader in all_of_them:
            assert [reader.next(10).document_id for _ in range(4)] == [0, 1, 2, 3]  # type: ignore[union-attr]
        assert even.next(0.01) is None
    finally:
        feed.close()
    assert even.closed
    wait_for(lambda: feed_threads() == 0)


def test_a_slow_reader_gets_a_gap_and_does_not_delay_others(ready: Db) -> None:
    feed = Feed(ready, ["notes"])
    try:
        with feed.read(size=5) as slow, feed.read(size=100) as quick:
            for number in range(20):
                note(ready, number)
            assert [quick.next(10).document_id for _ in range(20)] == list(range(20))  # type: ignore[union-attr]
            kinds = [change.kind for change in slow.take_all()]
        assert kinds[0] == "gap"
        assert kinds.count("gap") == 1
        assert len(kinds) <= 5
    finally:
        feed.close()


def test_a_slow_reader_gets_a_gap_for_each_collection_of_which_it_lost_something(ready: Db) -> None:
    feed = Feed(ready, ["notes", "songs"])
    try:
        with feed.read(size=2) as slow, feed.read() as quick:
            ready["songs"].insert_one({"_id": 0})
            for number in range(3):
                note(ready, number)
            assert all(quick.next(10) for _ in range(4))
            gaps = {change.collection for change in slow.take_all() if change.kind == "gap"}
        assert gaps == {"notes", "songs"}
    finally:
        feed.close()


def test_a_reader_that_fails_ends_alone(ready: Db) -> None:
    feed = Feed(ready, ["notes"])
    try:
        bad, good = feed.read(lambda change: 1 / 0), feed.read()  # type: ignore[arg-type,return-value]
        note(ready, 1)
        assert good.next(10).document_id == 1  # type: ignore[union-attr]
        wait_for(lambda: bad.closed)  # either may be served first
        note(ready, 2)
        assert good.next(10).document_id == 2  # type: ignore[union-attr]
    finally:
        feed.close()
    assert feed.read().closed


def test_a_feed_that_failed_ends_its_readers_and_begins_anew_for_the_next(own_db: Db, failing: Any) -> None:
    feed = Feed(own_db, ["notes"], polling=False)
    try:
        reader = feed.read()
        with failing(["getMore"], errorCode=13):  # not authorised
            wait_for(lambda: reader.closed)
        with feed.read() as another:
            note(own_db, 1)
            assert another.next(10).document_id == 1  # type: ignore[union-attr]
    finally:
        feed.close()
