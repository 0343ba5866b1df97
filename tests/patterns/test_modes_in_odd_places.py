"""Both modes agree in unusual cases of the server, the driver or the document."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any
from unittest.mock import Mock
from uuid import UUID

import pytest
from bson import ObjectId
from bson.datetime_ms import DatetimeMS
from pymongo import MongoClient

from squinney import transactions
from squinney.errors import SquinneyError
from squinney.mongo import schema
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Collection, Db, Document, Index
from squinney.transactions import (
    AlreadyExists,
    Busy,
    Mode,
    Plan,
    Step,
    Transactions,
    find_orphans,
    find_stuck,
    once,
    recovery,
    two_phase,
    verdicts,
)

CRATES = Collection(
    "crates",
    indexes=[Index([("label", 1)], unique=True, sparse=True)],
    escrow={"beans": "floor", "inner.beans": "floor"},
)
DEEP = Collection("deep", escrow={"beans": "floor"})
SMALL = Collection("small", validator={"beans": {"$lt": 12}}, escrow={"beans": "floor"})
COUNTED = Collection(
    "counted",
    validator={"$jsonSchema": {"properties": {"used": {"bsonType": ["int", "long"], "minimum": 0}}}},
    escrow={"used": "ceiling"},
)
BOUNDED = Collection(
    "bounded", validator={"$jsonSchema": {"properties": {"beans": {"maximum": 99}}}}, escrow={"beans": "floor"}
)
STRICT = Collection(
    "strict", validator={"$jsonSchema": {"properties": {"_id": {}, "n": {}}, "additionalProperties": False}}
)
COUNTING = Collection("counting", validator={"$jsonSchema": {"minProperties": 3}})
CASELESS = Collection(
    "caseless", indexes=[Index([("login", 1)], unique=True, collation={"locale": "en", "strength": 2})]
)
COLLECTIONS = [*transactions.COLLECTIONS, CRATES, SMALL, COUNTED, BOUNDED, STRICT, COUNTING, CASELESS]
LONG_AGO, LATER = datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
FAR = DatetimeMS(10**15)  # the year 33658
START = {
    "crates": [
        {"_id": 1, "beans": 10, "label": "x"},
        {"_id": 2, "beans": [5, 6], "inner": [{"beans": 1}]},
        {"_id": 3, "beans": 2**62},
        {"_id": 4, "far": FAR},
        {"_id": 5, "items": [{"n": 1}, {"n": 2}]},
    ],
    "small": [{"_id": 1, "beans": 10}],
    "counted": [{"_id": 1, "used": 0}],
    "bounded": [{"_id": 1, "beans": 98}],
    "capped": [{"_id": 1, "n": 1}],
    "counting": [{"_id": 1, "a": 1, "b": 1}],
    "folded": [{"_id": "a"}],
}


class No(SquinneyError):
    code = "no"


@pytest.fixture
def crates(db: Db) -> Db:
    schema.apply(db, COLLECTIONS)
    db.create_collection("capped", capped=True, size=10_000)
    db.create_collection("folded", collation={"locale": "en", "strength": 2})
    db.create_collection("series", timeseries={"timeField": "at"})
    db.create_collection("view", viewOn="crates", pipeline=[])
    for name, documents in START.items():
        db[name].insert_many(documents)
    return db


def give(collection: Collection, box: Any, **amounts: int) -> list[Step]:
    return [Step(collection, box, give={"$inc": amounts}, shared=True, refused=No)]


def nested(depth: int) -> Document:
    return {"in": nested(depth - 1)} if depth else {}


PLANS: dict[str, tuple[Callable[[], Sequence[Step] | Plan], str]] = {
    "a shared give to an array of numbers": (lambda: give(CRATES, 2, beans=1), "no"),
    "a shared give within an array": (lambda: give(CRATES, 2, **{"inner.beans": 1}), "no"),
    "a shared give that cannot be counted": (lambda: give(CRATES, 3, beans=2**62), "write-refused"),
    "a shared give past a validator of operators": (lambda: give(SMALL, 1, beans=5), "write-refused"),
    "a shared give past a smallest value": (lambda: give(COUNTED, 1, used=-1), "write-refused"),
    "a shared give past a largest value": (lambda: give(BOUNDED, 1, beans=5), "write-refused"),
    "steps too deep for a record": (lambda: [Step("crates", 1, give={"$set": {"d": nested(176)}})], "done"),
    "a guard too large to send": (
        lambda: [Step("crates", 1, guard={"n": {"$nin": ["x" * 2**20] * 17}})],
        "write-refused",
    ),
    "a date that Python has no value for": (lambda: [Step("crates", 1, give={"$set": {"far": FAR}})], "done"),
    "a refused document with such a date": (lambda: [Step("crates", 4, guard={"n": 1}, refused=No)], "no"),
    "a result that nobody keeps": (lambda: Plan([Step("crates", 1)], result={1, 2}), "done"),
    "a guard in a capped collection": (lambda: [Step("capped", 1, guard={"n": 1})], "write-refused"),
    "an insert into a capped collection": (lambda: [Step("capped", 2, insert={})], "write-refused"),
    "an insert into a time series": (lambda: [Step("series", 2, insert={"at": FAR})], "write-refused"),
    "a guard in a time series": (lambda: [Step("series", 1, guard={"n": 1})], "write-refused"),
    "a guard in a view": (lambda: [Step("view", 1, guard={"n": 1})], "write-refused"),
    "a UUID as id and as value": (lambda: [Step("crates", UUID(int=1), insert={"n": UUID(int=2)})], "done"),
    "too few fields of an insert": (lambda: [Step("counting", 2, insert={"a": 1})], "write-refused"),
    "too few fields after an update": (lambda: [Step("counting", 1, give={"$unset": {"a": ""}})], "write-refused"),
    "two ids that a collation takes for one": (
        lambda: [Step("folded", "a", give={"$inc": {"n": 1}}), Step("folded", "A", give={"$inc": {"n": 1}})],
        "done",
    ),
    "a value is inserted before its holder goes": (
        lambda: [Step("crates", 7, insert={"label": "x"}), Step("crates", 1, delete=True)],
        "already-exists",
    ),
}


@pytest.mark.parametrize("name", PLANS)
def test_both_modes_do_the_same(crates: Db, name: str) -> None:
    plan, expected = PLANS[name]
    said = {}
    for mode in ("native", "two-phase"):
        try:
            said[mode] = Transactions(crates, mode, timeout_seconds=5).run("try", plan()).replayed or "done"
        except SquinneyError as error:
            said[mode] = error.code
        crates.crates.delete_one({"_id": UUID(int=1)})
        assert crates.transactions.find_one() is None
        assert list(find_orphans(crates, START)) == []
    assert said == {"native": expected, "two-phase": expected}


def test_a_give_refused_for_what_the_document_holds_is_the_same_beside_a_validator(crates: Db) -> None:
    crates.command({"insert": "bounded", "documents": [{"_id": 2, "beans": "many"}], "bypassDocumentValidation": True})
    for mode in ("native", "two-phase"):
        with pytest.raises(No):
            Transactions(crates, mode).run("try", give(BOUNDED, 2, beans=1))


@pytest.mark.parametrize(
    "step",
    [
        Step("deep", 1, give={"$set": {"items.$[item].lot.sku": "x"}}, array_filters=[{"item.n": 1}]),
        Step("deep", 1, give={"$set": {"items.0.lot.sku": "x"}}),
        Step("some", 1, give={"$set": {"live": True}}),
        Step(DEEP, 1, guard={"beans": {"$gte": 2**60}}, take={"$inc": {"beans": -(2**60)}}, shared=True),
    ],
    ids=["in an array by a filter", "in an array by its place", "by a nested condition", "a large take"],
)
def test_what_could_be_refused_after_the_decision_is_one_transaction(
    crates: Db, step: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A unique value in an array, or by a nested partial filter; a take that is too large to be undone."""
    crates.deep.create_index("items.lot.sku", unique=True)
    crates.some.create_index("code", unique=True, partialFilterExpression={"$and": [{"live": True}]})
    crates.deep.insert_one({"_id": 1, "items": [{"n": 1, "lot": {}}], "beans": 2**60})
    crates.some.insert_one({"_id": 1})
    monkeypatch.setattr(two_phase, "run", Mock(side_effect=AssertionError))
    assert Transactions(crates, "two-phase").run("try", [step]).id


# ---- beside what others have not decided ----


def undecided(db: Db, state: str = "new", steps: Sequence[Document] = ()) -> ObjectId:
    """Return the record of another run."""
    txn = ObjectId()
    db.transactions.insert_one({"_id": txn, "txn": txn, "state": state, "steps": list(steps), "due_at": LATER})
    return txn


def take(box: Any) -> list[Step]:
    return [
        Step(CRATES, box, guard={"beans": {"$gte": 5}}, take={"$inc": {"beans": -5}}, shared=True, refused=No),
    ]


@pytest.mark.parametrize("mode", ["native", "two-phase"])
def test_no_run_is_refused_for_an_amount_that_an_undecided_run_may_give_back(crates: Db, mode: Mode) -> None:
    at = datetime(2026, 1, 1, microsecond=123_456)  # noqa: DTZ001 - as it comes from a caller: the server cuts it
    step = {"collection": "crates", "filter": {"_id": at}, "verb": "update", "shared": True}
    txn = undecided(crates, steps=[{**step, "undo": {"$inc": {"beans": 5}}}])
    crates.crates.insert_one({"_id": at, "beans": 0, "txns": [txn]})
    with pytest.raises(Busy):
        Transactions(crates, mode, timeout_seconds=1).run("try", take(at))


@pytest.mark.parametrize("mode", ["native", "two-phase"])
def test_a_run_that_recover_has_just_undone_is_looked_at_again(crates: Db, mode: Mode) -> None:
    """After the document was read, the run's record may have become the record of its tombstones."""
    crates.crates.insert_one({"_id": 8, "beans": 0, "txns": [undecided(crates, "tombs")]})
    with pytest.raises(Busy):
        Transactions(crates, mode, timeout_seconds=1).run("try", take(8))


@pytest.mark.parametrize("mode", ["native", "two-phase"])
def test_a_limit_of_gives_does_not_count_undecided_amounts(crates: Db, mode: Mode) -> None:
    """An undecided take may never be undone, so a give is not refused because of the amount it could return."""
    step = {"collection": "crates", "filter": {"_id": 9}, "verb": "update", "shared": True}
    txn = undecided(crates, steps=[{**step, "undo": {"$inc": {"beans": 60}}}])
    crates.crates.insert_one({"_id": 9, "beans": 50, "txns": [txn]})
    fill = Step(
        CRATES,
        9,
        guard={"beans": {"$lte": 99}},
        give={"$inc": {"beans": 1}},
        shared=True,
        may_overshoot=True,
        refused=No,
    )
    assert verdicts.refusal_of(crates, fill) is None
    Transactions(crates, mode).run("try", [fill])
    assert crates.crates.find_one({"_id": 9})["beans"] == 51


@pytest.mark.parametrize("mode", ["native", "two-phase"])
@pytest.mark.parametrize(
    ("name", "theirs", "ours"),
    [
        ("caseless", {"login": "ada"}, {"login": "ADA"}),
        ("caseless", {"login": ["ada", "bob"]}, {"login": ["ADA"]}),
        ("partial", {"code": "c", "live": True}, {"code": "c", "live": True}),
        ("crates", {"label": None}, {"label": None}),
        ("crates", {"label": {"$gt": 1}}, {"label": {"$gt": 1}}),
    ],
)
def test_no_undecided_value_refuses_anybody(
    crates: Db, mode: Mode, name: str, theirs: Document, ours: Document
) -> None:
    """Whether its unique index has a collation, or is partial or sparse."""
    of_the_living = {"partialFilterExpression": {"live": True}, "name": "codes of the living"}
    crates.partial.create_index([("code", 1)], unique=True, **of_the_living)
    crates.partial.insert_one({"_id": 1, "code": "c"})
    txn = undecided(crates)
    crates[name].insert_one({"_id": 21, **theirs, "txn_stub": txn, "txn_lock": txn})
    plan = [Step(name, 22, insert=ours)]
    with pytest.raises(Busy):
        Transactions(crates, mode, timeout_seconds=1).run("try", plan)
    crates[name].update_one({"_id": 21}, {"$unset": {"txn_stub": "", "txn_lock": ""}})
    with pytest.raises(AlreadyExists):
        Transactions(crates, mode).run("try", plan)


@pytest.mark.parametrize("mode", ["native", "two-phase"])
def test_no_undecided_value_refuses_an_update(crates: Db, mode: Mode) -> None:
    txn = undecided(crates)
    crates.caseless.insert_many([{"_id": 1}, {"_id": 2, "login": "ada", "txn_stub": txn, "txn_lock": txn}])
    rename = [Step("caseless", 1, give={"$set": {"login": "ADA"}})]
    with pytest.raises(Busy):
        Transactions(crates, mode, timeout_seconds=1).run("try", rename)
    crates.caseless.update_one({"_id": 2}, {"$unset": {"txn_stub": "", "txn_lock": ""}})
    with pytest.raises(AlreadyExists):
        Transactions(crates, mode).run("try", rename)


# ---- recovery ----


def test_a_validator_that_refuses_tombstones_does_not_keep_the_rest_from_being_undone(
    crates: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    crates.strict.insert_one({"_id": 1, "n": 1})
    plan = [Step("crates", 1, give={"$set": {"n": 1}}), Step("strict", 1, give={"$set": {"n": 2}})]
    with monkeypatch.context() as patch:
        patch.setattr(recovery, "roll_back", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            Transactions(crates, "two-phase").run("try", plan)
    crates.transactions.update_many({}, {"$set": {"due_at": LONG_AGO}})
    assert Transactions(crates).recover() == {"rolled back": 1}
    Transactions(crates, timeout_seconds=3).run("try", plan)


def test_a_date_that_python_has_no_value_for_does_not_end_recover(crates: Db, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(recovery, "finish", lambda *args: None)
        Transactions(crates, "two-phase").run("try", [Step("crates", 1, give={"$set": {"far": FAR}})])
    crates.transactions.update_many({}, {"$set": {"due_at": LONG_AGO}})
    assert [problem.code for problem in find_stuck(crates)] == ["stuck-transaction"]
    assert Transactions(crates).recover() == {"finished": 1}
    assert crates.crates.count_documents({"_id": 1, "far": FAR}) == 1


def test_a_transaction_of_ones_own_has_aware_times_with_any_client(crates: Db, mongod: Embedded) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    with MongoClient[Document](mongod.uri) as plain:
        for _ in range(2):
            told = once(plain[crates.name], "try", lambda session: {"at": now}, key="k", arguments={})
            assert told == {"at": now}
