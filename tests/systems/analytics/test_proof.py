"""The demo, the jobs and the figures."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from squinney.analytics import JOBS, Hits, Retention, Rollups, Sessions, demo, figures, find_problems
from squinney.analytics.demo import SITE
from squinney.analytics.visits.documents import VISITS
from squinney.mongo.schema import Db

NOW = datetime(2026, 11, 16, 3, 20, tzinfo=UTC)


def test_the_demo_is_loaded_once(analytics_db: Db) -> None:
    demo(analytics_db, clock=lambda: NOW)
    first = figures(analytics_db)
    demo(analytics_db, clock=lambda: NOW + timedelta(days=1))
    assert figures(analytics_db) == first
    assert first["events"] > 2_000
    hour = NOW.replace(minute=0)
    assert Hits(analytics_db).site_total(SITE, hour - timedelta(days=4), hour + timedelta(hours=1)) == first["events"]
    assert list(find_problems(analytics_db)) == []


def test_the_jobs_do_nothing_before_the_first_manual_run(analytics_db: Db) -> None:
    for job in JOBS:
        assert not job.run(analytics_db)


def test_the_jobs_keep_roll_ups_and_sessions_up_to_date(analytics_db: Db) -> None:
    demo(analytics_db, clock=lambda: NOW)
    Sessions(analytics_db).derive()
    Sessions(analytics_db).rollups().run()
    job = next(job for job in JOBS if job.name == "roll-up-events")
    assert {"rollups", "visits"} <= set(job.run(analytics_db))


def test_a_stopped_roll_up_allows_any_retention(analytics_db: Db) -> None:
    rollups = Rollups(analytics_db, key="path", value="bytes", time="time")
    rollups.run()
    rollups.stop()
    assert Rollups.registered(analytics_db) == []
    Retention(analytics_db).switch("ttl", keep_seconds=86_400)
    Retention(analytics_db).switch("keep")
    demo(analytics_db, clock=lambda: NOW)
    assert list(find_problems(analytics_db)) == []


def test_a_refused_roll_up_does_not_stop_the_others(analytics_db: Db) -> None:
    Rollups(analytics_db, key="path", value="bytes", time="time", name="a").run()
    Rollups(analytics_db, VISITS, name="b").run()
    analytics_db["analytics.retention"].insert_one({"_id": "events", "strategy": "ttl"})  # set by hand
    job = next(job for job in JOBS if job.name == "roll-up-events")
    assert job.run(analytics_db) == {"a refused": 1, "b": 0}
