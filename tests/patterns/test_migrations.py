"""Migrations upgrade a live collection with concurrent writers, however often the run is killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from threading import Event
from typing import Literal

import bson
import pytest
from bson.datetime_ms import DatetimeMS
from bson.objectid import ObjectId
from bson.raw_bson import RawBSONDocument

from squinney.errors import Unavailable
from squinney.mongo.connect import client_for
from squinney.mongo.deadlines import operation
from squinney.patterns.migrations import COLLECTIONS, Migration
from squinney.patterns.polymorphic import Document, Types, upgrades


class Thing(Document):
    pass


class Box(Thing):
    type: Literal["box"] = "box"
    schema_version: int = 3
    edits: int = 0
    label: str = "none"
    volume: int


@upgrades(Box, 1)
def measure(stored):
    stored["volume"] = stored.pop("side") ** 3
    return stored


THINGS = Types(Thing, Box)


def boxes(count):
    return [{"_id": n, "type": "box", "side": n, "edits": 0} for n in range(count)]


def assert_all_new(db, count):
    assert db.things.count_documents({"schema_version": 3}) == count
    assert all(box["volume"] == box["_id"] ** 3 and "side" not in box for box in db.things.find())


def test_old_documents_are_upgraded_and_new_ones_left(db):
    db.things.insert_many(boxes(25))
    db.things.insert_one({"_id": 25, "type": "box", "schema_version": 3, "volume": 25**3, "own": 1})
    seen = []
    progress = Migration(db.things, THINGS, batch=10).run(report=seen.append)
    assert_all_new(db, 26)
    assert (progress.scanned, progress.upgraded, progress.failed, progress.total) == (26, 25, 0, 26)
    assert [one.scanned for one in seen] == [10, 20, 26, 26]
    assert progress.finished_at is not None
    assert Migration(db.things, THINGS).progress() == progress
    assert db.things.find_one({"_id": 25}) == {"_id": 25, "type": "box", "schema_version": 3, "volume": 25**3, "own": 1}


def test_what_cannot_be_upgraded_is_reported_and_does_not_stop_the_rest(db):
    db.things.insert_many(boxes(10))
    db.things.update_one({"_id": 3}, {"$unset": {"side": 1}})
    db.things.update_one({"_id": 7}, {"$set": {"side": "wide"}})
    progress = Migration(db.things, THINGS, batch=4).run()
    assert (progress.upgraded, progress.failed) == (8, 2)
    assert [failure["id"] for failure in progress.failures] == [3, 7]
    assert "KeyError" in progress.failures[0]["reason"]
    assert db.things.find_one({"_id": 3}) == {"_id": 3, "type": "box", "edits": 0}


def test_what_python_has_no_value_for_stops_nothing(db):
    """The server stores the year 10000 and invalid UTF-8; the driver cannot read them."""
    db.things.insert_many(boxes(6))
    db.things.update_one({"_id": 2}, {"$set": {"label": DatetimeMS(253402300800000)}})
    broken = bson.encode({"_id": 4, "type": "box", "side": 4, "edits": 0, "own": "abc"}).replace(b"abc", b"a\xffc")
    db.things.delete_one({"_id": 4})
    db.things.insert_one(RawBSONDocument(broken))
    progress = Migration(db.things, THINGS, batch=4).run()
    assert progress.finished_at is not None
    assert {failure["id"] for failure in progress.failures} == {2, 4}
    assert progress.upgraded == 4


def test_what_the_server_refuses_is_reported_too(db):
    db.things.insert_many(boxes(4))
    db.things.create_index("volume", unique=True, partialFilterExpression={"volume": {"$exists": True}})
    db.things.insert_one({"_id": "in the way", "type": "other", "volume": 8})
    progress = Migration(db.things, THINGS).run()
    assert [failure["id"] for failure in progress.failures] == [2]
    assert "E11000" in progress.failures[0]["reason"]
    assert progress.upgraded == 3


def test_what_cannot_be_sent_is_reported_too(db):
    db.things.insert_many(boxes(3))
    db.things.insert_one({"_id": 3, "type": "box", "side": 10**7, "edits": 0})
    db.things.insert_one({"_id": 4, "type": "box", "side": 4, "edits": 0, "drawing": b"x" * 9_000_000})
    progress = Migration(db.things, THINGS).run()
    assert (progress.upgraded, progress.failed) == (3, 2)
    reasons = {failure["id"]: failure["reason"] for failure in progress.failures}
    assert "8-byte ints" in reasons[3]
    assert "too large" in reasons[4]
    assert db.things.count_documents({"side": {"$exists": True}}) == 2, "and left as it is"


def test_ids_of_all_types_are_reached(db):
    ids = [1, 2.5, "a", {"sku": 1, "cart": "x"}, ObjectId(), True, datetime(2026, 1, 1, tzinfo=UTC), b"b"]
    db.things.insert_many({"_id": one, "type": "box", "side": 2} for one in ids)
    assert Migration(db.things, THINGS, batch=1).run().upgraded == len(ids)


def test_a_typed_part_of_a_document_is_migrated_in_its_place(db):
    db.things.insert_one({"_id": 1, "parent": {"id": 5}, "metadata": {"type": "box", "side": 2}, "x": 1})
    db.things.insert_one({"_id": 2, "metadata": None})
    progress = Migration(db.things, THINGS, inside="metadata", route=["parent.id"]).run()
    stored = db.things.find_one({"_id": 1})
    assert stored["metadata"] == {"type": "box", "schema_version": 3, "edits": 0, "label": "none", "volume": 8}
    assert (stored["parent"], stored["x"]) == ({"id": 5}, 1)
    assert [failure["id"] for failure in progress.failures] == [2]


def test_a_stopped_run_goes_on_where_it_was_and_a_finished_one_begins_anew(db):
    db.things.insert_many(boxes(30))
    stop = Event()
    halted = Migration(db.things, THINGS, batch=10).run(stop=stop, report=lambda _: stop.set())
    assert (halted.scanned, halted.finished_at) == (10, None)
    rest = Migration(db.things, THINGS, batch=10).run()
    assert (rest.scanned, rest.upgraded, rest.started_at) == (30, 30, halted.started_at)
    db.things.insert_one({"_id": -1, "type": "box", "side": -1})  # an old writer, behind the run
    assert Migration(db.things, THINGS).run().upgraded == 1
    assert_all_new(db, 31)


def test_a_stopped_run_for_other_versions_begins_anew(db):
    db.things.insert_many(boxes(5))
    stop = Event()
    Migration(db.things, Types(Thing), batch=2).run(stop=stop, report=lambda _: stop.set())
    assert Migration(db.things, THINGS).run().upgraded == 5


def test_a_throttled_run_is_interruptible_while_it_waits(db):
    db.things.insert_many(boxes(3))
    stop = Event()
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(Migration(db.things, THINGS, batch=1, per_second=0.001).run, stop=stop)
        while db["squinney.migrations"].find_one() is None:
            stop.wait(0.01)
        stop.set()
        assert slow.result(120).scanned == 1


def test_no_write_of_others_is_lost(db):
    """Six writers change documents, but not their version, while two migrations run."""
    for _ in range(8):
        db.things.drop()
        db.things.insert_many(boxes(20))
        done = Event()

        def write(worker, done=done):
            count = 0
            while not done.is_set() or count < 20:
                db.things.update_one({"_id": (worker * 7 + count * 13) % 20}, {"$inc": {"edits": 1}})
                count += 1
            return count

        with ThreadPoolExecutor(8) as pool:
            writers = [pool.submit(write, worker) for worker in range(6)]
            for run in [pool.submit(Migration(db.things, THINGS, batch=20).run) for _ in range(2)]:
                run.result()
            done.set()
            written = sum(writer.result() for writer in writers)
        Migration(db.things, THINGS).run()
        assert_all_new(db, 20)
        assert sum(box["edits"] for box in db.things.find()) == written


def test_a_document_that_never_rests_is_reported(db, monkeypatch):
    db.things.insert_many(boxes(2))
    migration = Migration(db.things, THINGS)
    plan = migration._plan

    def disturbed(ids):
        planned = plan(ids)
        db.things.update_one({"_id": 1}, {"$inc": {"edits": 1}})  # between the reading and the writing, every time
        return planned

    monkeypatch.setattr(migration, "_plan", disturbed)
    progress = migration.run()
    assert (progress.upgraded, progress.failures) == (1, [{"id": 1, "reason": "it kept changing"}])


def _run_until_killed(uri, name):
    with client_for(uri) as client:
        batches = []

        def die(progress):
            batches.append(progress)
            if len(batches) == 2:
                os.kill(os.getpid(), signal.SIGKILL)

        Migration(client[name].things, THINGS, batch=5).run(report=die)


def test_a_killed_run_is_resumed_by_another_process(db, mongod):
    db.things.insert_many(boxes(40))
    context = multiprocessing.get_context("spawn")
    killed = context.Process(target=_run_until_killed, args=(mongod.uri, db.name))
    killed.start()
    killed.join(120)
    assert killed.exitcode == -signal.SIGKILL
    assert db.things.count_documents({"schema_version": 3}) == 10
    assert Migration(db.things, THINGS, batch=5).progress().finished_at is None
    rest = Migration(db.things, THINGS, batch=5).run()
    assert (rest.scanned, rest.upgraded) == (40, 40)
    assert_all_new(db, 40)


def test_a_server_that_is_away_is_told_so():
    with client_for("mongodb://127.0.0.1:1/?directConnection=true&serverSelectionTimeoutMS=100") as client:
        migration = Migration(client["nowhere"]["things"], THINGS)
        with operation(0.5), pytest.raises(Unavailable):
            migration.run()
        with operation(0.5), pytest.raises(Unavailable):
            migration.progress()


def test_the_collection_is_declared():
    assert [collection.name for collection in COLLECTIONS] == ["squinney.migrations"]


@pytest.mark.parametrize("count", [0, 1])
def test_small_collections(db, count):
    if count:
        db.things.insert_many(boxes(count))
    assert Migration(db.things, THINGS).run().scanned == count
