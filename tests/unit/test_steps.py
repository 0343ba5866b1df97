"""Guarded steps, as far as they are pure."""

from __future__ import annotations

from typing import Any

import pytest

from squinney.patterns.ids import new_id
from squinney.transactions import Step
from squinney.transactions.steps import array_filters_for, merge, require_one_step_per_document


@pytest.mark.parametrize(
    "wrong",
    [
        {"take": {"$inc": {"a": 1}}},
        {"undo": {"$inc": {"a": 1}}},
        {"give": {"a": 1}},
        {"insert": {"a": 1}, "give": {"$inc": {"a": 1}}},
        {"insert": {}, "delete": True},
        {"insert": {}, "guard": {"a": 1}},
        {"insert": {"_id": 2}},
        {"take": {"$set": {"a": 1}}, "undo": {"$set": {"a": 0}}, "give": {"$set": {"a": 2}}},
        {"take": {"$inc": {"a.b": 1}}, "undo": {"$inc": {"a.b": -1}}, "give": {"$unset": {"a": ""}}},
    ],
    ids=repr,
)
def test_a_step_that_makes_no_sense_is_refused_at_once(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"step|take"):
        Step("things", 1, **wrong)


def test_only_plain_additions_commute() -> None:
    assert not Step("things", 1, give={"$inc": {"a": 1}, "$push": {"b": 1}}).exclusive
    assert Step("things", 1, give={"$set": {"a": 1}}).exclusive
    assert Step("things", 1, delete=True).exclusive
    assert Step("things", 1, take={"$inc": {"a": 1}}, undo={"$set": {"a": 0}}).exclusive


@pytest.mark.parametrize(
    "guard",
    [
        {"lines.0.qty": {"$lt": 9}},
        {"lines": {"$elemMatch": {"qty": 1}}},
        {"$or": [{"a": 1}, {"$and": [{"lines.qty": {"$lt": 9}}]}]},
        {"$expr": {"$lt": ["$lines.0.qty", 9]}},
    ],
    ids=repr,
)
def test_a_give_to_what_the_guard_looks_at_does_not_commute(guard: dict[str, Any]) -> None:
    give = {"$inc": {"lines.$[line].qty": 1}}
    assert Step("things", 1, guard=guard, give=give).exclusive
    assert not Step("things", 1, guard=guard, give=give, may_overshoot=True).exclusive
    assert not Step("things", 1, guard={"a": 1, "line": 1}, give=give).exclusive
    assert not Step("things", 1, guard=guard, take=give, undo={"$inc": {"lines.$[line].qty": -1}}).exclusive


def test_a_take_from_a_value_that_the_guard_names_does_not_commute() -> None:
    """It may be of a run that is not decided, and takes it back."""
    change = {"take": {"$inc": {"a": 1}}, "undo": {"$inc": {"a": -1}}}
    assert Step("things", 1, guard={"a": 3}, **change).exclusive
    assert not Step("things", 1, guard={"a": {"$lt": 3}, "b": 1}, **change).exclusive


def test_updates_merge_into_one() -> None:
    merged = merge({"$inc": {"a": 1, "b": 2}, "$push": {"c": 1}}, {"$inc": {"a": -3}, "$push": {"c": {"$each": [2]}}})
    assert merged == {"$inc": {"a": -2, "b": 2}, "$push": {"c": {"$each": [1, 2]}}}
    with pytest.raises(ValueError, match="one path twice"):
        merge({"$set": {"a": 1}}, {"$set": {"a": 2}})


def test_a_document_has_one_step() -> None:
    with pytest.raises(ValueError, match="one step per document"):
        require_one_step_per_document([Step("things", {"a": 1}), Step("things", {"a": 1}, delete=True)])
    require_one_step_per_document([Step("things", 1), Step("things", "1"), Step("others", 1)])


def test_array_filters_go_only_where_they_are_used() -> None:
    filters = [{"item.sku": "a"}]
    assert array_filters_for({"$inc": {"items.$[item].qty": 1}}, filters) == filters
    assert array_filters_for({"$inc": {"qty": 1}}, filters) is None


def test_ids_sort_by_age_and_do_not_repeat() -> None:
    ids = [new_id() for _ in range(10_000)]
    assert len(set(ids)) == len(ids)
    assert [one[:10] for one in ids] == sorted(one[:10] for one in ids)
    assert {len(one) for one in ids} == {26}
