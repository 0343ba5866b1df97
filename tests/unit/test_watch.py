"""The rules that a full run is held to can be broken."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pymongo.errors import DuplicateKeyError
from tests.crash.case import cases
from tests.plugins import plans, write_rules, writes
from tests.plugins.watch import Watch
from tests.plugins.write_rules import of_the_product

from squinney.ledger import COLLECTIONS
from squinney.mongo import schema
from squinney.mongo.connect import client_for
from squinney.mongo.embedded import Embedded
from squinney.mongo.queries import Query
from squinney.mongo.schema import Db
from squinney.testing.writes import Operations, unswept
from squinney.testing.writes.sources import Sources


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

    watch.writes.counted("Things.put", write)(1)
    assert watch.writes.failures() == []
    watch.writes.counted("Things.put", write)(2)
    watch.writes.counted("Accounts.transfer", write)(2)
    assert [failure.split()[:3] for failure in watch.writes.failures()] == [["Things.put", "sent", "2"]]


def test_the_outermost_method_counts(watched: Db, watch: Watch) -> None:
    inner = watch.writes.counted("Inner.put", lambda: watched.things.insert_one({}))
    watch.writes.counted("Outer.put", lambda: [inner(), inner()])()
    assert watch.writes.result() == {"Outer.put": 2, "Inner.put": 0}


def test_methods_of_every_kind_are_counted(watched: Db, watch: Watch) -> None:
    class Base:
        def inherited(self) -> None:
            _twice(watched)

    class Things(Base):
        def own(self) -> None:
            _twice(watched)

        @staticmethod
        def static() -> None:
            _twice(watched)

        @classmethod
        def of_the_class(cls) -> None:
            _twice(watched)

        @property
        def shown(self) -> None:
            _twice(watched)

        def one_by_one(self) -> Iterator[int]:
            for number in range(2):
                watched.things.insert_one({})
                yield number

    watch.writes.wrap_class(Things)
    things = Things()
    things.own()
    things.inherited()
    Things.static()
    Things.of_the_class()
    assert things.shown is None
    for _ in things.one_by_one():
        watched.things.insert_one({})  # the reader's own
    names = ["own", "inherited", "static", "of_the_class", "shown", "one_by_one"]
    assert watch.writes.result() == {f"Things.{name}": 2 for name in names}


def _twice(db: Db) -> None:
    for _ in range(2):
        db.things.insert_one({})


def test_a_function_is_counted_wherever_it_was_imported_to(watched: Db, watch: Watch, monkeypatch: Any) -> None:
    def put() -> None:
        _twice(watched)

    modules = [ModuleType("squinney.made_up"), ModuleType("tests.made_up")]
    for module in modules:
        module.put = put  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)
    watch.writes.wrap_function("made_up.put", put)
    for module in modules:
        module.put()
    assert watch.writes.result() == {"made_up.put": 2}


def test_what_an_operations_threads_send_is_its_own(watched: Db, watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading.Thread, "start", threading.Thread.start)
    monkeypatch.setattr(ThreadPoolExecutor, "submit", ThreadPoolExecutor.submit)
    writes.carry_calls_into_threads()

    def in_thread() -> None:
        thread = threading.Thread(target=_twice, args=(watched,))
        thread.start()
        thread.join()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()  # its thread is there before the operation is
        watch.writes.counted("Things.pooled", lambda: pool.submit(_twice, watched).result())()
        watch.writes.counted("Things.threaded", in_thread)()
        pool.submit(_twice, watched).result()  # no operation's
    assert watch.writes.result() == {"Things.pooled": 2, "Things.threaded": 2}


def test_many_documents_at_once_may_be_several_writes(watched: Db, watch: Watch) -> None:
    """The driver sends them in batches of 100,000, which no test has."""
    watch.writes.counted("Things.put_many", lambda: watched.things.insert_many([{}, {}]))()
    assert watch.writes.result() == {"Things.put_many": 2}


def test_a_write_that_was_refused_is_none(watched: Db, watch: Watch) -> None:
    watched.things.insert_one({"_id": 1})

    def put() -> None:
        with suppress(DuplicateKeyError):
            watched.things.insert_one({"_id": 1})
        watched.things.update_one({"_id": 1}, {"$set": {"x": 1}})

    watch.writes.counted("Things.put", put)()
    assert watch.writes.result() == {"Things.put": 1}


SOURCE = """
__all__ = ["Things", "put_all", "look"]

def put_all(db):
    db.things.insert_many(every())

def look(db):
    return db.things.find_one()

def _helper(db):
    db.things.update_one({}, {})

class Base:
    def inherited(self):
        self._db.things.insert_one({})
        _helper(self._db)

class Things(Base):
    def one(self):
        if self.rare:
            return self._db.things.insert_one({})
        return self._db.things.delete_one({})
    def on_a_rare_branch(self):
        self._db.things.insert_one({})
        if self.rare:
            _helper(self._db)
    def round_and_round(self):
        for thing in self.all:
            self._db.things.insert_one(thing)
    @staticmethod
    def static(db):
        _helper(db), _helper(db)
    @property
    def shown(self):
        return [_helper(self._db) for _ in self.all]
    def one_by_one(self):
        while True:
            yield self._db.things.insert_one({})
    def in_threads(self, pool):
        pool.map(_helper, self.all), pool.submit(_helper, self._db)
    def upsert(self):
        try:
            self._db.things.insert_one({})
        except DuplicateKeyError:
            self._db.things.update_one({}, {})
    def by_super(self):
        super().inherited()
"""
MANY = {
    *("on_a_rare_branch", "round_and_round", "static", "shown", "one_by_one", "in_threads", "by_super", "inherited"),
}


@pytest.fixture
def made_up(tmp_path: Path) -> Operations:
    """A package of its own, never imported."""
    (tmp_path / "made_up").mkdir()
    (tmp_path / "made_up" / "__init__.py").write_text(SOURCE)
    return Operations(Sources(tmp_path / "made_up"), ["made_up"])


def test_what_may_write_twice_is_read_from_the_source(made_up: Operations) -> None:
    found = {name for name, one in made_up.all.items() if one.writes > 1}
    assert found == {"made_up.put_all", *(f"Things.{name}" for name in MANY)}
    assert {name for name, one in made_up.all.items() if one.writes == 1} == {"Things.one", "Things.upsert"}
    failures = write_rules.may_write_twice(made_up, [f"Things.{name}" for name in MANY - {"static"}], {})
    assert {failure.split()[0] for failure in failures} == {"made_up.put_all", "Things.static"}


def test_a_package_of_ones_own_is_told_what_it_must_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_shop").mkdir()
    (tmp_path / "own_shop" / "__init__.py").write_text("__all__ = ['Carts']\nfrom own_shop.carts import Carts\n")
    (tmp_path / "own_shop" / "carts.py").write_text(
        "from squinney.ledger import Accounts\n"
        "class Carts:\n"
        "    def __init__(self, db):\n        self._db, self._accounts = db, Accounts(db)\n"
        "    def add(self):\n        self._db.carts.update_one({}, {})\n"
        "    def pay(self):\n        self._accounts.transfer('a', 'b', 1)\n"
        "    def refund(self):\n        self._accounts.transfer('b', 'a', 1)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    own_shop = importlib.import_module("own_shop")
    assert unswept(own_shop, covered=["Carts.refund"]) == ["Carts.pay"]
    others = ["job:carts", "Accounts.transfer", "ledger.repair", "Carts.add"]
    unknown = ["Carts.pya", "ledger.repiar", "Trolleys.pay"]
    assert unswept(own_shop, covered=["Carts.pay", "Carts.refund", *others, *unknown]) == [
        f"{name} (in covered, but there is no such operation)" for name in sorted(unknown)
    ]
    with pytest.raises(TypeError, match="covered must be a list or a set of names"):
        unswept(own_shop, covered="Carts.pay")


def test_a_package_that_offers_nothing_has_not_passed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mute_shop").mkdir()
    (tmp_path / "mute_shop" / "__init__.py").write_text("from mute_shop.carts import pay\n")
    (tmp_path / "mute_shop" / "carts.py").write_text("def pay(db):\n    db.a.insert_one({})\n    db.b.insert_one({})\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ValueError, match="mute_shop has no public operation: list its classes and functions"):
        unswept(importlib.import_module("mute_shop"))
    with pytest.raises(TypeError, match="unswept takes a package"):
        unswept("mute_shop")  # type: ignore[arg-type]


def test_an_exception_that_is_no_longer_needed_fails_the_run(made_up: Operations) -> None:
    failures = write_rules.may_write_twice(made_up, made_up.all, {"Things.one"})
    assert [failure.split()[0] for failure in failures] == ["Things.one"]


def test_what_no_test_calls_fails_the_run(made_up: Operations) -> None:
    called = dict.fromkeys(set(made_up.all) - {"Things.one", "Things.static", "made_up.look"}, 1)
    failures = write_rules.uncalled(made_up, called, {"Things.static"})
    assert [failure.split()[0] for failure in failures] == ["Things.one"], "looking writes nothing"


def test_covering_what_is_not_there_fails_the_run(made_up: Operations) -> None:
    failures = write_rules.unknown_names(made_up.all, ["Things.one", "Things.gone"], ["Things.lost"])
    assert ["Things.gone" in failures[0], "Things.lost" in failures[1], len(failures)] == [True, True, 2]


def test_the_product_keeps_the_rule_as_far_as_its_source_tells() -> None:
    """A full run looks at all of it; this, without what was called, at any time."""
    assert write_rules.by_source(of_the_product().all, cases().covered()) == []


def test_counts_of_workers_are_joined() -> None:
    counts = writes.WriteCounts()
    counts.add({"Things.put": 3})
    counts.add({"Things.put": 1})
    assert counts.result() == {"Things.put": 3}


@pytest.mark.parametrize(
    ("query", "fault"),
    [
        (Query("x", "ledger.accounts", where=lambda: {"name": "Rent"}), "collection scan"),
        (Query("x", "ledger.accounts", where=lambda: {"currency": "EUR"}, sort=[("name", 1)]), "sort in memory"),
        (Query("x", "ledger.accounts", where=lambda: {"currency": "EUR", "name": "7"}), "documents examined for 1"),
        (Query("x", "ledger.accounts", where=lambda: {"_id": 7}), ""),
    ],
)
def test_a_question_without_a_good_plan_fails_the_run(watched: Db, watch: Watch, query: Query, fault: str) -> None:
    accounts = [{"_id": number, "currency": "EUR", "balance": 0, "name": str(number)} for number in range(100)]
    watched["ledger.accounts"].insert_many(accounts)
    list(watched["ledger.accounts"].find({"name": "not the product's question"}))
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
