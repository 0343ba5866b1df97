"""Each problem is found, and repaired if it is repairable."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.systems.analytics.conftest import line

from squinney.analytics import (
    EventLog,
    Hits,
    Rollups,
    Sessions,
    advise_shard_key,
    find_problems,
    repair,
    verify,
)
from squinney.errors import Invalid
from squinney.mongo.schema import Db

AT = datetime(2026, 3, 28, 22, 15, 30, tzinfo=UTC)


@pytest.fixture
def counted(analytics_db: Db) -> Db:
    """A database with hits, and roll-ups of events."""
    hits = Hits(analytics_db)
    for day in range(5):
        hits.record("s", "/p", AT + timedelta(days=day, minutes=day), day + 1)
    hits.preallocate("s", "/q", AT)
    log = EventLog(analytics_db)
    for hour in range(30):
        log.record({"time": AT + timedelta(hours=hour), "path": "/p", "bytes": hour})
    Rollups(analytics_db, key="path", value="bytes", time="time").run()
    return analytics_db


def codes(db: Db) -> list[str]:
    """Return the codes of all problems."""
    return [problem.code for problem in find_problems(db)]


def test_sound_data_has_no_problems(counted: Db) -> None:
    assert codes(counted) == []
    assert repair(counted) == {}


@pytest.mark.parametrize(
    ("collection", "change", "code"),
    [
        ("analytics.hits_daily", {"$inc": {"total": 1}}, "wrong-day"),
        ("analytics.hits_daily", {"$inc": {"hourly.22": 1, "hourly.23": -1}}, "wrong-day"),
        ("analytics.hits_monthly", {"$inc": {"total": 1}}, "wrong-month"),
        ("analytics.hits_monthly", {"$inc": {"daily.28": 1}}, "wrong-month"),
        ("analytics.hits_monthly", {"$unset": {"daily": ""}}, "wrong-month"),
        *[
            (f"analytics.rollups_{level}", {"$inc": {"value.total": 1}}, "rollup-differs")
            for level in ("hourly", "daily", "weekly", "monthly", "yearly")
        ],
        ("analytics.rollups_daily", {"$set": {"value.count": 0}}, "rollup-differs"),
    ],
)
def test_each_problem_is_found_and_repaired(counted: Db, collection: str, change: dict, code: str) -> None:
    counted[collection].update_one({"metadata.page": "/p"} if "hits" in collection else {}, change)
    assert code in codes(counted)
    assert repair(counted)
    assert codes(counted) == []
    assert (
        Hits(counted).site_total(
            "s", AT.replace(hour=0, minute=0, second=0), AT.replace(minute=0, second=0) + timedelta(days=9)
        )
        == 15
    )


def test_a_missing_month_is_created_again(counted: Db) -> None:
    counted["analytics.hits_monthly"].delete_one({"metadata.page": "/p"})
    assert codes(counted) == ["wrong-month"]
    repair(counted)
    assert codes(counted) == []


def test_hits_ahead_of_their_events_are_reported(counted: Db) -> None:
    counted["analytics.imports"].insert_one({"_id": "s", "name": "x", "offset": 1, "hits_offset": 2})
    assert codes(counted) == ["hits-ahead"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"$inc": {"n": 1}}, "n"),
        ({"$set": {"from": AT - timedelta(minutes=1)}}, "from"),
        ({"$set": {"to": AT + timedelta(minutes=1)}}, "to"),
    ],
)
def test_a_page_that_is_not_what_its_events_say_is_repaired(counted: Db, change: dict, why: str) -> None:
    counted["analytics.events"].update_one({"from": AT}, change)
    (problem,) = find_problems(counted)
    assert (problem.code, problem.message.rpartition(": ")[2], problem.repairable) == ("wrong-page", why, True)
    assert repair(counted) == {"pages described": 1}
    assert codes(counted) == []


@pytest.mark.parametrize(
    ("page", "why"),
    [
        ({"_id": "2026-03-28T21/live/x"}, "_id"),
        ({"_id": "2026-03-28T22/other/x"}, "_id"),
        ({"to": AT + timedelta(hours=1), "events": [{"time": AT}, {"time": AT + timedelta(hours=1)}], "n": 2}, "hour"),
        ({"events": [], "n": 0, "from": None, "to": None}, "no events"),
        ({"site": ["a", "b"]}, "site"),
    ],
)
def test_a_page_that_a_person_must_look_at(analytics_db: Db, page: dict, why: str) -> None:
    sound = {"_id": "2026-03-28T22/live/x", "source": "live", "from": AT, "to": AT, "n": 1, "events": [{"time": AT}]}
    analytics_db["analytics.events"].insert_one({**sound, **page})
    (problem,) = find_problems(analytics_db)
    assert (problem.code, problem.repairable) == ("wrong-page", False)
    assert why in problem.message


def test_a_page_after_the_checkpoint_of_its_import_is_reported(log: EventLog, analytics_db: Db) -> None:
    log.import_file(io.BytesIO(line().encode() * 3))
    assert codes(analytics_db) == []
    analytics_db["analytics.imports"].update_one({}, {"$inc": {"offset": -1}})
    assert codes(analytics_db) == ["page-ahead"]


def test_verify_skips_events_that_are_not_rolled_up_yet(counted: Db) -> None:
    EventLog(counted).record({"time": AT, "path": "/p", "bytes": 1})
    assert list(verify(counted)) == []


def test_verify_skips_emptied_sessions_until_they_are_rolled_up(analytics_db: Db) -> None:
    log, sessions = EventLog(analytics_db), Sessions(analytics_db)
    for minutes in (0, 55):  # 22:15 and 23:10
        log.record({"time": AT + timedelta(minutes=minutes), "host": "h"})
    sessions.derive()
    sessions.rollups().run()
    log.record({"time": AT + timedelta(minutes=29), "host": "h"})
    sessions.derive()
    assert list(verify(analytics_db)) == []
    sessions.rollups().run()
    assert list(verify(analytics_db)) == []


def test_verify_allows_rounding_of_fractions(analytics_db: Db) -> None:
    events = [{"time": AT + timedelta(hours=n), "path": "/", "seconds": (-1) ** n * n / 7} for n in range(500)]
    EventLog(analytics_db).record_many(events)
    Rollups(analytics_db, key="path", value="seconds", time="time").run()
    assert list(verify(analytics_db)) == []
    analytics_db["analytics.rollups_yearly"].update_one({}, {"$inc": {"value.total": 0.001}})
    assert len(list(verify(analytics_db))) == 1


def test_verify_reports_a_differing_bucket(counted: Db) -> None:
    counted["analytics.rollups_daily"].update_one(
        {"_id.d": AT.replace(hour=0, minute=0, second=0)}, {"$inc": {"value.total": 3}}
    )
    (problem,) = verify(counted)
    assert (
        problem.message == "rollups.daily /p 2026-03-28 00:00: stored 2 values with a total of 4, "
        "but the events have 2 values with a total of 1"
    )


def test_shard_keys_of_pages_are_rated(log: EventLog, analytics_db: Db, real_log: Path) -> None:
    log.import_file(real_log)
    advice = {
        " ".join(f"{field} hashed" if kind == "hashed" else field for field, kind in one.key.items()): one
        for one in advise_shard_key(analytics_db)
    }
    assert {key: a.verdict for key, a in advice.items()} == {
        "_id hashed": "writes only",
        "_id": "poor",
        "from": "poor",
        "source from": "poor",
        "site from": "poor",
    }
    assert advice["from"].monotonic
    assert advice["from"].routed == ("events.between",)
    assert advice["source from"].routed == ("events.of-source",)
    assert advice["_id hashed"].routed == ()


def test_a_key_that_follows_time_is_poor_in_any_order_of_arrival(analytics_db: Db) -> None:
    """Two logs of the same hours, the newer one imported first."""
    log = EventLog(analytics_db)
    for day in (18, 17):
        content = "".join(
            line(n, path=f"/{day}/{n}", at=f"{day}/May/2015:{n % 24:02}:05:03 +0000")
            for n in sorted(range(240), key=lambda n: n % 24)
        )
        log.import_file(io.BytesIO(content.encode()))
    for key in ({"_id": 1}, {"source": 1, "from": 1}, {"from": 1, "site": 1}):
        (advice,) = advise_shard_key(analytics_db, [key])
        assert (advice.monotonic, advice.verdict) == (True, "poor")


def test_few_values_of_a_key_are_few_chunks(analytics_db: Db) -> None:
    log = EventLog(analytics_db)
    log.record_many([{"time": AT + timedelta(hours=n), "site": f"s{n % 3}"} for n in range(60)])
    (advice,) = advise_shard_key(analytics_db, [{"site": "hashed"}])
    assert (advice.cardinality, advice.verdict) == (3, "poor")


def test_shard_keys_need_events_and_keys(analytics_db: Db) -> None:
    with pytest.raises(Invalid, match="no events"):
        advise_shard_key(analytics_db)
    with pytest.raises(Invalid, match="is like"):
        advise_shard_key(analytics_db, [{"path": 2}])
    with pytest.raises(Invalid, match="array"):
        advise_shard_key(analytics_db, [{"events.path": 1}])
