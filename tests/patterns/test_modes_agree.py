"""Both modes: the same plan on the same data has the same outcome, the same error, and leaves the same documents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from bson.decimal128 import Decimal128
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.sizes import IN_FULL, heavy

from squinney import transactions
from squinney.errors import SquinneyError
from squinney.mongo import schema
from squinney.mongo.schema import Collection, Db, Document, Index
from squinney.transactions import PROTOCOL_FIELDS, Step, Transactions

BOXES = Collection(
    "boxes",
    indexes=[
        Index([("label", 1)], unique=True, sparse=True),
        Index([("code", 1)], unique=True, partial={"live": True}),
    ],
    validator={"$jsonSchema": {"properties": {"size": {"bsonType": "int", "maximum": 9}}}},
    escrow={"beans": "floor", "used": "ceiling"},
)
START = [
    {"_id": 1, "beans": 10, "used": 0, "label": "x", "items": [{"n": 1, "q": 1}, {"n": 2, "q": 2}]},
    {"_id": 2, "beans": 5, "used": 9, "label": "y", "size": 9, "code": "c", "live": True},
    {"_id": 3, "beans": "many", "used": 0, "code": "c"},
]


class First(SquinneyError):
    code = "first"


class Second(SquinneyError):
    code = "second"


def outcome(db: Db, mode: transactions.Mode, plan: Sequence[Step]) -> tuple[str, list[Document]]:
    """Return the result or error of a run, and the documents after it."""
    db.boxes.delete_many({})
    db.boxes.insert_many([dict(box) for box in START])
    try:
        Transactions(db, mode, timeout_seconds=5).run("try", plan)
        said = "done"
    except SquinneyError as error:
        said = error.code
    hidden = dict.fromkeys(PROTOCOL_FIELDS, 0)
    assert db.boxes.find_one({"$or": [{"txns.0": {"$exists": True}}, {"txn_lock": {"$ne": None}}]}) is None
    assert db.transactions.find_one() is None
    return said, list(db.boxes.find({}, hidden).sort("_id"))


@pytest.fixture
def boxes(db: Db) -> Db:
    schema.apply(db, [*transactions.COLLECTIONS, BOXES])
    db.boxes.insert_many([dict(box) for box in START])
    return db


def put(box: Any, **fields: Any) -> Step:
    return Step("boxes", box, insert=fields)


def change(box: Any, **fields: Any) -> Step:
    return Step("boxes", box, give={"$set": fields})


PLANS: dict[str, tuple[Callable[[], list[Step]], str]] = {
    "a value goes from a deleted document to a new one": (
        lambda: [Step("boxes", 1, delete=True), put(7, label="x")],
        "done",
    ),
    "a value is handed from one document to another": (lambda: [change(1, label="z"), change(2, label="x")], "done"),
    "a value is given that another has": (lambda: [change(1, label="y")], "already-exists"),
    "a value is given that another has, after a change of nothing": (
        lambda: [change(2, size=9), change(1, label="y")],
        "already-exists",
    ),
    "a value is inserted that another has": (lambda: [put(7, label="y")], "already-exists"),
    "one value twice": (lambda: [put(7, label="new"), put(8, label="new")], "already-exists"),
    "a partial index does not hold the other": (lambda: [put(7, code="c")], "done"),
    "a partial index holds the other": (lambda: [put(7, code="c", live=True)], "already-exists"),
    "a document comes into a partial index": (lambda: [change(3, live=True)], "already-exists"),
    "a duplicate before a failing guard": (
        lambda: [put(1), Step("boxes", 2, guard={"beans": 0}, refused=First)],
        "already-exists",
    ),
    "a failing guard before a duplicate": (
        lambda: [Step("boxes", 2, guard={"beans": 0}, refused=First), put(1)],
        "first",
    ),
    "two failing guards, against the order of the ids": (
        lambda: [
            Step("boxes", 2, guard={"beans": 0}, refused=Second),
            Step("boxes", 1, guard={"beans": 0}, refused=First),
        ],
        "second",
    ),
    "a validator refuses a give": (lambda: [change(1, size=10)], "write-refused"),
    "a validator refuses an insert": (lambda: [put(7, size=10)], "write-refused"),
    "an operator does not fit": (lambda: [Step("boxes", 3, give={"$inc": {"beans": 1}})], "write-refused"),
    "a shared give does not fit": (
        lambda: [Step(BOXES, 3, give={"$inc": {"beans": 1}}, shared=True, refused=First)],
        "first",
    ),
    "a refused write after a failing guard": (
        lambda: [Step("boxes", 1, guard={"beans": 0}, refused=First), change(2, size=10)],
        "first",
    ),
    "two array filters": (
        lambda: [
            Step(
                "boxes",
                1,
                take={"$inc": {"items.$[f].q": -1}},
                give={"$inc": {"items.$[t].q": 1}},
                array_filters=[{"f.n": 1}, {"t.n": 2}],
            )
        ],
        "done",
    ),
    "an array filter too many": (
        lambda: [
            Step("boxes", 1, give={"$inc": {"items.$[f].q": -1}}, array_filters=[{"f.n": 1}, {"other.n": 2}]),
        ],
        "write-refused",
    ),
    "an array filter that is missing": (lambda: [Step("boxes", 1, give={"$inc": {"a.$[f]": 1}})], "write-refused"),
    "nearly too large": (lambda: [put(7, text="x" * (16 * 2**20 - 60))], "done"),
    "too large": (lambda: [put(7, text="x" * (16 * 2**20))], "write-refused"),
    "decimals on one path": (
        lambda: [
            Step("boxes", 1, take={"$inc": {"beans": Decimal128("-1.5")}}, give={"$inc": {"beans": Decimal128("0.5")}})
        ],
        "done",
    ),
    "an id is asked for that is not there": (lambda: [change(9, a=1)], "conflict"),
    "take and give meet in a path": (
        lambda: [Step("boxes", 1, take={"$inc": {"a.b": 1}}, give={"$unset": {"a": ""}})],
        "write-refused",
    ),
    "the id is changed": (lambda: [change(1, _id=2)], "write-refused"),
}


@pytest.mark.parametrize("name", PLANS)
def test_both_modes_do_the_same(boxes: Db, name: str) -> None:
    plan, expected = PLANS[name]
    native, two_phase = outcome(boxes, "native", plan()), outcome(boxes, "two-phase", plan())
    assert native[0] == expected
    assert two_phase == native


def test_no_driver_error_comes_through(boxes: Db) -> None:
    with pytest.raises(transactions.WriteRefused, match=r"boxes 1: .*validation") as caught:
        Transactions(boxes).run("grow", [change(1, size=10)])
    assert caught.value.details == {"collection": "boxes", "document_id": "1"}


def test_a_refusal_without_an_error_of_its_own_names_step_and_document(boxes: Db) -> None:
    with pytest.raises(SquinneyError, match="boxes 9 does not exist"):
        Transactions(boxes).run("grow", [change(9, size=1)])
    with pytest.raises(SquinneyError, match=r"boxes 1 does not match the guard \{'beans': 0\}"):
        Transactions(boxes).run("grow", [Step("boxes", 1, guard={"beans": 0})])


# ---- random plans ----

IDS = st.sampled_from([1, 2, 3, 4, 1.0])
GUARDS = st.sampled_from(
    [{}, {"beans": 10}, {"beans": {"$gte": 5}}, {"label": "x"}, {"$or": [{"used": 0}, {"live": True}]}, {"size": None}]
)
UPDATES = st.sampled_from(
    [
        {"$set": {"label": "x"}},
        {"$set": {"label": "z"}},
        {"$unset": {"label": ""}},
        {"$set": {"size": 10}},
        {"$inc": {"beans": 1}},
        {"$inc": {"size": 1}},
        {"$push": {"items": {"n": 3}}},
        {"$pull": {"items": {"n": 1}}},
        {"$set": {"live": True}},
        {"$rename": {"label": "old"}},
    ]
)
INSERTS = st.sampled_from([{}, {"label": "x"}, {"label": "z"}, {"size": 10}, {"code": "c", "live": True}, {"beans": 1}])
REFUSALS = st.sampled_from([First, Second])


@st.composite
def any_step(draw: st.DrawFn) -> Step:
    """Draw a step of any kind; if it cannot be constructed, draw another."""
    box, refused = draw(IDS), draw(REFUSALS)
    kind = draw(st.sampled_from(["insert", "delete", "give", "take", "guard", "floor", "ceiling"]))
    if kind == "insert":
        return Step("boxes", box, insert=draw(INSERTS))
    if kind == "delete":
        return Step("boxes", box, guard=draw(GUARDS), delete=True, refused=refused)
    if kind in ("give", "take"):
        return Step("boxes", box, guard=draw(GUARDS), refused=refused, **{kind: draw(UPDATES)})
    if kind == "guard":
        return Step("boxes", box, guard=draw(GUARDS), refused=refused)
    amount = draw(st.integers(1, 6))
    if kind == "floor":
        guard, take = {"beans": {"$gte": amount}}, {"$inc": {"beans": -amount}}
        return Step(BOXES, box, guard=guard, take=take, shared=True, refused=refused)
    guard, take = {"used": {"$lte": 10 - amount}}, {"$inc": {"used": amount}}
    return Step(BOXES, box, guard=guard, take=take, give={"$inc": {"beans": 1}}, shared=True, refused=refused)


PLANS_OF_STEPS = st.lists(any_step(), min_size=1, max_size=4, unique_by=lambda step: float(step.id))


@heavy
def test_random_plans_do_the_same_in_both_modes(boxes: Db) -> None:
    seen: dict[str, int] = {}

    @settings(
        max_examples=10_000 if IN_FULL else 150,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(PLANS_OF_STEPS)
    def agree(plan: list[Step]) -> None:
        native, two_phase = outcome(boxes, "native", plan), outcome(boxes, "two-phase", plan)
        assert native == two_phase
        seen[native[0]] = seen.get(native[0], 0) + 1

    agree()
    assert {"done", "first", "second", "already-exists", "write-refused"} <= seen.keys()
