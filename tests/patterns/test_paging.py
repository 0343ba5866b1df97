"""All pages together are the sorted list, for any data, order and page size."""

from __future__ import annotations

import base64
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

import bson
import pytest
from bson.objectid import ObjectId
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pymongo.errors import OperationFailure

from squinney.errors import Invalid
from squinney.mongo.queries import Query, stages
from squinney.patterns.paging import Page, after, cursor_after, page

real_server = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
dates = st.datetimes(datetime(1990, 1, 1), datetime(2090, 1, 1)).map(  # noqa: DTZ001 - made aware here
    lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000, tzinfo=UTC)
)
values = st.one_of(
    st.none(),
    st.integers(-3, 3),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=True),
    st.sampled_from(["", "a", "b", "$a", "é"]),
    st.booleans(),
    st.binary(max_size=3),
    dates,
    st.binary(min_size=12, max_size=12).map(ObjectId),
    st.uuids(),
)
rows = st.lists(st.fixed_dictionaries({}, optional={"a": values, "b": values}), max_size=25)
directions = st.sampled_from([1, -1])


def query(*sort: tuple[str, int]) -> Query:
    return Query("list", "things", lambda group=1: {"group": group}, sort=sort)


def walk(db, query, *, limit, between=lambda: None):
    cursor, items = None, []
    while True:
        found = page(db, query, cursor=cursor, limit=limit)
        assert len(found.items) <= limit
        items += found.items
        assert len(items) <= 100, "the walk goes round in circles"
        if found.next is None:
            return items
        assert len(found.items) == limit
        cursor = found.next
        between()


@real_server
@given(rows, directions, directions, directions, st.integers(1, 8), st.booleans())
def test_pages_concatenated_are_the_sorted_list(db, rows, first, second, third, limit, indexed):
    db.things.drop()
    sort = [("in.a", first), ("b", second), ("_id", third)]
    if indexed:
        db.things.create_index([("group", 1), *sort])
    documents = [{"_id": n, "group": 1, "b": row["b"]} if "b" in row else {"_id": n, "group": 1} for n, row in
                 enumerate(rows)]  # fmt: skip
    for document, row in zip(documents, rows, strict=True):
        if "a" in row:
            document["in"] = {"a": row["a"]}
    db.things.insert_many([*documents, {"_id": "other", "group": 2}])
    expected = [document["_id"] for document in db.things.find({"group": 1}).sort(sort)]
    assert [item["_id"] for item in walk(db, query(*sort), limit=limit)] == expected


@real_server
@given(st.lists(st.integers(0, 5), min_size=1, max_size=20), directions, st.integers(1, 5), st.data())
def test_what_is_there_throughout_comes_once_although_rows_come_and_go(db, numbers, direction, limit, data):
    db.things.drop()
    db.things.insert_many({"_id": f"old{n}", "group": 1, "a": number} for n, number in enumerate(numbers))
    added = []

    def disturb():
        if len(added) < 10:
            added.append(f"new{len(added)}")
            db.things.insert_one({"_id": added[-1], "group": 1, "a": data.draw(st.integers(0, 5))})

    sort = [("a", direction), ("_id", 1)]
    seen = [item["_id"] for item in walk(db, query(*sort), limit=limit, between=disturb)]
    assert len(seen) == len(set(seen))
    final = [item["_id"] for item in db.things.find({"group": 1}).sort(sort)]
    assert [x for x in seen if x.startswith("old")] == [x for x in final if x.startswith("old")]


@pytest.mark.parametrize(
    "sort",
    [
        [("a", 1), ("b", -1), ("_id", 1)],
        [("a", -1), ("b", -1), ("_id", -1)],
        [("b", -1), ("_id", 1)],
        [("_id", -1)],
    ],
)
def test_a_deep_page_reads_the_index_in_order_and_only_what_it_returns(db, sort):
    db.things.create_index([("group", 1), *sort])
    db.things.insert_many({"group": n % 2, "a": n % 7, "b": n % 501} for n in range(6000))
    listed = query(*sort)
    middle = list(db.things.find({"group": 1}).sort(sort))[1500]
    where = {"$and": [listed(), after(sort, cursor_after(sort, middle))]}
    command = {"find": "things", "filter": where, "sort": dict(sort), "limit": 20}
    plan = db.command({"explain": command, "verbosity": "executionStats"})
    assert not {"SORT", "COLLSCAN"} & stages(plan["queryPlanner"])
    assert plan["executionStats"]["nReturned"] == 20
    assert plan["executionStats"]["totalDocsExamined"] <= 20 + len(sort)
    assert plan["executionStats"]["totalKeysExamined"] <= 20 + 2 * len(sort)


def test_a_list_filtered_by_an_array_is_paged_from_its_index_too(db):
    db.things.create_index([("tags", 1), ("at", -1), ("_id", 1)])
    db.things.insert_many({"tags": ["x", f"t{n % 5}"], "at": n % 50} for n in range(2000))
    tagged = Query("tagged", "things", lambda tag: {"tags": tag}, sort=[("at", -1), ("_id", 1)])
    middle = list(db.things.find({"tags": "x"}).sort(list(tagged.sort)))[1000]
    where = {"$and": [tagged(tag="x"), after(tagged.sort, cursor_after(tagged.sort, middle))]}
    plan = db.command(
        {
            "explain": {"find": "things", "filter": where, "sort": dict(tagged.sort), "limit": 20},
            "verbosity": "executionStats",
        }
    )
    assert not {"SORT", "COLLSCAN"} & stages(plan["queryPlanner"])
    assert plan["executionStats"]["totalDocsExamined"] <= 25


def packed(document: dict) -> str:
    return base64.urlsafe_b64encode(bson.encode(document)).rstrip(b"=").decode()


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "x",
        "ééé",
        "AAAA",
        "*" * 20,
        "A" * 1_000_000,
        packed({}),
        packed({"a": 1}),
        packed({"a": {"$gt": 0}, "_id": 1}),
        packed({"a": [1], "_id": 1}),
        packed({"a": bson.Regex("."), "_id": 1}),
        packed({"a": bson.Code("1"), "_id": 1}),
        packed({"a": 1, "_id": 1})[:-2],
        packed({"a": 1, "_id": 1}) + "AAAA",
        "*" + packed({"a": 1, "_id": 1}),
        17,
        {"$gt": ""},
    ],
)
def test_a_foreign_cursor_is_refused(db, cursor):
    with pytest.raises(Invalid) as refused:
        page(db, query(("a", 1), ("_id", 1)), cursor=cursor)
    assert refused.value.details["field"] == "cursor"


def test_values_that_look_like_expressions_are_values(db):
    db.things.insert_many({"_id": n, "group": 1, "a": "$b"} for n in range(3))
    assert [item["_id"] for item in walk(db, query(("a", 1), ("_id", 1)), limit=1)] == [0, 1, 2]


def test_a_cursor_is_measured_before_it_is_decoded(db, monkeypatch):
    monkeypatch.setattr(base64, "b64decode", lambda *args, **options: pytest.fail("it was decoded"))
    with pytest.raises(Invalid):
        page(db, query(("_id", 1)), cursor="A" * 20_000)


@given(st.text(max_size=60))
@settings(max_examples=300, deadline=None)
def test_no_text_breaks_the_decoder(cursor):
    with suppress(Invalid):
        assert after([("a", 1)], cursor).keys() == {"$or"}


@given(st.binary(max_size=60))
@settings(max_examples=300, deadline=None)
def test_no_bytes_break_the_decoder(content):
    with suppress(Invalid):
        assert after([("a", 1)], base64.urlsafe_b64encode(content).decode()).keys() == {"$or"}


@pytest.mark.parametrize("limit", [0, -1, 201, 1.0, "5", None, True])
def test_a_limit_out_of_bounds_is_refused(db, limit):
    with pytest.raises(Invalid, match="limit"):
        page(db, query(("_id", 1)), limit=limit)


def test_a_list_that_ends_with_a_full_page_has_no_next(db):
    db.things.insert_many({"_id": n, "group": 1} for n in range(4))
    assert page(db, query(("_id", 1)), limit=4).next is None
    assert page(db, query(("_id", 1)), limit=3).next is not None
    assert page(db, query(("_id", 1)), limit=3, group=9) == Page([], None)


def test_a_page_is_mapped(db):
    assert Page([1, 2], "c").map(str) == Page(["1", "2"], "c")


def test_an_array_cannot_be_paged_by():
    with pytest.raises(TypeError, match="cannot page by a"):
        cursor_after([("a", 1)], {"a": [1]})


@pytest.mark.parametrize(
    ("projection", "kept"),
    [
        (None, True),
        ({"in.a": 1}, True),
        ({"in": 1, "b": 1}, True),
        ({"b": 0}, True),
        ({"b": 1}, False),
        ({"in": 0}, False),
        ({"in.a": 1, "_id": 0}, False),
        ({"_id": 0}, False),
    ],
)
def test_a_projection_must_keep_the_sort(db, projection, kept):
    db.things.insert_many({"group": 1, "in": {"a": n}} for n in range(3))
    listed = query(("in.a", 1), ("_id", 1))
    if kept:
        first = page(db, listed, limit=2, projection=projection)
        assert page(db, listed, limit=2, projection=projection, cursor=first.next).items[0]["in"] == {"a": 2}
    else:
        with pytest.raises(ValueError, match="projection"):
            page(db, listed, projection=projection)


def test_the_hint_of_a_query_is_sent(db):
    db.things.insert_one({"_id": 1, "group": 1})
    with pytest.raises(OperationFailure, match="hint"):
        page(db, replace(query(("_id", 1)), hint="no_such_index"), limit=1)
