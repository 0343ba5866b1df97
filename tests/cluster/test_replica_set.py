"""A replica set that loses its primary, in each way it can."""

from __future__ import annotations

import pytest
from pymongo import MongoClient
from tests.processes import is_alive

from squinney.mongo.connect import check_server, client_for
from squinney.mongo.deadlines import operation
from squinney.testing.replica_set import ReplicaSet

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def three(replica_set):
    return replica_set


@pytest.fixture
def things(three):
    with client_for(three.uri, serverSelectionTimeoutMS=30_000) as client:
        yield client.test.things
        client.test.things.drop()


def _write(things, value):
    with operation(60):
        things.insert_one({"_id": value})


def test_it_has_what_we_need(things):
    check_server(things.database.client)
    with things.database.client.start_session() as session, session.start_transaction():
        things.insert_one({"_id": 1}, session=session)
    assert things.count_documents({}) == 1


def test_an_acknowledged_write_outlives_its_primary(three, things):
    _write(things, 1)
    killed = three.kill_primary()
    _write(things, 2)
    assert three.primary() != killed
    three.restart(killed)
    assert {thing["_id"] for thing in things.find()} == {1, 2}


def test_another_takes_over_when_the_primary_steps_down(three, things):
    _write(things, 1)
    before = three.primary()
    assert three.step_down() != before
    _write(things, 2)
    assert things.count_documents({}) == 2


def test_another_takes_over_while_the_primary_is_paused(three, things):
    _write(things, 1)
    before = three.primary()
    pid = three.pid(before)
    three.pause(pid)
    try:
        assert three.primary(other_than=before) != before
    finally:
        three.resume(pid)
    _write(things, 2)
    assert things.count_documents({}) == 2


def test_a_replica_set_breaks_in_each_way(replica_set):
    with MongoClient(replica_set.uri, timeoutMS=60_000) as client:
        killed = replica_set.kill_primary()  # as a power loss would
        client.test.kept.insert_one({"_id": 1})  # waits for the next primary
        replica_set.restart(killed)
        replica_set.step_down()  # another member becomes primary
        paused = replica_set.primary_pid()
        replica_set.pause(paused)  # to others it looks like a machine that is cut off
        replica_set.resume(paused)
        assert client.test.kept.find_one({"_id": 1})


def test_all_members_end_with_it(tmp_path):
    with ReplicaSet.start(tmp_path / "one", members=1) as replica_set:
        pid = replica_set.primary_pid()
        assert (replica_set.folders[0] / "db" / "mongod.lock").read_text().strip() == str(pid)
    assert not is_alive(pid)
