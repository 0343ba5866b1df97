"""Guarded steps, without a server."""

from __future__ import annotations

import re
from typing import Any
from uuid import uuid4

import pytest
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.regex import Regex
from bson.timestamp import Timestamp

from squinney.errors import Conflict
from squinney.mongo.schema import Collection
from squinney.patterns.ids import new_id
from squinney.transactions import Plan, Step
from squinney.transactions.steps import array_filters_for, merge


@pytest.mark.parametrize(
    "wrong",
    [
        {"undo": {"$inc": {"a": 1}}},
        {"give": {"a": 1}},
        {"insert": {"a": 1}, "give": {"$inc": {"a": 1}}},
        {"insert": {}, "delete": True},
        {"insert": {}, "guard": {"a": 1}},
        {"insert": {"_id": 2}},
        {"take": {"$set": {"a": 1}}, "undo": {"$set": {"a": 0}}, "give": {"$set": {"a": 2}}},
        {"insert": {"a": {"b": 1}}, "route": {"a.b": 2}},
        {"insert": {"txns": ["somebody"]}},
        {"insert": {"txn_lock": 0}},
        {"insert": {"a": 1, "at": Timestamp(0, 0)}},
        {"give": {"$set": "a"}},
        {"give": [{"$set": {"a": 1}}]},
        {"guard": {"items.n": 1}, "give": {"$set": {"items.$.n": 2}}},
        {"guard": {"$or": [{"$text": {"$search": "a"}}]}},
        {"guard": {"at": {"$near": [1, 1]}}},
    ],
    ids=repr,
)
def test_a_step_that_makes_no_sense_is_refused_at_once(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"step|take|undo"):
        Step("things", 1, **wrong)


@pytest.mark.parametrize("id_", [{"$gt": ""}, re.compile("."), Regex(".")], ids=repr)
def test_an_id_is_never_a_condition_that_finds_some_other_document(id_: Any) -> None:
    for step in ({"id": id_}, {"id": 1, "route": {"a": id_}}, {"id": 1, "route": {"$and": [{"a": 1}]}}):
        with pytest.raises(ValueError, match="must be a value, not a condition"):
            Step("things", **step)


@pytest.mark.parametrize("name", ["", "a$b", "a..b", ".a", "a\0", "system.views", "a" * 200])
def test_a_name_that_the_driver_would_refuse_later_is_refused_at_once(name: str) -> None:
    with pytest.raises(ValueError, match="not a valid collection name"):
        Step(name, 1)


def test_a_callable_that_gives_no_error_leaves_the_usual_one() -> None:
    """Otherwise the run would not be refused, but retried until its time is over."""
    told: Any = {"refused": lambda document: None}
    assert isinstance(Step("things", 1, **told).refusal(None), Conflict)


def test_an_error_that_is_not_ours_is_no_refusal() -> None:
    with pytest.raises(TypeError, match="refused must be a SquinneyError class or a function, not ValueError"):
        Step("jars", "a", refused=ValueError)  # type: ignore[arg-type]


def test_an_inserted_document_may_have_its_route_within() -> None:
    assert Step("things", 1, insert={"a": {"b": 1}}, route={"a.b": 1, "c": None}).route


ROOMS = Collection("rooms", escrow={"beans": "floor", "used": "ceiling", "seen": "free"})


@pytest.mark.parametrize(
    "fields",
    [
        {"guard": {"beans": {"$gte": 3}}, "take": {"$inc": {"beans": -3}}, "give": {"$inc": {"seen": -1}}},
        {
            "guard": {"beans": {"$gte": 3}, "closed": None},
            "take": {"$inc": {"beans": -3}},
            "give": {"$inc": {"beans": 1}},
        },
        {"guard": {"used": {"$lt": 10}}, "take": {"$inc": {"used": 1}}, "undo": {"$inc": {"used": -1}}},
        {"guard": {"used": {"$lte": 8}, "$or": [{"a": 1}, {"b": 2}]}, "take": {"$inc": {"used": 2}}},
        {"give": {"$inc": {"beans": 3, "used": -1}}},
        {"guard": {"beans": {"$lte": 99}}, "give": {"$inc": {"beans": 3}}, "may_overshoot": True},
        {"guard": {"closed": None}},
    ],
    ids=repr,
)
def test_the_escrow_shape_may_be_shared(fields: dict[str, Any]) -> None:
    assert Step(ROOMS, 1, shared=True, **fields).shared


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"guard": {"used": {"$gte": 1}}, "take": {"$inc": {"used": -1}}}, "shared takes raise it"),
        ({"guard": {"beans": {"$lt": 9}}, "take": {"$inc": {"beans": 1}}}, "shared takes lower it"),
        ({"guard": {"beans": {"$gte": 10}}, "take": {"$inc": {"beans": -1}}}, "must require the amount"),
        ({"take": {"$inc": {"beans": -1}}}, "must require the amount"),
        ({"take": {"$inc": {"used": 1}}}, "must be a limit"),
        ({"guard": {"used": {"$lt": 9, "$gt": 1}}, "take": {"$inc": {"used": 1}}}, "must be a limit"),
        ({"guard": {"used": {"$lt": "9"}}, "take": {"$inc": {"used": 1}}}, "must be a limit"),
        ({"guard": {"beans": {"$gte": 3}}, "take": {"$inc": {"beans": -3}}, "route": {"beans": 9}}, "reads beans"),
        ({"guard": {"beans": {"$gte": 1}}, "give": {"$inc": {"seen": 1}}}, "reads beans"),
        ({"guard": {"$expr": {"$gt": ["$beans", 1]}}}, "the whole document"),
        ({"guard": {"$or": [{"a": 1}, {"used": 1}]}}, "reads used"),
        ({"guard": {"seen": 0}}, "reads seen"),
        ({"guard": {"beans": {"$lte": 99}}, "give": {"$inc": {"beans": 3}}}, "reads beans"),
        ({"give": {"$inc": {"beans": -3}}}, "shared gives raise it"),
        ({"give": {"$inc": {"used": 3}}}, "shared gives lower it"),
        ({"take": {"$inc": {"seen": 3}}}, "but not take from it"),
        ({"give": {"$inc": {"other": 3}}}, "whose direction is declared"),
        ({"give": {"$set": {"beans": 3}}}, "and nothing else"),
        ({"give": {"$inc": {"beans": 0.5}}}, "a whole number"),
        ({"give": {"$inc": {"beans": True}}}, "a whole number"),
        ({"give": {"$inc": {"beans": Decimal128("1")}}}, "a whole number"),
        ({"guard": {"beans": {"$gte": 9}}, "give": {"$inc": {"beans": 3}}, "may_overshoot": True}, "reads beans"),
        ({"guard": {"seen": {"$lte": 9}}, "give": {"$inc": {"seen": 3}}, "may_overshoot": True}, "reads seen"),
        ({"insert": {"beans": 1}}, "cannot be shared"),
        ({"delete": True}, "cannot be shared"),
        (
            {"guard": {"beans": {"$gte": 3}}, "take": {"$inc": {"beans": -3}}, "undo": {"$inc": {"beans": 2}}},
            "signs changed",
        ),
    ],
    ids=repr,
)
def test_any_other_shape_cannot_be_shared(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Step(ROOMS, 1, shared=True, **fields)


def test_a_shared_step_needs_its_collection() -> None:
    with pytest.raises(ValueError, match="needs its Collection"):
        Step("rooms", 1, give={"$inc": {"beans": 1}}, shared=True)
    with pytest.raises(ValueError, match="only a shared step may overshoot"):
        Step(ROOMS, 1, give={"$inc": {"beans": 1}}, may_overshoot=True)


def test_steps_leave_the_protocols_fields_alone() -> None:
    with pytest.raises(ValueError, match="fields of the protocol"):
        Step("rooms", 1, give={"$push": {"txns": 1}})
    with pytest.raises(ValueError, match="fields of the protocol"):
        Step("rooms", 1, insert={"txn_stub": 1})


def test_updates_merge_into_one() -> None:
    merged = merge({"$inc": {"a": 1, "b": 2}, "$push": {"c": 1}}, {"$inc": {"a": -3}, "$push": {"c": {"$each": [2]}}})
    assert merged == {"$inc": {"a": -2, "b": 2}, "$push": {"c": {"$each": [1, 2]}}}
    with pytest.raises(ValueError, match="one path twice"):
        merge({"$set": {"a": 1}}, {"$set": {"a": 2}})


def test_a_document_has_one_step() -> None:
    with pytest.raises(ValueError, match=r"one step per document: things {'a': 1} has more"):
        Plan([Step("things", {"a": 1}), Step("things", {"a": 1}, delete=True)])
    Plan([Step("things", 1), Step("things", "1"), Step("others", 1)])
    for one, same in [(1, 1.0), (Int64(2), Decimal128("2.00")), ({"a": 1}, {"a": 1.0}), ({"a": [1]}, {"a": [1.0]})]:
        with pytest.raises(ValueError, match="one step per document"):
            Plan([Step("things", one), Step("things", same)])
    Plan([Step("things", one) for one in (True, 1, uuid4(), uuid4(), 1.5, float("inf"), "NaN", Decimal128("NaN"))])


def test_decimals_add_up() -> None:
    step = Step("things", 1, take={"$inc": {"a": Decimal128("1.10")}}, give={"$inc": {"a": 2}})
    assert step.update == {"$inc": {"a": Decimal128("3.10")}}
    tiny = Decimal128("1E-33")
    long = Step("things", 1, take={"$inc": {"a": Decimal128("1")}}, give={"$inc": {"a": tiny}})
    assert long.update == {"$inc": {"a": Decimal128("1." + "0" * 32 + "1")}}


def test_array_filters_go_only_where_they_are_used() -> None:
    filters = [{"item.sku": "a"}]
    assert array_filters_for({"$inc": {"items.$[item].qty": 1}}, filters) == filters
    assert array_filters_for({"$inc": {"qty": 1}}, filters) is None


def test_ids_sort_by_age_and_do_not_repeat() -> None:
    ids = [new_id() for _ in range(10_000)]
    assert len(set(ids)) == len(ids)
    assert [one[:10] for one in ids] == sorted(one[:10] for one in ids)
    assert {len(one) for one in ids} == {26}
