"""Sessions derived from requests, also from late ones, and their roll-up."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from squinney.analytics import EventLog, Sessions, verify
from squinney.analytics.jobs import roll_up
from squinney.errors import Conflict
from squinney.mongo.schema import Db

START = datetime(2026, 5, 17, 10, tzinfo=UTC)


@pytest.fixture
def sessions(analytics_db: Db) -> Sessions:
    """The sessions."""
    return Sessions(analytics_db)


def visit(log: EventLog, minute: float, *, host: str = "h", agent: str = "a", **more: object) -> None:
    """Record a request at a minute."""
    log.record({"time": START + timedelta(minutes=minute), "host": host, "user_agent": agent, "path": "/", **more})


def found(db: Db) -> list[tuple[int, int, int]]:
    """Return the start minute, length in minutes and number of requests of each session."""
    real = db["analytics.visit_sessions"].find({"length": {"$exists": True}}).sort([("ts", 1), ("userid", 1)])
    return [((s["ts"] - START).seconds // 60, s["length"] // 60, s["requests"]) for s in real]


def test_half_an_hour_of_silence_ends_a_session(log: EventLog, analytics_db: Db, sessions: Sessions) -> None:
    for minute in (0, 10, 39.9, 69.9, 100):
        visit(log, minute)
    sessions.derive()
    assert found(analytics_db)[0] == (0, 39, 3)
    assert [requests for _, _, requests in found(analytics_db)] == [3, 1, 1]


def test_visitors_are_distinguished(log: EventLog, analytics_db: Db, sessions: Sessions) -> None:
    visit(log, 0)
    visit(log, 1, agent="b")
    visit(log, 2, host="i")
    visit(log, 3, user="ann")
    visit(log, 4, user="ann", agent="c")
    sessions.derive()
    assert sorted(requests for _, _, requests in found(analytics_db)) == [1, 1, 1, 2]


def test_a_late_request_joins_two_sessions(log: EventLog, analytics_db: Db, sessions: Sessions) -> None:
    visit(log, 0)
    visit(log, 50)
    sessions.derive()
    rollups = sessions.rollups()
    rollups.run()
    visit(log, 25)
    visit(log, -5)
    sessions.derive()
    rollups.run()
    assert [(length, requests) for _, length, requests in found(analytics_db)] == [(55, 4)]
    assert list(verify(analytics_db)) == []
    (year,) = analytics_db["analytics.visits_yearly"].find({"value.count": {"$gt": 0}})
    assert (year["value"]["total"], year["value"]["count"]) == (55 * 60, 1)


def test_a_session_whose_first_events_were_dropped_stays_one_session(log: EventLog, analytics_db: Db) -> None:
    sessions = Sessions(analytics_db)
    for minute in range(0, 25, 5):
        log.record({"time": START + timedelta(minutes=minute, milliseconds=500), "host": "h", "path": "/"})
        sessions.derive()
    for minute in range(25, 40, 5):
        oldest = analytics_db["analytics.events"].find_one_and_delete({}, sort=[("from", 1)])  # as retention does
        assert oldest is not None
        log.record({"time": START + timedelta(minutes=minute, milliseconds=500), "host": "h", "path": "/"})
        sessions.derive()
        sessions.derive()
    log.record({"time": START + timedelta(minutes=90), "host": "h", "path": "/"})
    sessions.derive()
    found = analytics_db["analytics.visit_sessions"].find({"length": {"$exists": True}}).sort("ts", 1)
    assert [(one["length"], one["requests"]) for one in found] == [(35 * 60, 8), (0, 1)]


def test_the_job_uses_the_silence_of_the_first_call(log: EventLog, analytics_db: Db) -> None:
    short = Sessions(analytics_db, silence_seconds=600)
    visit(log, 0)
    short.derive()
    visit(log, 20)
    roll_up(analytics_db)
    assert found(analytics_db) == [(0, 0, 1), (20, 0, 1)]
    with pytest.raises(Conflict, match="silence_seconds must be 600"):
        Sessions(analytics_db).derive()


def test_deriving_twice_changes_nothing(log: EventLog, analytics_db: Db, sessions: Sessions) -> None:
    visit(log, 0)
    assert sessions.derive().changed == 1
    assert sessions.derive().changed == 0
    assert sessions.derive().moved


def test_session_time_of_a_real_log(log: EventLog, analytics_db: Db, sessions: Sessions, real_log: Path) -> None:
    log.import_file(real_log)
    sessions.derive()
    requests = sum(s["requests"] for s in analytics_db["analytics.visit_sessions"].find({"length": {"$exists": True}}))
    assert requests == 9_999
    rollups = sessions.rollups()
    rollups.run()
    assert list(verify(analytics_db)) == []
    total = sum(year["value"]["total"] for year in analytics_db["analytics.visits_yearly"].find())
    assert total == sum(s.get("length", 0) for s in analytics_db["analytics.visit_sessions"].find())
