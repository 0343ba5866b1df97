"""Guarded steps, without a server."""

from __future__ import annotations

import re
from typing import Any
from uuid import uuid4

import pytest
from bson.decimal128 import Decimal128
from bson.regex import Regex

from squinney.errors import Conflict
from squinney.patterns.ids import new_id
from squinney.transactions import Plan, Step


@pytest.mark.parametrize(
    "wrong",
    [
        {"update": {"a": 1}},
        {"update": {"$set": "a"}},
        {"update": [{"$set": {"a": 1}}]},
        {"insert": {"a": 1}, "update": {"$inc": {"a": 1}}},
        {"delete": True, "update": {"$inc": {"a": 1}}},
        {"insert": {}, "delete": True},
        {"insert": {}, "guard": {"a": 1}},
        {"insert": {"_id": 2}},
        {"insert": {"a": {"b": 1}}, "route": {"a.b": 2}},
        {"guard": {"items.n": 1}, "update": {"$set": {"items.$.n": 2}}},
    ],
    ids=repr,
)
def test_a_step_that_makes_no_sense_is_refused_at_once(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"step|route"):
        Step("things", 1, **wrong)


@pytest.mark.parametrize("id_", [{"$gt": ""}, re.compile("."), Regex(".")], ids=repr)
def test_an_id_is_never_a_condition_that_finds_some_other_document(id_: Any) -> None:
    for step in ({"id": id_}, {"id": 1, "route": {"a": id_}}, {"id": 1, "route": {"$and": [{"a": 1}]}}):
        with pytest.raises(ValueError, match="must be a value, not a condition"):
            Step("things", **step)


def test_a_callable_that_gives_no_error_leaves_the_usual_one() -> None:
    """Otherwise the run would not be refused, but retried until its time is over."""
    told: Any = {"refused": lambda document: None}
    assert isinstance(Step("things", 1, **told).refusal(None), Conflict)


def test_an_error_that_is_not_ours_is_no_refusal() -> None:
    with pytest.raises(TypeError, match="refused must be a SquinneyError class or a function, not ValueError"):
        Step("jars", "a", refused=ValueError)  # type: ignore[arg-type]


def test_an_inserted_document_may_have_its_route_within() -> None:
    assert Step("things", 1, insert={"a": {"b": 1}}, route={"a.b": 1, "c": None}).route


def test_steps_leave_the_field_of_the_checks_alone() -> None:
    for fields in ({"update": {"$inc": {"txn_checks": 1}}}, {"update": {"$rename": {"a": "txn_checks.b"}}}):
        with pytest.raises(ValueError, match="must not change the field txn_checks"):
            Step("rooms", 1, **fields)
    with pytest.raises(ValueError, match="must not insert the field txn_checks"):
        Step("rooms", 1, insert={"txn_checks": 1})


@pytest.mark.parametrize(
    ("guard", "may"),
    [
        ({}, True),
        ({"beans": {"$gte": 1}, "note": "$expr"}, True),
        ({"$expr": {"$gt": ["$beans", 1]}}, False),
        ({"$or": ({"a": 1}, {"$and": [{"$expr": True}]})}, False),
    ],
    ids=repr,
)
def test_an_update_may_be_an_upsert_unless_its_guard_has_an_expression(guard: dict[str, Any], may: bool) -> None:
    assert Step("rooms", 1, guard=guard).may_upsert == may
    assert not Step("rooms", 1, guard=guard, delete=True).may_upsert
    assert not Step("rooms", 1, insert={}).may_upsert


def test_a_document_has_one_step() -> None:
    with pytest.raises(ValueError, match=r"one step per document: things {'a': 1} has more"):
        Plan([Step("things", {"a": 1}), Step("things", {"a": 1}, delete=True)])
    Plan(
        [Step("things", one) for one in (True, 1, "1", uuid4(), uuid4(), 1.5, Decimal128("NaN"))] + [Step("others", 1)]
    )


def test_array_filters_go_only_where_they_are_used() -> None:
    filters = [{"item.sku": "a"}]
    assert (
        Step("a", 1, update={"$inc": {"items.$[item].qty": 1}}, array_filters=filters).write()["arrayFilters"]
        == filters
    )
    assert "arrayFilters" not in Step("a", 1, update={"$inc": {"qty": 1}}, array_filters=filters).write()


def test_ids_sort_by_age_and_do_not_repeat() -> None:
    ids = [new_id() for _ in range(10_000)]
    assert len(set(ids)) == len(ids)
    assert [one[:10] for one in ids] == sorted(one[:10] for one in ids)
    assert {len(one) for one in ids} == {26}
