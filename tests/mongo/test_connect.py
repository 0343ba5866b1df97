"""The guarantees of a connection, and the translation of the driver's errors."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote_plus

import pytest
from pymongo import MongoClient
from pymongo.errors import ConfigurationError, ConnectionFailure, DuplicateKeyError, PyMongoError
from pymongo.topology_description import TOPOLOGY_TYPE, TopologyDescription

import squinney
from squinney import ledger
from squinney.errors import Conflict, Invalid, NotFound, Unavailable
from squinney.mongo.connect import check_server, client_for, connect, refusal
from squinney.mongo.deadlines import operation
from squinney.mongo.embedded import binary, process
from squinney.mongo.embedded import folders as places
from squinney.mongo.server_time import server_now
from squinney.mongo.unreachable import why_unreachable
from squinney.settings import Settings

NOBODY_THERE = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=100"


def test_a_connection_has_the_house_guarantees(mongod):
    with connect(Settings(uri=mongod.uri, database="connected")) as connection:
        options = connection.client.options
        assert connection.db.name == "connected"
        assert connection.embedded is None
        assert connection.db.write_concern.document == {"w": "majority"}
        assert connection.db.read_concern.level == "majority"
        assert connection.db.codec_options.tz_aware
        assert options.retry_writes
        assert options.timeout is None
        assert options.pool_options.appname == "squinney"


def test_a_uri_may_set_its_time_limits_but_not_weaken_the_guarantees(mongod):
    with client_for(mongod.uri + "&serverSelectionTimeoutMS=1234&w=1&appName=shop") as client:
        assert client.options.server_selection_timeout == 1.234
        assert client.options.pool_options.appname == "shop"
        assert client.write_concern.document == {"w": "majority"}


def test_without_a_uri_the_embedded_server_runs_until_the_connection_closes(tmp_path):
    folder = tmp_path / "data"
    with connect(Settings(data_folder=folder)) as connection:
        connection.db.things.insert_one({"_id": 1})
        assert process.is_running(folder)
    assert not process.is_running(folder)
    with connect(Settings(data_folder=folder)) as connection:
        assert connection.db.things.find_one() == {"_id": 1}


@contextmanager
def bare_server(folder: Path, *arguments: str) -> Iterator[str]:
    """Run a mongod whose replica set is not initiated; yield its socket's path, quoted for a URI."""
    places.claim(folder)
    socket = places.socket_for(folder)
    process.start(
        binary.find(libraries=folder / "lib"), folder, ["--bind_ip", str(socket), "--nounixsocket", *arguments]
    )
    try:
        yield str(socket)
    finally:
        process.end(folder)


def test_a_server_that_stands_alone_is_refused(tmp_path):
    with bare_server(tmp_path) as socket, pytest.raises(Invalid, match="is a standalone") as caught:
        connect(Settings(uri=f"mongodb://{quote_plus(socket)}"))
    assert caught.value.details == {"field": "uri"}


def test_prepare_refuses_it_too_before_anything_is_made(tmp_path):
    with bare_server(tmp_path) as socket, MongoClient(f"mongodb://{quote_plus(socket)}") as client:
        with pytest.raises(Invalid, match=r"^db: the server is a standalone"):
            squinney.prepare(client["some"], ledger)
        assert "some" not in client.list_database_names()


def test_a_replica_set_that_is_not_initiated_is_named_with_what_to_do(tmp_path):
    with bare_server(tmp_path, "--replSet", "rs0") as socket:
        uri = f"mongodb://{quote_plus(socket)}/?serverSelectionTimeoutMS=500"
        for named in ("", "&replicaSet=rs0"):
            with pytest.raises(Unavailable, match=re.escape(f"{socket}: its replica set is not initiated")) as caught:
                connect(Settings(uri=uri + named))
            assert "rs.initiate()" in caught.value.message
        with pytest.raises(Invalid, match=r"not initiated.*rs\.initiate\(\)"):
            connect(Settings(uri=f"{uri}&directConnection=true"))


@pytest.mark.parametrize(
    ("hello", "version", "reason"),
    [
        ({"setName": "rs"}, "5.0.31", "too old"),
        ({"setName": "rs"}, "4.4.0", "too old"),
        ({}, "7.0.11", "is a standalone"),
        ({"setName": "rs"}, "6.0.0", None),
        ({"setName": "rs"}, "10.0.1-rc0", None),
        ({"msg": "isdbgrid"}, "8.0.4", None),
    ],
)
def test_which_servers_will_do(hello, version, reason):
    refused = refusal(hello, version)
    assert reason in refused if reason else refused is None


def test_a_server_that_is_away_is_unavailable_and_named_with_the_cause():
    with pytest.raises(Unavailable) as caught:
        connect(Settings(uri=NOBODY_THERE))
    assert caught.value.message == "MongoDB cannot be reached: 127.0.0.1:1: Connection refused"
    assert not caught.value.outcome_unknown


def test_another_replica_sets_name_is_told():
    away = TopologyDescription(
        TOPOLOGY_TYPE.ReplicaSetNoPrimary, {}, replica_set_name="other", max_set_version=None, max_election_id=None,
        topology_settings=None,
    )  # fmt: skip
    assert why_unreachable(away) == "no server there belongs to a replica set named other"


def test_an_operation_that_finds_no_server_says_so():
    with client_for(NOBODY_THERE) as client:
        with pytest.raises(Unavailable) as caught, operation(0.1, reads_only=True):
            client.db.things.find_one()
        assert caught.value.message == "MongoDB cannot be reached"


@pytest.mark.parametrize("uri", ["not-a-uri", "mongodb://me:hunter2@[::1", "mongodb://me:hunter2@host:99999/"])
def test_a_bad_uri_is_refused_without_quoting_its_password(uri):
    with pytest.raises(Invalid, match="MONGODB_URI") as caught:
        client_for(uri)
    assert "hunter2" not in str(caught.value)


def test_a_uri_that_names_a_file_which_is_not_there_is_refused():
    with pytest.raises(Invalid, match=r"/nowhere\.pem cannot be read \(No such file or directory\)"):
        client_for("mongodb://127.0.0.1/?tls=true&tlsCAFile=/nowhere.pem")


def test_a_wrong_password_is_refused_without_quoting_it(mongod):
    uri = mongod.uri.replace("mongodb://", "mongodb://me:hunter2@")
    with pytest.raises(Invalid, match="user or password") as caught:
        connect(Settings(uri=uri))
    assert "hunter2" not in str(caught.value)


def test_the_servers_time_is_aware_and_in_whole_milliseconds(db):
    for database in (db, db.with_options(codec_options=db.codec_options.with_options(tz_aware=False))):
        now = server_now(database)
        assert now.utcoffset() == timedelta(0)
        assert now.microsecond % 1000 == 0
        assert abs(now - datetime.now(UTC)) < timedelta(minutes=1)


def test_an_operation_in_time_is_left_alone(db):
    with operation():
        db.things.insert_one({"_id": 1})
    assert db.things.find_one() == {"_id": 1}


def test_a_lost_write_has_an_unknown_outcome(own_db, failing):
    with failing(["insert"], closeConnection=True), pytest.raises(Unavailable) as caught, operation(0.5):
        own_db.things.insert_one({})
    assert caught.value.outcome_unknown
    assert isinstance(caught.value.__cause__, PyMongoError)


def test_a_lost_read_changed_nothing(own_db, failing):
    with (
        failing(["find"], closeConnection=True),
        pytest.raises(Unavailable) as caught,
        operation(0.5, reads_only=True),
    ):
        own_db.things.find_one()
    assert not caught.value.outcome_unknown


def test_a_reader_inside_a_writer_may_come_after_a_write(own_db, failing):
    @operation(0.5)
    def write_and_read():
        own_db.things.insert_one({})
        with operation(reads_only=True):
            own_db.things.find_one()

    with failing(["find"], closeConnection=True), pytest.raises(Unavailable) as caught:
        write_and_read()
    assert caught.value.outcome_unknown


@pytest.mark.parametrize("command", ["insert", "find", "aggregate", "update", "findAndModify"])
def test_a_slow_server_is_given_up(own_db, failing, command):
    calls = {
        "insert": lambda: own_db.things.insert_one({}),
        "find": lambda: own_db.things.find_one(),
        "aggregate": lambda: list(own_db.things.aggregate([])),
        "update": lambda: own_db.things.update_one({}, {"$set": {"a": 1}}),
        "findAndModify": lambda: own_db.things.find_one_and_update({}, {"$set": {"a": 1}}),
    }
    with (
        failing([command], blockConnection=True, blockTimeMS=800),
        pytest.raises(Unavailable, match="too long"),
        operation(0.2),
    ):
        calls[command]()


def test_a_transaction_is_given_up_too(own_db, failing):
    own_db.create_collection("things")

    def write(session):
        own_db.things.insert_one({}, session=session)

    with (
        failing(["insert"], errorCode=112, errorLabels=["TransientTransactionError"]),
        own_db.client.start_session() as session,
        pytest.raises(Unavailable),
        operation(0.3),
    ):
        session.with_transaction(write)


def test_a_paused_server_leaves_no_thread_hanging(own_mongod, own_db):
    failures = []

    @operation(0.3)
    def write():
        own_db.things.insert_one({})

    def worker():
        try:
            write()
        except Unavailable as error:
            failures.append(error)

    own_db.command("ping")
    os.kill(own_mongod.pid, signal.SIGSTOP)
    try:
        threads = [threading.Thread(target=worker, daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert not any(thread.is_alive() for thread in threads)
    finally:
        os.kill(own_mongod.pid, signal.SIGCONT)
    assert len(failures) == 4
    write()


def test_an_inner_operation_cannot_lengthen_an_outer_one(own_db, failing):
    with (
        failing(["find"], blockConnection=True, blockTimeMS=1_000),
        pytest.raises(Unavailable),
        operation(0.2),
        operation(300),
    ):
        own_db.things.find_one()


def test_our_own_errors_pass_through(db):
    with pytest.raises(NotFound), operation(), operation():
        raise NotFound("no such thing")
    with pytest.raises(Conflict), operation():
        raise Conflict("not now")


def test_a_refusal_by_the_server_is_the_operations_own_to_read(db):
    db.things.insert_one({"_id": 1})
    with pytest.raises(DuplicateKeyError), operation():
        db.things.insert_one({"_id": 1})


def test_a_decorated_function_gets_its_time_afresh_at_each_call(db):
    @operation(0.5)
    def slow(seconds):
        """Sleep on the server."""
        return list(db.aggregate([{"$documents": [{"_id": seconds}]}]))

    assert slow.__doc__ == "Sleep on the server."
    for number in range(3):
        threading.Event().wait(0.2)
        assert slow(number) == [{"_id": number}]


def test_a_server_that_went_away_is_noticed_by_the_check(db):
    with client_for(NOBODY_THERE) as client, pytest.raises(Unavailable) as caught:
        check_server(client)
    assert isinstance(caught.value.__cause__, ConnectionFailure)


def test_a_driver_that_knows_no_member_at_the_moment_means_away() -> None:
    with pytest.raises(Unavailable), operation():
        raise ConfigurationError("Sessions are not supported by this MongoDB deployment")
    with pytest.raises(ConfigurationError), operation():
        raise ConfigurationError("something else")
