"""Name-value pairs: queries by equality and range, on several properties, with exact bounds on one index."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from squinney.errors import Invalid
from squinney.mongo.schema import Collection, apply
from squinney.patterns.attributes import Range, index, mapping, matches, pairs

NAMES = ["Seek Time", "rpm", "a.b", "$n"]
values = st.one_of(st.integers(0, 4), st.sampled_from(["5ms", "x", "$v", ""]), st.booleans(), st.just(2.0))


def test_pairs_are_sorted_and_a_list_becomes_several():
    stored = pairs({"rpm": 7200, "Colour": ["red", "blue"]})
    assert stored == [{"n": "Colour", "v": "red"}, {"n": "Colour", "v": "blue"}, {"n": "rpm", "v": 7200}]
    assert mapping(stored) == {"rpm": 7200, "Colour": ["red", "blue"]}


def same(stored, wanted):
    return type(stored) is type(wanted) or (not isinstance(stored, bool | str) and not isinstance(wanted, bool | str))


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.dictionaries(st.sampled_from(NAMES), values, max_size=4), max_size=12),
    st.dictionaries(st.sampled_from(NAMES), values, min_size=1, max_size=3),
)
def test_the_filter_finds_what_a_plain_comparison_finds(db, things, wanted):
    db.things.delete_many({})
    if things:
        db.things.insert_many({"_id": n, "properties": pairs(thing)} for n, thing in enumerate(things))
    found = {thing["_id"] for thing in db.things.find(matches(wanted))}
    assert found == {
        n
        for n, thing in enumerate(things)
        if all(name in thing and same(thing[name], want) and thing[name] == want for name, want in wanted.items())
    }


@pytest.fixture
def drives(db):
    apply(db, [Collection("drives", indexes=[index()])])
    db.drives.insert_many(
        {
            "_id": n,
            "properties": pairs({"rpm": n * 10, "maker": f"m{n % 10}", "ports": ["sata", f"p{n % 3}"], "heat": n % 50}),
        }
        for n in range(1000)
    )
    return db.drives


def explain(db, where):
    return db.command({"explain": {"find": "drives", "filter": where}, "verbosity": "executionStats"})


def test_several_conditions_hold_at_once(drives):
    found = drives.find(matches({"rpm": Range(at_least=1000, under=1200), "maker": "m3", "ports": "sata"}))
    assert sorted(drive["_id"] for drive in found) == [103, 113]


def test_a_range_takes_both_bounds_from_one_pair(db):
    db.drives.insert_one({"properties": pairs({"size": [1, 9]})})
    assert db.drives.count_documents(matches({"size": Range(over=2, under=8)})) == 0


def test_equality_examines_only_what_it_returns(db, drives):
    stats = explain(db, matches({"rpm": 4000}))["executionStats"]
    assert (stats["nReturned"], stats["totalKeysExamined"], stats["totalDocsExamined"]) == (1, 1, 1)


def test_a_range_has_tight_bounds_on_name_and_value(db, drives):
    plan = explain(db, matches({"rpm": Range(at_least=4000, under=4100)}))
    scan = plan["queryPlanner"]["winningPlan"]
    scan = scan.get("queryPlan", scan)["inputStage"]
    assert scan["stage"] == "IXSCAN"
    assert scan["indexBounds"] == {"properties.n": ['["rpm", "rpm"]'], "properties.v": ["[4000, 4100)"]}
    assert plan["executionStats"]["totalDocsExamined"] == plan["executionStats"]["nReturned"] == 10


def test_of_several_conditions_the_most_selective_drives_the_scan(db, drives):
    stats = explain(db, matches({"ports": "sata", "maker": "m5", "rpm": Range(at_least=4000, under=4100)}))
    assert stats["executionStats"]["totalDocsExamined"] <= 12
    assert stats["executionStats"]["nReturned"] == 1


@pytest.mark.parametrize("value", [None, float("nan"), float("inf"), {"$gt": 0}, b"x", 2**63, "x" * 1001, "\0", [[1]]])
def test_a_bad_value_is_refused(value):
    with pytest.raises(Invalid, match=r"properties\.rpm"):
        pairs({"rpm": value})
    with pytest.raises(Invalid, match=r"properties\.rpm"):
        matches({"rpm": value})


@pytest.mark.parametrize(("end", "offset"), [("0001-01-01T00:00", "+05:00"), ("9999-12-31T23:59", "-05:00")])
def test_a_time_beyond_the_ends_of_time_is_refused(end, offset):
    beyond = datetime.fromisoformat(end + offset)
    with pytest.raises(Invalid, match=r"properties\.made must be within"):
        pairs({"made": beyond})
    with pytest.raises(Invalid, match=r"properties\.made must be within"):
        matches({"made": Range(at_least=beyond)})


@pytest.mark.parametrize("name", ["", "x" * 201, "a\0b", 1, None])
def test_a_bad_name_is_refused(name):
    with pytest.raises(Invalid, match="properties name"):
        pairs({name: 1})
    with pytest.raises(Invalid, match="properties name"):
        matches({name: 1})


@pytest.mark.parametrize(
    "bounds",
    [
        Range(),
        Range(at_least=1, over=1),
        Range(at_most=1, under=1),
        Range(at_least=1, under="x"),
        Range(over=True, under=2),
    ],
)
def test_a_range_that_is_none_is_refused(bounds):
    with pytest.raises(Invalid, match=r"properties\.rpm"):
        matches({"rpm": bounds})


def test_too_many_and_no_mapping_are_refused():
    with pytest.raises(Invalid, match="at most 200"):
        pairs({"n": list(range(201))})
    with pytest.raises(Invalid):
        pairs([("n", 1)])
    with pytest.raises(Invalid):
        matches("n")


def test_times_are_values(db):
    at = datetime(2026, 11, 15, tzinfo=UTC)
    db.things.insert_one({"properties": pairs({"made": at})})
    assert db.things.count_documents(matches({"made": Range(at_least=at)})) == 1
    assert matches({}) == {}
