"""Each retention strategy on events in use, and the switch between any two of them."""

from __future__ import annotations

import io
import time
from datetime import UTC, datetime, timedelta

import pytest
from bson.timestamp import Timestamp

from squinney.analytics import EventLog, Retention, Rollups, repair, verify
from squinney.analytics.policy import Policy
from squinney.clock import utcnow
from squinney.errors import Conflict, Invalid
from squinney.mongo.schema import Db

START = datetime(2026, 1, 30, tzinfo=UTC)
END = START + timedelta(days=6)
LONG = 50 * 365 * 86_400


@pytest.fixture
def events(analytics_db: Db) -> EventLog:
    """The event log, which notices every change of policy at once."""
    return EventLog(analytics_db, refresh_seconds=0)


@pytest.fixture
def retention(analytics_db: Db) -> Retention:
    """Retention without waiting times."""
    return Retention(analytics_db, grace_seconds=0)


def fill(log: EventLog) -> None:
    """Record an event for each third of 144 hours, beginning on the third day before February."""
    recorded = log.record_many(
        [{"time": START + timedelta(hours=3 * n), "path": f"/{n % 3}", "bytes": n} for n in range(48)]
    )
    assert recorded.failures == []


def numbers(log: EventLog) -> list[int]:
    return [event["bytes"] for event in log.between(START, END)]


def test_switching_loses_no_event_that_the_policy_keeps(events: EventLog, retention: Retention) -> None:
    fill(events)
    for strategy in ("rotate", "ttl", "keep", "ttl", "rotate", "keep"):
        policy = retention.switch(strategy, keep_seconds=LONG)
        assert retention.apply() == {}
        assert (policy.strategy, numbers(events)) == (strategy, list(range(48)))


def test_ttl_deletes_pages_of_which_all_is_too_old(analytics_db: Db, events: EventLog, retention: Retention) -> None:
    now = utcnow().replace(minute=30)
    for hours in (1, 30, 30, 120):
        events.record({"time": now - timedelta(hours=hours), "path": "/", "bytes": hours})
    page = analytics_db["analytics.events"].find_one({"events.bytes": 30})
    assert page
    later = now - timedelta(hours=1)
    analytics_db["analytics.events"].update_one({"_id": page["_id"]}, {"$set": {"to": later}})
    retention.switch("ttl", keep_seconds=20 * 3_600)
    assert retention.apply() == {"deleted": 2}
    assert sorted(one["events"][0]["bytes"] for one in analytics_db["analytics.events"].find()) == [1, 30]
    retention.switch("keep")
    assert retention.apply() == {}


def test_old_days_are_closed_then_deleted(events: EventLog, retention: Retention) -> None:
    now = utcnow()
    retention.switch("rotate", keep_seconds=2 * 86_400)
    for days in range(5):
        events.record({"time": now - timedelta(days=days), "path": "/", "bytes": days})
    assert retention.apply() == {"closed": 1}
    old = {"time": now - timedelta(days=4), "path": "/"}
    with pytest.raises(Invalid, match="older than the retention policy keeps"):
        events.record(old)
    recorded = events.record_many([{**old, "time": now, "bytes": 9} if n == 1 else old for n in range(3)])
    assert (recorded.stored, [failure.index for failure in recorded.failures]) == (1, [0, 2])
    assert retention.apply() == {"deleted": 2}
    kept = [event["bytes"] for event in events.between(now - timedelta(days=9), now + timedelta(days=1))]
    assert sorted(kept) == [0, 1, 2, 9]
    assert retention.apply() == {}


def test_a_line_of_a_closed_time_is_rejected(events: EventLog, analytics_db: Db) -> None:
    analytics_db["analytics.retention"].insert_one(
        {"_id": "events", "strategy": "rotate", "closed_before": datetime(2015, 5, 18, tzinfo=UTC)}
    )
    lines = [f'h - - [{day}/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 {day} "-" "x"\n' for day in (17, 18, 19)]
    imported = events.import_file(io.BytesIO("".join(lines).encode()))
    assert (imported.counts.stored, imported.counts.rejected) == (2, 1)
    (reject,) = events.rejects(imported.source["_id"]).items
    assert "older than the retention policy keeps" in reject["reason"]


def test_a_closed_day_is_reopened_by_a_longer_policy(events: EventLog, retention: Retention) -> None:
    old = utcnow() - timedelta(days=4)
    events.record({"time": old, "path": "/", "bytes": 1})
    retention.switch("rotate", keep_seconds=86_400)
    assert retention.apply() == {"closed": 1}
    closed = retention.policy()
    retention.switch("rotate", keep_seconds=30 * 86_400)
    assert retention.apply() == {}
    # By a worker that read the older policy:
    assert not retention.freeze(closed.closed_before, closed_at=closed.closed_at)
    events.record({"time": old, "path": "/", "bytes": 2})
    assert sorted(event["bytes"] for event in events.by_path("/")) == [1, 2]


@pytest.mark.parametrize("unit", ["day", "month"])
def test_whole_days_or_months_are_deleted(events: EventLog, retention: Retention, unit: str) -> None:
    now = utcnow()
    days = [now - timedelta(days=days) for days in range(100)]
    events.record_many([{"time": day, "path": "/"} for day in days])
    retention.switch("rotate", unit=unit, keep_seconds=40 * 86_400)
    retention.apply()
    retention.apply()
    oldest = now - timedelta(days=40)
    first = oldest.replace(hour=0, minute=0, second=0, microsecond=0, **({"day": 1} if unit == "month" else {}))
    assert len(list(events.by_path("/"))) == sum(day >= first for day in days)


def test_events_of_any_year_are_stored_or_refused(events: EventLog) -> None:
    days = [datetime(year, 12, 31, 23, 59, tzinfo=UTC) for year in (1, 15, 150, 999, 1000, 9997, 9998, 9999)]
    assert events.record_many([{"time": day, "path": "/"} for day in days]).stored == 2
    everything = events.between(datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))
    assert [event["time"].year for event in everything] == [1000, 9997]


def let_time_pass(db: Db) -> None:
    """Set `arrived` of all pages to a time long ago: the overlap has passed."""
    db["analytics.events"].update_many({}, {"$set": {"arrived": Timestamp(1, 1)}})


def test_nothing_is_deleted_before_it_is_rolled_up(analytics_db: Db, events: EventLog, retention: Retention) -> None:
    now = utcnow()
    retention.switch("rotate", keep_seconds=86_400)
    rollups = Rollups(analytics_db, key="path", value="bytes", time="time")
    rollups.run()
    old = now - timedelta(days=3)
    events.record({"time": old, "path": "/", "bytes": 7})
    assert retention.apply() == {"closed": 1}
    assert retention.apply() == {"waiting for roll-ups": 1}
    rollups.run()
    let_time_pass(analytics_db)
    wait_until(lambda: rollups.run() and retention.apply() == {"deleted": 1})
    assert list(events.between(old - timedelta(days=1), now)) == []
    rollups.run()
    (day,) = rollups.read("daily", "/", old - timedelta(days=1), now)
    assert day["total"] == 7
    refused = events.record_many([{"time": old, "path": "/", "bytes": 100}])
    assert (refused.stored, len(refused.failures)) == (0, 1)
    with pytest.raises(Conflict, match="were dropped"):
        rollups.rebuild(old, now)


def test_roll_ups_are_repaired_next_to_deleted_days(analytics_db: Db, events: EventLog, retention: Retention) -> None:
    today = utcnow().replace(hour=0, minute=0, second=0, microsecond=0)
    gone = today - timedelta(days=2)
    hours = [gone + timedelta(hours=n) for n in range(-24, 48)]
    events.record_many([{"time": hour, "path": "/", "bytes": 1} for hour in hours])
    rollups = Rollups(analytics_db, key="path", value="bytes", time="time")
    rollups.run()
    retention.switch("rotate")
    let_time_pass(analytics_db)
    closed = {"closed_at": START, "closed_before": gone}
    analytics_db["analytics.retention"].update_one({}, {"$set": closed})
    assert retention.apply() == {"deleted": 24}
    assert rollups.rebuild(gone, today).buckets["hourly"] == 48
    for level in ("daily", "weekly", "monthly", "yearly"):
        analytics_db[f"analytics.rollups_{level}"].update_many({}, {"$inc": {"value.total": 1}})
    assert len(list(verify(analytics_db))) >= 6
    repair(analytics_db)
    assert list(verify(analytics_db)) == []
    assert [day["total"] for day in rollups.read("daily", "/", hours[0], today)] == [24, 24, 24]


def test_with_roll_ups_ttl_is_refused(analytics_db: Db, retention: Retention) -> None:
    Rollups(analytics_db, key="path", value="bytes", time="time").run()
    with pytest.raises(Conflict, match="keep or rotate"):
        retention.switch("ttl", keep_seconds=86_400)
    retention.switch("rotate")


def test_a_roll_up_that_starts_during_a_switch_ends_the_switch(
    analytics_db: Db, retention: Retention, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: both succeeded, and events could be deleted before they were counted."""
    rollups = Rollups(analytics_db, key="path", value="bytes", time="time")
    retention.switch("rotate", unit="month")
    before = retention.policy()
    monkeypatch.setattr("squinney.analytics.retention.schema.require_ours", lambda *_: rollups.run())
    with pytest.raises(Conflict, match="keep or rotate"):
        retention.switch("ttl", keep_seconds=86_400)
    assert retention.policy() == before


def test_a_roll_up_refused_because_of_retention_is_not_started(analytics_db: Db, retention: Retention) -> None:
    retention.switch("ttl", keep_seconds=86_400)
    with pytest.raises(Conflict, match="keep or rotate"):
        Rollups(analytics_db, key="path", value="bytes", time="time").run()
    assert Rollups.registered(analytics_db) == []


def test_the_policies_of_older_versions_delete_no_more_than_they_did(analytics_db: Db, retention: Retention) -> None:
    for former, present in (("capped", "keep"), ("rotate-databases", "rotate")):
        stored = {"strategy": former, "unit": "day", "size_bytes": 1, "databases_used": True}
        analytics_db["analytics.retention"].replace_one({"_id": "events"}, stored, upsert=True)
        assert retention.policy() == Policy(present)


@pytest.mark.parametrize(("arguments", "why"), [(("burn",), "strategy"), (("ttl",), "keep_seconds")])
def test_bad_policies_are_refused(retention: Retention, arguments: tuple, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        retention.switch(*arguments)
    with pytest.raises(Invalid, match="unit"):
        retention.switch("rotate", unit="hour")
    assert retention.policy().strategy == "keep"


def wait_until(holds, seconds: float = 120) -> None:
    """Wait until the condition holds."""
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.2)
