"""Why a run is refused: decided inside transactions, in the order of the plan, and cheaply for its neighbours."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

import pytest
from pymongo.monitoring import CommandStartedEvent
from pymongo.write_concern import WriteConcern
from tests.patterns.interrupt import Stall, meanwhile
from tests.patterns.jars import TooLittle, beans, fill, filled, move, outcome_of

from squinney.errors import Conflict, SquinneyError
from squinney.mongo.connect import client_for
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Db
from squinney.transactions import AlreadyExists, KeyReused, Plan, Step, Transactions, WriteRefused, group_commit


class First(SquinneyError):
    code = "first"


class Second(SquinneyError):
    code = "second"


@pytest.fixture
def jars(db: Db) -> Db:
    return filled(db)


class Sent(Stall):
    """Records all commands."""

    def __init__(self) -> None:
        super().__init__(0)
        self.commands: list[CommandStartedEvent] = []

    def started(self, event: CommandStartedEvent) -> None:
        self.commands.append(event)

    def names(self) -> list[str]:
        """Return the commands since the last call."""
        names, self.commands = [event.command_name for event in self.commands], []
        return names


@contextmanager
def recorded(mongod: Embedded, db: Db) -> Iterator[tuple[Db, Sent]]:
    """Yield the database of a client that records its commands, with a queue that outlives single runs."""
    sent = Sent()
    with client_for(mongod.uri, event_listeners=[sent]) as client:
        ours = client[db.name]
        queue = group_commit.pending_runs_of(ours)
        yield ours, sent
        del queue


# ---- decided inside ----


def test_no_read_outside_a_transaction_decides(jars: Db, mongod: Embedded) -> None:
    """Such a read may be a view of the past, for example after a failover."""
    jars.names.create_index("name", unique=True)
    jars.names.insert_many([{"_id": 1, "name": "x"}, {"_id": 2, "name": "y"}])
    refused = [
        move("b", "c", 1),
        fill("nowhere"),
        [Step("names", 1, insert={"name": "z"})],
        [Step("names", 3, insert={"name": "x"})],
        [Step("names", 2, update={"$set": {"name": "x"}})],
        [Step("jars", "b", guard={"beans": 1}, delete=True)],
    ]
    with recorded(mongod, jars) as (db, sent):
        run = Transactions(db).run
        run("fill", fill("d"), key="k", arguments={})
        assert run("fill", fill("d"), key="k", arguments={}).replayed
        with pytest.raises(KeyReused):
            run("fill", fill("d"), key="k", arguments={"n": 1})
        for plan in [*refused, *refused]:
            with pytest.raises(Conflict):
                run("try", plan)
        reads = [event.command for event in sent.commands if event.command_name == "find"]
    assert len(reads) >= 2 * len(refused)
    assert all(read.get("autocommit") is False for read in reads)


@contextmanager
def outdated_majority_reads(db: Db) -> Iterator[None]:
    """Make majority reads see what is there now, whatever is written later, as at a new primary."""
    fail_point = {"configureFailPoint": "disableSnapshotting"}
    db.client.admin.command({**fail_point, "mode": "alwaysOn"})
    try:
        yield
    finally:
        db.client.admin.command({**fail_point, "mode": "off"})


def test_a_view_of_the_past_refuses_nobody(own_db: Db) -> None:
    """A majority read finds the jar empty when it is full: the run is not refused for that, and waits."""
    filled(own_db)
    queue = group_commit.pending_runs_of(own_db)
    run = Transactions(own_db).run
    with pytest.raises(TooLittle):
        run("move", move("b", "c", 5))
    assert queue._suspects
    with ThreadPoolExecutor(1) as pool:
        with outdated_majority_reads(own_db):
            unwaited = own_db.jars.with_options(write_concern=WriteConcern(1))
            unwaited.update_one({"_id": "b"}, {"$inc": {"beans": 5}})
            assert (own_db.jars.find_one({"_id": "b"}) or {})["beans"] == 0, "a majority read is outdated"
            running = pool.submit(outcome_of, lambda: run("move", move("b", "c", 5)))
            wait([running], timeout=1)
        assert running.result().id
    assert beans(own_db)["c"] == 5


@pytest.mark.parametrize(("command", "code"), [("find", 11601), ("find", 251), ("commitTransaction", 11601)])
def test_a_decision_that_is_interrupted_is_read_again(own_db: Db, failing: Any, command: str, code: int) -> None:
    """Code 251, NoSuchTransaction, has the label of a transient error."""
    run = Transactions(filled(own_db)).run
    labels = {"errorLabels": ["TransientTransactionError"]} if code == 251 else {}
    with failing([command], mode={"times": 1}, errorCode=code, **labels), pytest.raises(TooLittle):
        run("move", move("b", "c", 5))


# ---- suspects: documents whose guards have just failed ----


def test_a_document_whose_guard_has_failed_is_asked_by_a_read_until_it_passes(jars: Db, mongod: Embedded) -> None:
    with recorded(mongod, jars) as (db, sent):
        run = Transactions(db).run
        for plan, names in [
            (move("b", "c", 1), {"update", "find", "abortTransaction", "commitTransaction"}),
            (move("b", "c", 1), {"find", "commitTransaction"}),
            (move("a", "b", 1), {"find", "update", "commitTransaction"}),
            (move("b", "c", 1), {"update", "commitTransaction"}),
            (move("c", "d", 1), {"update", "commitTransaction"}),
        ]:
            outcome_of(lambda plan=plan: run("move", plan))
            assert set(sent.names()) == names
    assert beans(jars) == {"a": 99, "b": 0, "c": 0, "d": 1}


def test_a_run_that_does_not_match_is_refused_at_once(jars: Db, mongod: Embedded) -> None:
    """Its write is sent once; a read tells why it did not match."""
    with recorded(mongod, jars) as (db, sent):
        with pytest.raises(TooLittle):
            Transactions(db, timeout_seconds=3).run("move", move("b", "c", 1))
        assert sent.names() == ["update", "abortTransaction", "find", "commitTransaction"]


def test_documents_beyond_a_number_are_suspects_all_the_same(
    jars: Db, mongod: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Earlier ones are forgotten, since they may be gone for good."""
    monkeypatch.setattr(group_commit, "MAX_SUSPECTS", 2)
    with recorded(mongod, jars) as (db, sent):
        for jar in ("x", "y", "z", "z"):
            sent.names()
            outcome_of(lambda jar=jar: Transactions(db).run("fill", fill(jar)))
        assert "update" not in sent.names()


@pytest.mark.parametrize("asked_before", [False, True], ids=["sent", "read"])
def test_the_error_is_that_of_the_first_step_that_is_refused(jars: Db, mongod: Embedded, asked_before: bool) -> None:
    """Whatever the order of ids and collections is, and whichever document is a suspect."""
    steps = [
        Step("jars", "a"),
        Step("jars", "d", guard={"beans": 7}, refused=First),
        Step("jars", "b", guard={"beans": 7}, refused=Second),
        Step("apples", 1, guard={"n": 1}, refused=Second),
    ]
    with recorded(mongod, jars) as (db, _):
        for step in steps[2:] if asked_before else []:
            outcome_of(lambda step=step: Transactions(db).run("look", [step]))
        with pytest.raises(First):
            Transactions(db).run("look", steps)


def test_a_repeat_gets_its_outcome_though_its_document_is_a_suspect(jars: Db, mongod: Embedded) -> None:
    with recorded(mongod, jars) as (db, sent):
        run = Transactions(db).run
        plan = Plan(move("a", "b", 60), "moved")
        first = run("move", plan, key="k", arguments={})
        with pytest.raises(TooLittle):
            run("move", plan, key="another", arguments={})
        sent.names()
        repeat = run("move", plan, key="k", arguments={})
        assert sent.names()[0] == "find", "it was a suspect"
        with pytest.raises(KeyReused):
            run("move", plan, key="k", arguments={"n": 1})
    assert (repeat.id, repeat.result, repeat.replayed) == (first.id, "moved", True)
    assert beans(jars)["b"] == 60


# ---- conflicts that the server would not detect ----


@pytest.mark.parametrize("update", [None, {"$set": {"kind": "jar"}}], ids=["only checks", "changes nothing"])
def test_two_runs_cannot_each_empty_the_jar_that_the_other_relies_on(jars: Db, mongod: Embedded, update: Any) -> None:
    """With snapshots alone both would succeed."""

    def plan(kept: str, emptied: str) -> list[Step]:
        return [
            Step("jars", kept, guard={"beans": {"$gte": 1}}, update=update),
            Step("notes", kept, insert={}),
            Step("jars", emptied, update={"$set": {"beans": 0}}),
        ]

    jars.create_collection("notes")  # else the two would meet in making it
    jars.jars.update_many({}, {"$set": {"beans": 5, "kind": "jar"}})
    others: list[Any] = []
    with ThreadPoolExecutor(1) as pool:

        def meet() -> None:
            others.append(pool.submit(outcome_of, lambda: Transactions(jars).run("empty", plan("b", "a"))))
            wait(others, timeout=1)  # it cannot come back before the first has ended

        with meanwhile(mongod, jars, meet, "insert", "notes") as db:
            first = outcome_of(lambda: Transactions(db).run("empty", plan("a", "b")))
        second = others[0].result()
    assert sum(isinstance(one, Conflict) for one in (first, second)) == 1
    assert [beans(jars)["a"], beans(jars)["b"]] in ([0, 5], [5, 0])


def test_no_upsert_ever_leaves_a_document(jars: Db) -> None:
    """Threads whose groups contain runs on missing documents, beside runs that make and delete these."""
    stop = threading.Event()

    def make_and_delete(name: str) -> None:
        run = Transactions(jars).run
        while not stop.is_set():
            run("make", [Step("jars", name, insert={"beans": 0, "made": True})])
            run("delete", [Step("jars", name, delete=True)])

    def fill_missing(name: str) -> list[Any]:
        run = Transactions(jars).run
        return [outcome_of(lambda: run("fill", [*fill(name), *fill("a")])) for _ in range(60)]

    with ThreadPoolExecutor(12) as pool:
        makers = [pool.submit(make_and_delete, name) for name in ("x", "y")]
        fillers = [pool.submit(fill_missing, name) for name in ("x", "y", "z") for _ in range(3)]
        outcomes = [outcome for filler in fillers for outcome in filler.result()]
        stop.set()
        for maker in makers:
            maker.result()
    done = [outcome for outcome in outcomes if not isinstance(outcome, Exception)]
    assert {type(outcome) for outcome in outcomes if isinstance(outcome, Exception)} == {Conflict}
    assert beans(jars) == {"a": 100 + len(done), "b": 0, "c": 0, "d": 0}


# ---- what an error says ----


def test_a_rejected_write_names_collection_and_id(jars: Db) -> None:
    jars.create_collection("small", validator={"size": {"$lt": 9}})
    jars.small.insert_one({"_id": 1, "size": 1})
    grow = Step("small", 1, update={"$set": {"size": 10}})
    with pytest.raises(WriteRefused, match=r"small 1: .*validation") as caught:
        Transactions(jars).run("grow", [*fill("a"), grow])
    assert caught.value.details == {"collection": "small", "document_id": "1"}
    assert beans(jars)["a"] == 100


def test_a_refusal_without_an_error_of_its_own_names_step_and_document(jars: Db) -> None:
    with pytest.raises(Conflict, match="jars 'x' does not exist"):
        Transactions(jars).run("fill", fill("x"))
    with pytest.raises(Conflict, match=r"jars 'a' does not match the guard \{'beans': 0\}"):
        Transactions(jars).run("fill", [Step("jars", "a", guard={"beans": 0})])


def test_a_refusal_may_be_made_from_the_document(jars: Db) -> None:
    def refused(document: Any) -> SquinneyError | None:
        return First(f"only {document['beans']}") if document else None

    with pytest.raises(First, match="only 100"):
        Transactions(jars).run("look", [Step("jars", "a", guard={"beans": 1}, refused=refused)])
    with pytest.raises(Conflict, match="does not exist"):
        Transactions(jars).run("look", [Step("jars", "x", refused=refused)])


@pytest.mark.parametrize("number", range(3))
def test_an_error_message_that_is_cut_inside_a_character_is_an_error_like_others(jars: Db, number: int) -> None:
    """The server cuts it after a number of bytes: one of three beginnings has the cut inside a character."""
    name = "a" * number + "日本語" * 60
    jars.names.create_index("name", unique=True)
    jars.names.insert_one({"_id": 1, "name": name})
    run = Transactions(jars).run
    run("fill", [Step("notes", name, insert={})])
    for step in (
        Step("notes", name, insert={}),
        Step("names", 2, insert={"name": name}),
        Step("notes", name, guard={"n": 1}, refused=AlreadyExists),
    ):
        with pytest.raises(AlreadyExists):
            run("fill", [*fill("a"), step])
    jars.command({"collMod": "notes", "validator": {"n": {"$lt": 9}}})
    with pytest.raises(WriteRefused) as caught:
        run("fill", [Step("notes", name, update={"$set": {"n": 10}})])
    assert caught.value.details["document_id"] == name
