"""Roll-ups equal a direct aggregation of the events at every level, after crashes and concurrent runs, too."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest
from bson.timestamp import Timestamp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pymongo.collection import Collection
from tests.sizes import a_tenth_of, heavy
from tests.systems.analytics.conftest import stored_events

from squinney.analytics import EventLog, Rollups, repair, verify
from squinney.analytics.calendar import floor
from squinney.errors import Conflict, Invalid
from squinney.mongo.schema import Db, Document

START = datetime(2018, 10, 25, tzinfo=UTC)
UNITS = {
    "quarterhourly": "quarter",
    "hourly": "hour",
    "daily": "day",
    "weekly": "week",
    "monthly": "month",
    "yearly": "year",
}
ZONES = [("UTC", "hour"), ("Europe/Berlin", "hour"), ("America/New_York", "hour"), ("Asia/Kolkata", "quarter")]


@pytest.fixture
def rollups(analytics_db: Db) -> Rollups:
    """Roll-ups of the events' lengths by user, in UTC."""
    return Rollups(analytics_db, overlap_seconds=0)


def add(db: Db, userid: str, length: int, after_seconds: int) -> None:
    """Insert an event as the event log stores it."""
    at = START + timedelta(seconds=after_seconds)
    EventLog(db).record({"time": at, "userid": userid, "length": length}, durability="acknowledged")


def direct(db: Db, unit: str, zone: str) -> dict[tuple[str, datetime], Document]:
    """Aggregate in plain Python, with Python's calendar."""
    groups: dict[tuple[str, datetime], list[int]] = defaultdict(list)
    for event in stored_events(db):
        groups[event["userid"], floor(event["time"], unit, ZoneInfo(zone))].append(event["length"])
    return {
        place: {"total": sum(v), "count": len(v), "mean": sum(v) / len(v), "min": min(v), "max": max(v)}
        for place, v in groups.items()
    }


def stored(db: Db, level: str) -> dict[tuple[str, datetime], Document]:
    """Return the stored buckets."""
    found = {}
    for bucket in db[f"analytics.rollups_{level}"].find({"value.count": {"$gt": 0}}):
        del bucket["value"]["ts"]
        found[bucket["_id"]["k"], bucket["_id"]["d"]] = bucket["value"]
    return found


def assert_equal(db: Db, rollups: Rollups) -> None:
    """Compare every level with the direct aggregation."""
    for step in rollups.steps:
        zone = "UTC" if step.made_from is None else rollups.config.time_zone
        assert stored(db, step.level) == direct(db, UNITS[step.level], zone), step.level


def let_time_pass(db: Db) -> None:
    """Set `arrived` of all events to a time long ago, so that the next run does not find them as new."""
    db["analytics.events"].update_many({}, {"$set": {"arrived": Timestamp(1, 1)}})


ADD = st.tuples(st.just("add"), st.sampled_from(["ann", "bob"]), st.integers(-5, 1_000), st.integers(0, 100 * 86_400))
ACTION = st.one_of(ADD, ADD, ADD, st.just(("run",)), st.just(("rebuild",)), st.just(("half",)))


@heavy
@pytest.mark.timeout(600)
@settings(max_examples=a_tenth_of(250), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(ZONES), st.lists(ACTION, max_size=25))
def test_any_events_and_any_runs(analytics_db: Db, where: tuple[str, str], actions: list[tuple]) -> None:
    db = analytics_db
    for name in db.list_collection_names(filter={"name": {"$regex": "^analytics[.](events|rollup)"}}):
        db[name].delete_many({})
    rollups = Rollups(db, time_zone=where[0], finest=where[1], overlap_seconds=0)
    for action, *arguments in actions:
        if action == "add":
            add(db, *arguments)
        elif action == "run":
            assert rollups.run().moved
            assert_equal(db, rollups)
            let_time_pass(db)
        elif action == "half":
            rollups.run(until=START + timedelta(days=50))
        else:
            rollups.rebuild(START - timedelta(days=1), START + timedelta(days=400))
            assert_equal(db, rollups)
    rollups.run()
    assert_equal(db, rollups)


def test_a_second_run_over_an_hour_that_grew_counts_it_once(analytics_db: Db, rollups: Rollups) -> None:
    """The book's roll-up would add the hour's whole total to its day again."""
    add(analytics_db, "ann", 10, 60)
    rollups.run()
    let_time_pass(analytics_db)
    add(analytics_db, "ann", 5, 120)
    rollups.run()
    rollups.run()
    (day,) = rollups.read("daily", "ann", START, START + timedelta(days=1))
    assert (day["total"], day["count"], day["mean"], day["min"], day["max"]) == (15, 2, 7.5, 5, 10)
    assert_equal(analytics_db, rollups)


def test_years_begin_in_january_and_weeks_on_monday(analytics_db: Db, rollups: Rollups) -> None:
    add(analytics_db, "ann", 1, 0)
    rollups.run()
    assert [key[1] for key in stored(analytics_db, "yearly")] == [datetime(2018, 1, 1, tzinfo=UTC)]
    assert [key[1] for key in stored(analytics_db, "weekly")] == [datetime(2018, 10, 22, tzinfo=UTC)]


class Killed(BaseException):
    """Simulates the death of the process."""


def dying_after(writes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow this number of writes, then raise `Killed` before the next."""
    left = [writes]

    def mortal(method: Callable) -> Callable:
        def call(self: Collection, *args: object, **kwargs: object) -> object:
            if left[0] == 0:
                raise Killed
            left[0] -= 1
            return method(self, *args, **kwargs)

        return call

    for name in ("aggregate", "update_one", "update_many", "find_one_and_update"):
        monkeypatch.setattr(Collection, name, mortal(getattr(Collection, name)))


def test_after_a_crash_at_each_write_the_next_run_is_exact(analytics_db: Db, rollups: Rollups) -> None:
    deaths = 0
    for writes in range(30):
        add(analytics_db, "ann", writes, writes * 50_000)
        add(analytics_db, "bob", writes, (30 - writes) * 70_000)
        with pytest.MonkeyPatch.context() as patch:
            dying_after(writes, patch)
            try:
                rollups.run()
            except Killed:
                deaths += 1
            else:
                break
        assert rollups.run().moved
        assert_equal(analytics_db, rollups)
        let_time_pass(analytics_db)
    assert deaths == 13  # the number, what is touched, five levels of two writes, the watermark


def test_concurrent_runs_while_events_arrive(analytics_db: Db) -> None:
    stop = threading.Event()
    errors: list[BaseException] = []

    def run() -> None:
        rollups = Rollups(analytics_db)
        try:
            while not stop.is_set():
                rollups.run()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for n in range(150):
        add(analytics_db, f"u{n % 3}", n, n * 40_000 % (90 * 86_400))
    stop.set()
    for thread in threads:
        thread.join()
    assert errors == []
    rollups = Rollups(analytics_db)
    assert rollups.run().moved
    assert_equal(analytics_db, rollups)


@pytest.mark.parametrize("writes", range(1, 13))
def test_a_run_that_stalls_and_resumes_changes_nothing(analytics_db: Db, writes: int) -> None:
    """It pauses before one of its writes until a later run has finished."""
    add(analytics_db, "ann", 1, 0)
    stalled, sleeper = [], Rollups(analytics_db, overlap_seconds=0)

    def stall(method: Callable) -> Callable:
        def call(self: Collection, *args: object, **kwargs: object) -> object:
            stalled.append(True)
            if len(stalled) == writes:
                with pytest.MonkeyPatch.context() as inner:
                    for name, original in originals.items():
                        inner.setattr(Collection, name, original)
                    add(analytics_db, "ann", 100, 30)
                    assert Rollups(analytics_db, overlap_seconds=0).run().moved
                    let_time_pass(analytics_db)
            return method(self, *args, **kwargs)

        return call

    originals = {name: getattr(Collection, name) for name in ("aggregate", "update_one", "update_many")}
    with pytest.MonkeyPatch.context() as patch:
        for name, method in originals.items():
            patch.setattr(Collection, name, stall(method))
        assert not sleeper.run().moved
    assert_equal(analytics_db, sleeper)


def test_reading_in_another_time_zone(analytics_db: Db, rollups: Rollups) -> None:
    """In Berlin, 28 October 2018 has 25 hours."""
    berlin = ZoneInfo("Europe/Berlin")
    day = datetime(2018, 10, 28, tzinfo=berlin).astimezone(UTC)
    for hour in range(-1, 26):
        add(analytics_db, "ann", 1, int((day - START).total_seconds()) + hour * 3600)
    rollups.run()
    start, end = datetime(2018, 10, 28, tzinfo=berlin), datetime(2018, 10, 29, tzinfo=berlin)
    (bucket,) = rollups.read("daily", "ann", start, end, time_zone="Europe/Berlin")
    assert (bucket["at"], bucket["count"]) == (day, 25)
    with pytest.raises(Invalid, match="quarter"):
        rollups.read("daily", "ann", start, end, time_zone="Asia/Kolkata")


def test_events_without_key_value_or_time_are_left_out(analytics_db: Db, rollups: Rollups) -> None:
    add(analytics_db, "ann", 3, 0)
    odd = [{"length": 1, "time": START}, {"userid": "x", "time": START}, {"userid": "x", "length": "9", "time": START}]
    EventLog(analytics_db).record_many(odd)
    rollups.run()
    assert {key for key, _ in stored(analytics_db, "yearly")} == {"ann"}


def test_documents_of_a_users_own_collection_are_rolled_up(analytics_db: Db) -> None:
    odd = [{"length": 1, "at": START}, {"userid": "x", "at": START}, {"userid": "x", "length": "9", "at": START}]
    odd += [{"userid": "x", "length": 1}, {"userid": "x", "length": 1, "at": "today"}]
    odd += [{"userid": "ann", "length": n, "at": START + timedelta(minutes=n)} for n in range(100)]
    analytics_db["calls"].insert_many([{"arrived": Timestamp(0, 0), **one} for one in odd])
    own = Rollups(analytics_db, "calls", time="at")
    own.run()
    assert {key: bucket["total"] for (key, _), bucket in stored(analytics_db, "yearly").items()} == {"ann": 4_950}
    assert list(verify(analytics_db)) == []
    with pytest.raises(Invalid, match="time must be time"):
        Rollups(analytics_db, time="ts")


def test_a_rebuild_empties_buckets_whose_events_were_deleted(analytics_db: Db, rollups: Rollups) -> None:
    add(analytics_db, "ann", 3, 0)
    add(analytics_db, "bob", 3, 0)
    rollups.run()
    analytics_db["analytics.events"].delete_one({"events.userid": "ann"})
    rollups.rebuild(START, START + timedelta(days=1))
    assert_equal(analytics_db, rollups)
    assert rollups.read("yearly", "ann", START - timedelta(days=400), START) == []


def test_events_of_the_first_and_last_years_are_rolled_up(analytics_db: Db, rollups: Rollups) -> None:
    years = (1, 999, 1000, 2018, 9997, 9998, 9999)
    EventLog(analytics_db).record_many(
        {"userid": "ann", "length": 1, "time": datetime(year, month, 1, tzinfo=UTC)}
        for year in years
        for month in (1, 12)
    )
    ages = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    for _ in rollups.run(), rollups.rebuild(*ages):
        assert [bucket["at"].year for bucket in rollups.read("yearly", "ann", *ages)] == [1000, 2018, 9997]
    assert list(verify(analytics_db)) == []


def test_a_name_cannot_be_reused_with_other_settings(analytics_db: Db, rollups: Rollups) -> None:
    rollups.run()
    with pytest.raises(Conflict, match="another name"):
        Rollups(analytics_db, key="host").run()
    rollups.stop()
    with pytest.raises(Conflict, match="another name"):
        Rollups(analytics_db, key="host").run()
    assert Rollups.registered(analytics_db) == []


def test_the_job_does_not_restart_a_stopped_roll_up(analytics_db: Db, rollups: Rollups) -> None:
    rollups.run()
    (of_the_job,) = Rollups.registered(analytics_db)
    rollups.stop()
    with pytest.raises(Conflict, match="was stopped"):
        of_the_job.run()
    rollups.rebuild(START, START + timedelta(days=1))
    assert Rollups.registered(analytics_db) == []
    rollups.run()
    assert len(Rollups.registered(analytics_db)) == 1


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"time_zone": "Mars/Olympus"}, "no time zone"),
        ({"time_zone": "Asia/Kolkata"}, "quarter"),
        ({"finest": "second"}, "finest"),
        ({"name": "$x"}, "name"),
        ({"name": "a$b"}, "name"),
        ({"name": "hits"}, "name"),
        ({"name": "system"}, "name"),
        ({"source": "a$b"}, "source"),
        ({"source": "a..b"}, "source"),
        ({"key": "$x"}, "key"),
        ({"key": "site,"}, "key"),
        ({"key": "site,$x"}, "key"),
        ({"value": "a..b"}, "value"),
        ({"time": "a."}, "time"),
    ],
)
def test_bad_settings_are_refused(analytics_db: Db, arguments: dict[str, str], why: str) -> None:
    with pytest.raises(Invalid, match=why):
        Rollups(analytics_db, **arguments)


def test_a_time_zone_that_the_server_does_not_know(analytics_db: Db) -> None:
    """America/Coyhaique exists since 2025; only Python's time zones are used."""
    if "America/Coyhaique" not in available_timezones():
        pytest.skip("Python's own time zones are older")
    add(analytics_db, "ann", 1, 0)
    rollups = Rollups(analytics_db, time_zone="America/Coyhaique")
    rollups.run()
    assert_equal(analytics_db, rollups)


# ---- clocks that were moved by parts of an hour, or over midnight ----

MOVED = {
    "Asia/Colombo": datetime(2006, 4, 14, 18, 30, tzinfo=UTC),
    "America/Caracas": datetime(2007, 12, 9, 7, tzinfo=UTC),
    "Asia/Pyongyang": datetime(2015, 8, 14, 15, tzinfo=UTC),
    "Australia/Lord_Howe": datetime(2019, 4, 6, 15, tzinfo=UTC),
    "America/St_Johns": datetime(2010, 11, 7, 2, 31, tzinfo=UTC),
    "America/Havana": datetime(2019, 11, 3, 5, tzinfo=UTC),
    "America/Sao_Paulo": datetime(2018, 11, 4, 3, tzinfo=UTC),
    "Pacific/Apia": datetime(2011, 12, 30, 10, tzinfo=UTC),
    "Pacific/Norfolk": datetime(2015, 10, 3, 14, 30, tzinfo=UTC),
}


def local_unit(at: datetime, level: str, where: ZoneInfo) -> object:
    """Return the local day, week, month or year of a time."""
    day = at.astimezone(where).date()
    return {
        "daily": day,
        "weekly": day.isocalendar()[:2],
        "monthly": (day.year, day.month),
        "yearly": day.year,
    }[level]


@pytest.mark.parametrize("zone", MOVED)
def test_days_match_the_local_calendar(analytics_db: Db, zone: str) -> None:
    """The events counted by local date equal the daily level, including hours that belong to two days."""
    where, moved = ZoneInfo(zone), MOVED[zone]
    assert moved.astimezone(where).utcoffset() != (moved - timedelta(seconds=1)).astimezone(where).utcoffset()
    times = [moved + timedelta(minutes=7 * n, seconds=30) for n in range(-400, 400)]
    EventLog(analytics_db).record_many([{"userid": "ann", "length": n, "time": at} for n, at in enumerate(times)])
    rollups = Rollups(analytics_db, time_zone=zone, finest="quarter")
    rollups.run()
    for level in ("daily", "weekly", "monthly", "yearly"):
        wanted: dict[object, int] = defaultdict(int)
        for number, at in enumerate(times):
            wanted[local_unit(at, level, where)] += number
        buckets = rollups.read(level, "ann", moved - timedelta(days=400), moved + timedelta(days=400))
        assert {local_unit(bucket["at"], level, where): bucket["total"] for bucket in buckets} == wanted
    hours = rollups.read("hourly", "ann", moved - timedelta(days=3), moved + timedelta(days=3))
    assert {bucket["at"].astimezone(where).minute for bucket in hours if bucket["at"] > moved} <= {0, 30}
    assert list(verify(analytics_db)) == []


def test_buckets_of_the_servers_calendar_are_emptied(analytics_db: Db) -> None:
    """Buckets as the server's calendar would give are reported by `verify`, and repaired."""
    add(analytics_db, "ann", 5, 0)
    rollups = Rollups(analytics_db, time_zone="Europe/Berlin")
    rollups.run()
    wrong = {"total": 5, "count": 1, "mean": 5, "min": 5, "max": 5}
    stale = [{"_id": {"k": "ann", "d": START + timedelta(minutes=n)}, "run": 0, "value": wrong} for n in (30, 90)]
    analytics_db["analytics.rollups_daily"].insert_one(stale[0])
    analytics_db["analytics.rollups_hourly"].insert_one(stale[1])
    assert {problem.documents["level"] for problem in verify(analytics_db)} == {"daily", "hourly"}
    assert repair(analytics_db)["roll-ups rebuilt"] == 2
    assert list(verify(analytics_db)) == []
    assert_equal(analytics_db, rollups)


@pytest.mark.parametrize("limit", [0, -1, 1_001, True])
def test_top_keys_are_limited(rollups: Rollups, limit: int) -> None:
    with pytest.raises(Invalid, match="limit"):
        rollups.top_keys("daily", START, limit=limit)


@pytest.mark.parametrize("time_zone", ["UTC", "Europe/Berlin"])
def test_too_many_buckets_are_refused(
    analytics_db: Db, rollups: Rollups, monkeypatch: pytest.MonkeyPatch, time_zone: str
) -> None:
    monkeypatch.setattr("squinney.analytics.rollups.rollups.MAX_BUCKETS", 3)
    for day in range(4):
        add(analytics_db, "ann", 1, day * 86_400)
    rollups.run()
    end = START + timedelta(days=9)
    with pytest.raises(Invalid, match="at most 3 buckets"):
        rollups.read("daily", "ann", START, end, time_zone=time_zone)
    assert len(rollups.read("daily", "ann", START, START + timedelta(days=3), time_zone=time_zone)) == 3
    assert len(rollups.read("monthly", "ann", START - timedelta(days=30), end, time_zone=time_zone)) == 1
