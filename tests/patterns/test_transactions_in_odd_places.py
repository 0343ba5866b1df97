"""Guarded steps in unusual cases of the server, the driver or the document: done or refused, and never half."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from bson.codec_options import DatetimeConversion
from bson.datetime_ms import DatetimeMS
from bson.decimal128 import Decimal128
from pymongo import MongoClient

from squinney import transactions
from squinney.errors import SquinneyError
from squinney.mongo import schema
from squinney.mongo.embedded import Embedded
from squinney.mongo.schema import Collection, Db, Document, Index
from squinney.transactions import CHECKS_FIELD, Plan, Step, Transactions, apply_steps, in_transaction, once

BOXES = Collection(
    "boxes",
    indexes=[
        Index([("label", 1)], unique=True, sparse=True),
        Index([("code", 1)], unique=True, partial={"live": True}),
    ],
    validator={"$jsonSchema": {"properties": {"size": {"bsonType": "int", "maximum": 9}}}},
)
COUNTING = Collection("counting", validator={"$jsonSchema": {"minProperties": 3}})
STRICT = Collection(
    "strict", validator={"$jsonSchema": {"properties": {"_id": {}, "n": {}}, "additionalProperties": False}}
)
CASELESS = Collection(
    "caseless", indexes=[Index([("login", 1)], unique=True, collation={"locale": "en", "strength": 2})]
)
FAR = DatetimeMS(10**15)  # the year 33658
START: dict[str, list[Document]] = {
    "boxes": [
        {"_id": 1, "beans": 10, "label": "x", "items": [{"n": 1, "q": 1}, {"n": 2, "q": 2}]},
        {"_id": 2, "beans": 5, "label": "y", "size": 9, "code": "c", "live": True},
        {"_id": 3, "beans": "many", "code": "c"},
        {"_id": 4, "far": FAR, "beans": 2**62},
    ],
    "capped": [{"_id": 1, "n": 1}],
    "counting": [{"_id": 1, "a": 1, "b": 1}],
    "strict": [{"_id": 1, "n": 1}],
    "folded": [{"_id": "a"}],
    "caseless": [{"_id": 1, "login": "ada"}, {"_id": 2, "login": ["bob", "eve"]}, {"_id": 3}],
}


class First(SquinneyError):
    code = "first"


class Second(SquinneyError):
    code = "second"


@pytest.fixture
def boxes(db: Db) -> Db:
    schema.apply(db, [*transactions.COLLECTIONS, BOXES, COUNTING, STRICT, CASELESS])
    db.create_collection("capped", capped=True, size=10_000)
    db.create_collection("folded", collation={"locale": "en", "strength": 2})
    db.create_collection("series", timeseries={"timeField": "at"})
    db.create_collection("view", viewOn="boxes", pipeline=[])
    for name, documents in START.items():
        db[name].insert_many([dict(document) for document in documents])
    return db


def put(box: Any, **fields: Any) -> Step:
    return Step("boxes", box, insert=fields)


def change(box: Any, **fields: Any) -> Step:
    return Step("boxes", box, update={"$set": fields})


def add(box: Any, path: str, amount: Any, **others: Any) -> Step:
    return Step("boxes", box, update={"$inc": {path: amount}}, **others)


def nested(depth: int) -> Document:
    return {"in": nested(depth - 1)} if depth else {}


PLANS: dict[str, tuple[Callable[[], Sequence[Step] | Plan], str]] = {
    # unique values
    "a value goes from a deleted document to a new one": (
        lambda: [Step("boxes", 1, delete=True), put(7, label="x")],
        "done",
    ),
    "a value is inserted before its holder goes": (
        lambda: [put(7, label="x"), Step("boxes", 1, delete=True)],
        "already-exists",
    ),
    "a value is handed from one document to another": (lambda: [change(1, label="z"), change(2, label="x")], "done"),
    "a value is given that another has": (lambda: [change(1, label="y")], "already-exists"),
    "a value is given that another has, after a change of nothing": (
        lambda: [change(2, size=9), change(1, label="y")],
        "already-exists",
    ),
    "one value twice": (lambda: [put(7, label="new"), put(8, label="new")], "already-exists"),
    "no value twice": (lambda: [put(7, label=None), put(8, label=None)], "already-exists"),
    "a value that looks like a condition": (
        lambda: [put(7, label={"$gt": 1}), put(8, label={"$gt": 1})],
        "already-exists",
    ),
    "a partial index does not hold the other": (lambda: [put(7, code="c")], "done"),
    "a partial index holds the other": (lambda: [put(7, code="c", live=True)], "already-exists"),
    "a document comes into a partial index": (lambda: [change(3, live=True)], "already-exists"),
    "a value that differs by its case": (lambda: [Step("caseless", 7, insert={"login": "ADA"})], "already-exists"),
    "a part of a value that differs by its case": (
        lambda: [Step("caseless", 7, insert={"login": ["EVE"]})],
        "already-exists",
    ),
    "an update to a value that differs by its case": (
        lambda: [Step("caseless", 3, update={"$set": {"login": "ADA"}})],
        "already-exists",
    ),
    # which error comes first
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
    "a rejected write after a failing guard": (
        lambda: [Step("boxes", 1, guard={"beans": 0}, refused=First), change(2, size=10)],
        "first",
    ),
    "a rejected write before a failing guard": (
        lambda: [change(2, size=10), Step("boxes", 1, guard={"beans": 0}, refused=First)],
        "write-refused",
    ),
    "an id is asked for that is not there": (lambda: [change(9, a=1)], "conflict"),
    # what the server rejects
    "a validator rejects an update": (lambda: [change(1, size=10)], "write-refused"),
    "a validator rejects an insert": (lambda: [put(7, size=10)], "write-refused"),
    "too few fields of an insert": (lambda: [Step("counting", 2, insert={"a": 1})], "write-refused"),
    "too few fields after an update": (lambda: [Step("counting", 1, update={"$unset": {"a": ""}})], "write-refused"),
    "a validator that allows no field of ours": (lambda: [Step("strict", 1)], "write-refused"),
    "a change of nothing under such a validator": (
        lambda: [Step("strict", 1, update={"$set": {"n": 1}})],
        "write-refused",
    ),
    "an operator does not fit": (lambda: [add(3, "beans", 1)], "write-refused"),
    "a number that cannot be counted": (lambda: [add(4, "beans", 2**62)], "write-refused"),
    "an operator that does not exist": (lambda: [Step("boxes", 1, update={"$nothing": {"a": 1}})], "write-refused"),
    "a guard that does not exist": (lambda: [Step("boxes", 1, guard={"a": {"$nothing": 1}})], "write-refused"),
    "the id is changed": (lambda: [change(1, _id=2)], "write-refused"),
    "a guard too large to send": (
        lambda: [Step("boxes", 1, guard={"n": {"$nin": ["x" * 2**20] * 17}})],
        "write-refused",
    ),
    "too large": (lambda: [put(7, text="x" * (16 * 2**20))], "write-refused"),
    "nearly too large": (lambda: [put(7, text="x" * (16 * 2**20 - 60))], "done"),
    # array filters
    "two array filters": (
        lambda: [
            Step(
                "boxes",
                1,
                update={"$inc": {"items.$[f].q": -1, "items.$[t].q": 1}},
                array_filters=[{"f.n": 1}, {"t.n": 2}],
            )
        ],
        "done",
    ),
    "an array filter too many": (
        lambda: [add(1, "items.$[f].q", -1, array_filters=[{"f.n": 1}, {"other.n": 2}])],
        "write-refused",
    ),
    "an array filter that is missing": (lambda: [add(1, "a.$[f]", 1)], "write-refused"),
    # values and ids
    "a decimal": (lambda: [add(1, "beans", Decimal128("-1.5"))], "done"),
    "steps too deep for a record": (lambda: [change(1, d=nested(176))], "done"),
    "a date that Python has no value for": (lambda: [change(1, far=FAR)], "done"),
    "a refused document with such a date": (lambda: [Step("boxes", 4, guard={"n": 1}, refused=First)], "first"),
    "a result that nobody keeps": (lambda: Plan([Step("boxes", 1)], result={1, 2}), "done"),
    "a UUID as id and as value": (lambda: [Step("boxes", UUID(int=1), insert={"n": UUID(int=2)})], "done"),
    "an id that no document may have": (lambda: [change([1], a=1)], "conflict"),
    "no id": (lambda: [put(None), change(1, a=1)], "done"),
    "no steps": (list, "done"),
    "two ids that a collation takes for one": (
        lambda: [Step("folded", "a", update={"$inc": {"n": 1}}), Step("folded", "A", update={"$inc": {"n": 1}})],
        "done",
    ),
    # collections that are none of the usual
    "a guard in a capped collection": (lambda: [Step("capped", 1, guard={"n": 1})], "write-refused"),
    "an insert into a capped collection": (lambda: [Step("capped", 2, insert={})], "write-refused"),
    "an insert into a time series": (lambda: [Step("series", 2, insert={"at": FAR})], "write-refused"),
    "a guard in a time series": (lambda: [Step("series", 1, guard={"n": 1})], "write-refused"),
    "a guard in a view": (lambda: [Step("view", 1, guard={"n": 1})], "write-refused"),
    "a collection that does not exist": (lambda: [Step("nothing", 1, insert={"a": 1})], "done"),
}


def everything(db: Db) -> list[Document]:
    """Return all documents, without the field of ours."""
    codec = db.codec_options.with_options(datetime_conversion=DatetimeConversion.DATETIME_AUTO)
    every = db.with_options(codec_options=codec)
    return [document for name in START for document in every[name].find({}, {CHECKS_FIELD: 0}).sort("_id")]


def as_steps(db: Db, plan: Sequence[Step] | Plan) -> object:
    return Transactions(db, timeout_seconds=5).run("try", plan)


def in_a_callback(db: Db, plan: Sequence[Step] | Plan) -> object:
    steps = plan.steps if isinstance(plan, Plan) else plan
    return in_transaction(db, lambda session: apply_steps(db, steps, session), seconds=5)


@pytest.mark.parametrize("run", [as_steps, in_a_callback])
@pytest.mark.parametrize("name", PLANS)
def test_it_is_done_or_refused_and_changes_nothing_then(
    boxes: Db, name: str, run: Callable[[Db, Sequence[Step] | Plan], object]
) -> None:
    plan, expected = PLANS[name]
    before = everything(boxes)
    try:
        run(boxes, plan())
        said = "done"
    except SquinneyError as error:
        said = error.code
    assert said == expected
    assert said == "done" or everything(boxes) == before
    assert boxes.transactions.find_one() is None


def test_what_a_validator_let_through_earlier_is_refused_by_the_guard(boxes: Db) -> None:
    boxes.command({"insert": "boxes", "documents": [{"_id": 9, "size": "many"}], "bypassDocumentValidation": True})
    with pytest.raises(First):
        Transactions(boxes).run("try", [add(9, "size", 1, guard={"size": {"$type": "int"}}, refused=First)])


def test_a_transaction_of_ones_own_has_aware_times_with_any_client(boxes: Db, mongod: Embedded) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    with MongoClient[Document](mongod.uri) as plain:
        for _ in range(2):
            told = once(plain[boxes.name], "try", lambda session: {"at": now}, key="k", arguments={})
            assert told == {"at": now}
