"""The rules that a full run is held to can be broken."""

from __future__ import annotations

import pytest
from tests.plugins import plans, writes
from tests.plugins.watch import Watch

from squinney.ledger import COLLECTIONS
from squinney.mongo import schema
from squinney.mongo.connect import client_for
from squinney.mongo.embedded import Embedded
from squinney.mongo.queries import Query
from squinney.mongo.schema import Db


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def watched(db: Db, mongod: Embedded, watch: Watch):
    """The test's database through a client that is watched."""
    schema.apply(db, COLLECTIONS)
    with client_for(mongod.uri, event_listeners=[watch]) as client:
        yield client[db.name]


def test_a_method_with_two_writes_must_be_swept(watched: Db, watch: Watch) -> None:
    def write(times: int) -> None:
        for _ in range(times):
            watched.things.insert_one({})
        watched.things.find_one()

    watch.writes._counted("Things.put", write)(1)
    assert watch.writes.failures() == []
    watch.writes._counted("Things.put", write)(2)
    watch.writes._counted("Accounts.transfer", write)(2)
    assert [failure.split()[:3] for failure in watch.writes.failures()] == [["Things.put", "sent", "2"]]


def test_the_outermost_method_counts(watched: Db, watch: Watch) -> None:
    inner = watch.writes._counted("Inner.put", lambda: watched.things.insert_one({}))
    watch.writes._counted("Outer.put", lambda: [inner(), inner()])()
    assert watch.writes.result() == {"Outer.put": 2}


def test_counts_of_workers_are_joined() -> None:
    counts = writes.WriteCounts()
    counts.add({"Things.put": 3})
    counts.add({"Things.put": 1})
    assert counts.result() == {"Things.put": 3}


@pytest.mark.parametrize(
    ("query", "fault"),
    [
        (Query("x", "accounts", where=lambda: {"name": "Rent"}), "collection scan"),
        (Query("x", "accounts", where=lambda: {"currency": "EUR"}, sort=[("name", 1)]), "sort in memory"),
        (Query("x", "accounts", where=lambda: {"currency": "EUR", "name": "7"}), "documents examined for 1"),
        (Query("x", "accounts", where=lambda: {"_id": 7}), ""),
    ],
)
def test_a_question_without_a_good_plan_fails_the_run(watched: Db, watch: Watch, query: Query, fault: str) -> None:
    accounts = [{"_id": number, "currency": "EUR", "balance": 0, "name": str(number)} for number in range(100)]
    watched.accounts.insert_many(accounts)
    list(watched.accounts.find({"name": "not the product's question"}))
    query_as_product(query, watched)
    watch.plans.explain()
    failures = watch.plans.failures()
    assert bool(failures) == bool(fault)
    assert all(fault in failure for failure in failures)


def query_as_product(query: Query, db: Db) -> None:
    """Sent from a module of the product."""
    exec("list(cursor)", {"__name__": "squinney.ledger.accounts", "cursor": query.find(db)})


def test_what_nobody_could_explain_fails_the_run() -> None:
    seen = plans.Plans()
    seen.add({"explained": {}, "findings": {}, "lost": {"find accounts []": "the server was gone"}})
    assert len(seen.failures()) == 1
    seen.add({"explained": {"find accounts []": 1}, "findings": {}, "lost": {}})
    assert seen.failures() == []
