"""Open transactions of dead processes block nobody for long; those of live ones are left alone."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
from pymongo.client_session import ClientSession
from pymongo.errors import OperationFailure

from squinney import transactions
from squinney.mongo import schema
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db
from squinney.transactions import Busy, Step, Transactions, abandoned, end_abandoned, in_transaction

HOLDER = """
import sys, time
from squinney.mongo.connect import client_for
client = client_for(sys.argv[1], appname=sys.argv[3])
with client.start_session() as session, session.start_transaction():
    client[sys.argv[2]].jars.update_one({"_id": 1}, {"$inc": {"beans": 1}}, session=session)
    print("holds", flush=True)
    time.sleep(600)
"""
TAKE = [Step("jars", 1, guard={"beans": {"$gte": 1}}, update={"$inc": {"beans": -1}})]


@pytest.fixture
def jars(own_db: Db) -> Iterator[Db]:
    """A jar, on a server that would let an open transaction block it for an hour."""
    schema.apply(own_db, transactions.COLLECTIONS)
    own_db.jars.insert_one({"_id": 1, "beans": 10})
    setting = "transactionLifetimeLimitSeconds"
    before = own_db.client.admin.command({"getParameter": 1, setting: 1})[setting]
    own_db.client.admin.command({"setParameter": 1, setting: 3600})
    yield own_db
    own_db.client.admin.command({"setParameter": 1, setting: before})


@contextmanager
def holder(mongod: Embedded, db: Db, app: str = "squinney") -> Iterator[subprocess.Popen[str]]:
    """A process that has written to the jar and has not committed."""
    command = [sys.executable, "-c", HOLDER, mongod.uri, db.name, app]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "holds\n"
            yield process
        finally:
            process.kill()


def take(db: Db, seconds: float = 60) -> None:
    Transactions(db, timeout_seconds=seconds).run("take", TAKE)


def take_in_a_callback(db: Db) -> None:
    def work(session: ClientSession) -> None:
        db.jars.update_one({"_id": 1}, {"$inc": {"beans": -1}}, session=session)

    in_transaction(db, work, seconds=60)


@pytest.mark.parametrize("operation", [take, take_in_a_callback])
def test_what_a_killed_process_held_is_free(jars: Db, own_mongod: Embedded, operation: Callable[[Db], None]) -> None:
    with holder(own_mongod, jars) as process:
        process.kill()
        process.wait()
        operation(jars)
    assert jars.jars.find_one() == {"_id": 1, "beans": 9}


def test_what_a_killed_process_held_can_be_freed_for_plain_updates(jars: Db, own_mongod: Embedded) -> None:
    """A plain update waits at the server and raises no conflict."""
    with holder(own_mongod, jars) as process:
        process.kill()
        process.wait()
        while jars.client.admin.command("serverStatus")["transactions"]["currentOpen"]:
            end_abandoned(jars)
    jars.jars.update_one({"_id": 1}, {"$inc": {"beans": -1}})
    assert jars.jars.find_one() == {"_id": 1, "beans": 9}


def test_what_a_live_process_holds_is_left_alone(
    jars: Db, own_mongod: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(abandoned, "LOOK_EVERY_SECONDS", 0)
    with holder(own_mongod, jars):
        with pytest.raises(Busy):
            take(jars, seconds=4)
        assert end_abandoned(jars) == 0


def test_what_a_stopped_process_holds_is_free_after_the_longest_run(
    jars: Db, own_mongod: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(abandoned, "MAX_OPEN_SECONDS", 2)
    with holder(own_mongod, jars) as process:
        process.send_signal(signal.SIGSTOP)
        take(jars)
    assert jars.jars.find_one() == {"_id": 1, "beans": 9}


def test_transactions_of_other_applications_are_left_alone(jars: Db, own_mongod: Embedded) -> None:
    with holder(own_mongod, jars, "somebody-else") as process:
        process.kill()
        process.wait()
        with pytest.raises(Busy):
            take(jars, seconds=6)


@pytest.mark.parametrize("command", ["update", "commitTransaction"])
@pytest.mark.parametrize("operation", [take, take_in_a_callback])
def test_a_run_whose_session_is_killed_starts_again(
    jars: Db,
    failing: Callable[..., AbstractContextManager[None]],
    operation: Callable[[Db], None],
    command: str,
) -> None:
    """The server reports a killed session without a label that says what to do."""
    with failing([command], mode={"times": 2}, errorCode=11601):
        operation(jars)
    assert jars.jars.find_one() == {"_id": 1, "beans": 9}


@pytest.mark.parametrize("operation", [take, take_in_a_callback])
def test_a_commit_that_succeeded_as_its_session_was_killed_is_not_done_again(
    jars: Db, monkeypatch: pytest.MonkeyPatch, operation: Callable[[Db], None]
) -> None:
    """The server cannot be made to do this on demand: the reply is replaced once."""
    commit = ClientSession.commit_transaction
    replies = iter([OperationFailure("operation was interrupted", 11601)])

    def interrupted(session: ClientSession) -> None:
        commit(session)
        for error in replies:
            raise error

    monkeypatch.setattr(ClientSession, "commit_transaction", interrupted)
    operation(jars)
    assert jars.jars.find_one() == {"_id": 1, "beans": 9}
