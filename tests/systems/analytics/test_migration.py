"""Events that an older version stored as a document each are put into pages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from threading import Event

import pytest
from bson.timestamp import Timestamp
from tests.systems.analytics.conftest import stored_events

from squinney.analytics import EventLog, Hits, Rollups, feed_hits, find_problems
from squinney.analytics.events.documents import FLAT_INDEXES
from squinney.analytics.migration import EventsIntoPages, migrations
from squinney.mongo import schema
from squinney.mongo.schema import Collection, Db, Document
from squinney.patterns.batches import Progress

AT = datetime(2026, 3, 28, 22, 15, 30, tzinfo=UTC)
SOURCE = "0123456789abcdef"
LINE = 80  # bytes
LATER = datetime(2999, 1, 1, tzinfo=UTC)


def flat(number: int, **more: object) -> Document:
    """An event as older versions stored it."""
    return {
        "_id": f"{SOURCE}-{number * LINE:012x}",
        "time": AT + timedelta(minutes=number),
        "path": f"/{number % 3}",
        "bytes": number,
        "site": "s",
        "arrived": Timestamp(0, 0),
        "ssk": number,
        **more,
    }


@pytest.fixture
def older(analytics_db: Db) -> Db:
    """A log in two collections, 90 of whose 100 lines are before the checkpoint and 40 are counted; recorded events."""
    events = analytics_db["analytics.events"]
    events.create_indexes([index.model() for index in FLAT_INDEXES])
    part = Collection("analytics.events.d20260328", indexes=FLAT_INDEXES)
    schema.apply(analytics_db, [part])
    lines = [flat(number) for number in range(100)]
    events.insert_many(lines[::2])
    analytics_db[part.name].insert_many(lines[1::2])
    analytics_db[part.name].insert_many(lines[:20:2])  # as an interrupted move left them
    events.insert_many([flat(n, _id=f"id{n}", site="live", forget_at=LATER) for n in range(5)])
    analytics_db["analytics.imports"].insert_one(
        {"_id": SOURCE, "name": "log", "site": "s", "offset": 90 * LINE, "hits_offset": 40 * LINE, "state": "running"}
    )
    return analytics_db


def test_all_events_are_put_into_pages(older: Db) -> None:
    assert EventLog(older).count() == 0
    for migration in migrations(older):
        assert migration.run().failed == 0
    assert sorted(event["bytes"] for event in stored_events(older) if event["site"] == "s") == list(range(90))
    live = [event for event in stored_events(older) if event["site"] == "live"]
    assert {event["forget_at"] for event in live} == {LATER}
    assert not any({"_id", "ssk", "arrived"} & event.keys() for event in stored_events(older))
    assert (len(live), migrations(older)) == (5, [])
    assert "analytics.events.d20260328" not in older.list_collection_names()
    assert feed_hits(older, SOURCE) == 50
    assert (
        Hits(older).site_total("s", AT.replace(minute=0, second=0), AT.replace(minute=0, second=0) + timedelta(days=1))
        == 50
    )
    Rollups(older, key="path", value="bytes").run()
    assert [problem.code for problem in find_problems(older)] == []


def test_a_migration_that_was_stopped_continues(older: Db, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("squinney.analytics.migration.BATCH", 7)
    stop, runs = Event(), 0

    def end(_: Progress) -> None:
        stop.set()

    while left := migrations(older):
        left[0].run(stop=stop, report=end)
        stop.clear()
        runs += 1
    assert runs > 10
    assert sorted(event["bytes"] for event in stored_events(older) if event["site"] == "s") == list(range(90))


def test_what_is_no_event_stays_and_is_named(older: Db) -> None:
    older["analytics.events"].insert_one({"_id": "odd", "time": "yesterday"})
    (first, *_) = migrations(older)
    progress = first.run()
    assert (progress.failed, progress.failures[0]["id"]) == (1, "odd")
    assert older["analytics.events"].count_documents({"_id": "odd"}) == 1


def test_a_part_of_somebody_else_is_left_alone(older: Db) -> None:
    older["analytics.events.d20260101"].insert_one({"_id": "theirs", "time": AT})
    assert "analytics.events.d20260101" not in {one.name for one in migrations(older)}
    assert isinstance(migrations(older)[0], EventsIntoPages)


def test_a_database_of_a_day_is_dropped_unless_somebody_else_uses_it(older: Db) -> None:
    for day, others in (("20260101", []), ("20260102", ["orders"])):
        other = older.client[f"{older.name}_d{day}"]
        try:
            schema.apply(other, [Collection("analytics.events", indexes=FLAT_INDEXES)])
            other["analytics.events"].insert_one(flat(0, _id=day))
            for name in others:
                other[name].insert_one({"of": "somebody else"})
            for migration in migrations(older):
                migration.run()
            left = {*other.list_collection_names()}
            assert (bool(left), "analytics.events" in left, "orders" in left) == (bool(others), False, bool(others))
        finally:
            older.client.drop_database(other.name)
    assert older["analytics.events"].count_documents({"source": "live", "events.site": {"$exists": False}}) == 3
