"""Each retention strategy on a collection in use, and the switch between each pair of strategies."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from bson.timestamp import Timestamp

from squinney.analytics import COLLECTIONS, EventLog, Retention, Rollups, figures, repair, verify
from squinney.analytics.events import retention as retention_module
from squinney.analytics.events.partitions import EventPartitions, Policy
from squinney.clock import utcnow
from squinney.errors import Conflict, Invalid, Unavailable
from squinney.mongo.schema import Db, apply

Failing = Callable[..., AbstractContextManager[None]]

START = datetime(2026, 1, 30, tzinfo=UTC)
END = START + timedelta(days=6)
STRATEGIES = {
    "keep": {},
    "ttl": {"keep_seconds": 100 * 365 * 86_400 // 2},
    "capped": {"size_bytes": 1_000_000},
    "rotate": {"unit": "day"},
    "rotate-databases": {"unit": "month"},
}


@pytest.fixture(autouse=True)
def _drop_databases(analytics_db: Db) -> Iterator[None]:
    yield
    for name in analytics_db.client.list_database_names():
        if name.startswith(f"{analytics_db.name}_"):
            analytics_db.client.drop_database(name)


@pytest.fixture
def events(analytics_db: Db) -> EventLog:
    """The event log, which notices every change of policy at once."""
    return EventLog(analytics_db, partitions=EventPartitions(analytics_db, refresh_seconds=0))


@pytest.fixture
def retention(analytics_db: Db) -> Retention:
    """Retention without waiting times."""
    return Retention(analytics_db, grace_seconds=0, settle_seconds=0)


def fill(log: EventLog, first: int = 0) -> None:
    """Record an event for each of 48 hours, beginning on the third day before February."""
    recorded = log.record_many(
        [{"time": START + timedelta(hours=3 * n), "path": f"/{n % 3}", "bytes": first + n} for n in range(48)]
    )
    assert recorded.failures == []


def numbers(log: EventLog) -> list[int]:
    """Return the numbers of all events, after checking that all readers agree."""
    found = [event["bytes"] for event in log.between(START, END)]
    assert found == sorted(found)
    by_path = [event["bytes"] for n in range(3) for event in log.by_path(f"/{n}")]
    assert sorted(by_path) == found
    assert sum(row["count"] for row in log.count_by_day_and_path(START, END).items) == len(found)
    assert log.count() == len(found)
    return found


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_each_strategy_stores_and_reads(
    analytics_db: Db, events: EventLog, retention: Retention, strategy: str
) -> None:
    retention.switch(strategy, **STRATEGIES[strategy])
    fill(events)
    assert numbers(events) == list(range(48))
    assert figures(analytics_db)["events"] == 48


@pytest.mark.parametrize(("old", "new"), list(itertools.permutations(STRATEGIES, 2)))
def test_switching_loses_no_event_that_the_policy_keeps(
    events: EventLog, retention: Retention, old: str, new: str
) -> None:
    retention.switch(old, **STRATEGIES[old])
    fill(events)
    policy = retention.switch(new, **STRATEGIES[new])
    assert (policy.strategy, policy.moving) == (new, False)
    assert numbers(events) == list(range(48))
    events.record({"time": START + timedelta(hours=3 * 47 + 1), "path": "/0", "bytes": 48})
    assert numbers(events) == list(range(49))


# From each to each other once: a circuit through all twenty pairs.
ORDER = ["keep", "rotate", "capped", "ttl", "rotate-databases"]
LIVE = [ORDER[number] for number in (1, 0, 2, 0, 3, 0, 4, 1, 2, 1, 3, 1, 4, 2, 3, 2, 4, 3, 4, 0)]


class Traffic:
    """A writer of numbered events, and readers that must always see the first 48, no event twice, and no gap.

    A writer may notice a new policy late; `Retention` ensures that readers notice it before events move.
    """

    def __init__(self, db: Db) -> None:
        self._db = db
        self._stop = threading.Event()
        self.written: list[int] = []
        self.wrong: list[object] = []
        self.rounds = 0
        kinds = (self._write, self._read_streams, self._read_counts)
        self._threads = [threading.Thread(target=self._guarded, args=(kind,)) for kind in kinds]

    def __enter__(self) -> Traffic:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def wait_for_readers(self, _: float) -> None:
        """Wait until every earlier stream has ended; this replaces the waiting time of `Retention`."""
        until = self.rounds + 2
        wait_until(lambda: self.rounds >= until or self.wrong)

    def _guarded(self, kind) -> None:
        try:
            while not self._stop.is_set():
                kind()
        except BaseException as error:
            self.wrong.append(error)

    def _log(self, refresh_seconds: float = 0) -> EventLog:
        return EventLog(self._db, partitions=EventPartitions(self._db, refresh_seconds=refresh_seconds))

    def _write(self) -> None:
        log = self._log(refresh_seconds=0.05)
        for number in range(48 + len(self.written), 58 + len(self.written)):
            log.record({"time": END - timedelta(hours=1), "path": "/0", "bytes": number})
            self.written.append(number)

    def _read_streams(self) -> None:
        before = len(self.written)
        found = sorted(event["bytes"] for event in self._log().between(START, END))
        if found[: 48 + before] != [*range(48 + before)] or len(set(found)) != len(found):
            self.wrong.append(("stream", before, found))
        self.rounds += 1

    def _read_counts(self) -> None:
        before = len(self.written)
        counted = sum(row["count"] for row in self._log().count_by_day_and_path(START, END).items)
        if not 48 + before <= counted <= 48 + len(self.written) + 1:
            self.wrong.append(("count", before, counted, len(self.written)))


def test_readers_and_writers_continue_through_every_switch(
    analytics_db: Db, events: EventLog, retention: Retention, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(events)
    with Traffic(analytics_db) as traffic:
        monkeypatch.setattr("squinney.analytics.events.retention.time", SimpleNamespace(sleep=traffic.wait_for_readers))
        for strategy in LIVE:
            retention.switch(strategy, **STRATEGIES[strategy])
            traffic.wait_for_readers(0)
    retention.apply()
    assert traffic.wrong == []
    assert len(set(itertools.pairwise(["keep", *LIVE]))) == 20
    assert len(traffic.written) > len(LIVE)
    assert sorted(event["bytes"] for event in events.between(START, END)) == [*range(48), *traffic.written]
    assert analytics_db["events"].count_documents({}) == 48 + len(traffic.written)


def test_two_concurrent_moves_lose_and_duplicate_nothing(
    analytics_db: Db, events: EventLog, retention: Retention
) -> None:
    fill(events)
    for strategy in ("rotate", "keep", "rotate"):
        analytics_db["retention"].update_one({"_id": "events"}, {"$set": {"strategy": strategy}}, upsert=True)
        threads = [threading.Thread(target=Retention(analytics_db, settle_seconds=0).apply) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert numbers(events) == list(range(48))


def test_a_move_that_ends_does_not_end_a_later_one(
    analytics_db: Db, events: EventLog, retention: Retention, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise readers would not notice that events still move, and would see some twice or not at all."""
    fill(events)
    under_way, go_on = threading.Event(), threading.Event()
    later = threading.Thread(target=lambda: Retention(analytics_db, settle_seconds=0).switch("keep"))
    move_all = retention_module.move_all

    def slowly(places: EventPartitions, policy: Policy) -> int:
        if policy.strategy == "keep":
            under_way.set()
            assert go_on.wait(30)
            return move_all(places, policy)
        moved = move_all(places, policy)
        later.start()
        assert under_way.wait(30)
        return moved

    monkeypatch.setattr(retention_module, "move_all", slowly)
    retention.switch("rotate")
    is_moving = retention.policy().moving
    go_on.set()
    later.join()
    assert is_moving
    assert retention.policy() == Policy("keep")
    assert numbers(events) == list(range(48))


def test_no_event_is_deleted_before_a_majority_has_its_copy(own_db: Db, failing: Failing) -> None:
    apply(own_db, COLLECTIONS)
    log, retention = EventLog(own_db), Retention(own_db, settle_seconds=0)
    fill(log)
    unconfirmed = {"code": 64, "errmsg": "waiting for replication timed out"}
    with failing(["insert"], writeConcernError=unconfirmed), pytest.raises(Unavailable):
        retention.switch("capped", size_bytes=1_000_000)
    assert own_db["events"].count_documents({}) == 48
    assert retention.apply() == {"moved": 48}


@pytest.mark.parametrize("strategy", ["keep", "rotate"])
def test_a_broken_stream_raises_unavailable(own_db: Db, failing: Failing, strategy: str) -> None:
    apply(own_db, COLLECTIONS)
    log = EventLog(own_db)
    Retention(own_db, settle_seconds=0).switch(strategy)
    log.record_many([{"time": START, "path": "/"} for _ in range(200)])
    with failing(["getMore"], closeConnection=True), pytest.raises(Unavailable):
        list(log.by_path("/"))
    assert len(list(log.by_path("/"))) == 200


def test_readers_open_only_the_days_they_need(analytics_db: Db, events: EventLog, retention: Retention) -> None:
    retention.switch("rotate")
    fill(events)
    places = EventPartitions(analytics_db).spanning(START + timedelta(days=1), START + timedelta(days=3))
    assert [place.name for place in places] == ["events", "events.d20260131", "events.d20260201"]


def test_ttl_deletes_and_can_be_changed(analytics_db: Db, events: EventLog, retention: Retention) -> None:
    now = utcnow()
    for minutes in (1, 30, 120):
        events.record({"time": now - timedelta(minutes=minutes), "path": "/", "bytes": minutes})
    retention.switch("ttl", keep_seconds=7_200 - 60)
    wait_until(lambda: analytics_db["events"].count_documents({}) == 2)
    retention.switch("ttl", keep_seconds=600)
    wait_until(lambda: analytics_db["events"].count_documents({}) == 1)
    assert analytics_db["events"].index_information()["time_-1"]["expireAfterSeconds"] == 600
    retention.switch("keep")
    assert "time_-1" not in analytics_db["events"].index_information()


def test_a_capped_log_keeps_the_newest(events: EventLog, retention: Retention) -> None:
    retention.switch("capped", size_bytes=4_096)
    for n in range(100):
        events.record({"time": START + timedelta(minutes=n), "path": "/" + "x" * 100, "bytes": n})
    kept = [event["bytes"] for event in events.between(START, END)]
    assert kept == list(range(100 - len(kept), 100))
    assert 0 < len(kept) < 50


def test_old_days_are_closed_then_dropped(analytics_db: Db, events: EventLog, retention: Retention) -> None:
    now = utcnow()
    retention.switch("rotate", keep_seconds=2 * 86_400)
    for days in range(5):
        events.record({"time": now - timedelta(days=days), "path": "/", "bytes": days})
    assert retention.apply() == {"closed": 1}
    with pytest.raises(Invalid, match="older than the retention policy keeps"):
        events.record({"time": now - timedelta(days=4), "path": "/"})
    assert retention.apply() == {"dropped": 2}
    assert [event["bytes"] for event in events.between(now - timedelta(days=9), now + timedelta(days=1))] == [2, 1, 0]
    assert retention.apply() == {}


def test_a_closed_day_is_reopened_by_a_longer_policy(analytics_db: Db, events: EventLog, retention: Retention) -> None:
    old = utcnow() - timedelta(days=4)
    events.record({"time": old, "path": "/", "bytes": 1})
    retention.switch("rotate", keep_seconds=86_400)
    assert retention.apply() == {"closed": 1}
    closed = retention.policy()
    retention.switch("rotate", keep_seconds=30 * 86_400)
    assert retention.apply() == {}
    (place,) = EventPartitions(analytics_db).partitions()
    assert not retention.drop(place, closed_at=closed.closed_at)  # by a worker that read the older policy
    events.record({"time": old, "path": "/", "bytes": 2})
    assert sorted(event["bytes"] for event in events.by_path("/")) == [1, 2]


@pytest.mark.parametrize("unit", ["day", "month"])
def test_each_day_has_a_partition_or_is_refused(events: EventLog, retention: Retention, unit: str) -> None:
    retention.switch("rotate", unit=unit)
    days = [datetime(year, 12, 31, 23, 59, tzinfo=UTC) for year in (1, 15, 150, 999, 1000, 9997, 9998, 9999)]
    assert events.record_many([{"time": day, "path": "/"} for day in days]).stored == 2
    everything = events.between(datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))
    assert [event["time"].year for event in everything] == [1000, 9997]


def test_nothing_is_dropped_before_it_is_rolled_up(analytics_db: Db, events: EventLog, retention: Retention) -> None:
    now = utcnow()
    retention.switch("rotate", keep_seconds=86_400)
    rollups = Rollups(analytics_db, key="path", value="bytes", time="time")
    rollups.run()
    old = now - timedelta(days=3)
    events.record({"time": old, "path": "/", "bytes": 7})
    assert retention.apply() == {"closed": 1}
    assert retention.apply() == {"waiting for roll-ups": 1}
    rollups.run()
    long_ago = Timestamp(1, 1)  # the overlap has passed
    for place in EventPartitions(analytics_db).partitions():
        place.update_many({}, {"$set": {"arrived": long_ago}})
    wait_until(lambda: rollups.run() and retention.apply() == {"dropped": 1})
    later = list(events.between(old - timedelta(days=1), now))
    assert later == []
    rollups.run()
    (day,) = rollups.read("daily", "/", old - timedelta(days=1), now)
    assert day["total"] == 7
    refused = events.record_many([{"time": old, "path": "/", "bytes": 100}])
    assert (refused.stored, len(refused.failures)) == (0, 1)
    with pytest.raises(Conflict, match="were dropped"):
        rollups.rebuild(old, now)


def test_roll_ups_are_repaired_next_to_dropped_days(analytics_db: Db, events: EventLog, retention: Retention) -> None:
    today = utcnow().replace(hour=0, minute=0, second=0, microsecond=0)
    gone = today - timedelta(days=2)
    hours = [gone + timedelta(hours=n) for n in range(-24, 48)]
    events.record_many([{"time": hour, "path": "/", "bytes": 1} for hour in hours])
    rollups = Rollups(analytics_db, key="path", value="bytes", time="time")
    rollups.run()
    retention.switch("rotate")
    (old, *_) = EventPartitions(analytics_db).partitions()
    old.update_many({}, {"$set": {"arrived": Timestamp(1, 1)}})  # the overlap has passed
    analytics_db["retention"].update_one({}, {"$set": {"closed_at": START}})
    assert retention.drop(old, closed_at=START)
    assert rollups.rebuild(gone, today).buckets["hourly"] == 48
    for level in ("daily", "weekly", "monthly", "yearly"):
        analytics_db[f"rollups.{level}"].update_many({}, {"$inc": {"value.total": 1}})
    assert len(list(verify(analytics_db))) >= 6
    repair(analytics_db)
    assert list(verify(analytics_db)) == []
    assert [day["total"] for day in rollups.read("daily", "/", hours[0], today)] == [24, 24, 24]


def test_with_roll_ups_only_keep_and_rotate_are_accepted(analytics_db: Db, retention: Retention) -> None:
    Rollups(analytics_db, key="path", value="bytes", time="time").run()
    for strategy in ("ttl", "capped", "rotate-databases"):
        with pytest.raises(Conflict, match="keep or rotate"):
            retention.switch(strategy, keep_seconds=86_400, size_bytes=1_000_000)
    retention.switch("rotate")


def test_a_roll_up_that_starts_during_a_switch_ends_the_switch(
    analytics_db: Db, retention: Retention, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: both succeeded, and events could be deleted before they were counted."""
    rollups = Rollups(analytics_db, key="path", value="bytes", time="time")
    retention.switch("rotate", unit="month")
    before = retention.policy()
    monkeypatch.setattr(Retention, "_end_ttl", lambda _: rollups.run())
    with pytest.raises(Conflict, match="keep or rotate"):
        retention.switch("capped", size_bytes=100_000)
    assert retention.policy() == before


def test_a_roll_up_refused_because_of_retention_is_not_started(analytics_db: Db, retention: Retention) -> None:
    retention.switch("ttl", keep_seconds=86_400)
    with pytest.raises(Conflict, match="keep or rotate"):
        Rollups(analytics_db, key="path", value="bytes", time="time").run()
    assert Rollups.registered(analytics_db) == []
    retention.switch("capped", size_bytes=1_000_000)


def test_roll_ups_span_rotated_days(analytics_db: Db, events: EventLog, retention: Retention) -> None:
    fill(events)
    rollups = Rollups(analytics_db, key="path", value="bytes", time="time")
    rollups.run()
    retention.switch("rotate")
    fill(events, first=1_000)
    rollups.run()
    total = sum(bucket["total"] for n in range(3) for bucket in rollups.read("daily", f"/{n}", START, END))
    assert total == sum(range(48)) * 2 + 48_000


def test_roll_ups_span_more_days_than_a_pipeline_has_stages(
    analytics_db: Db, events: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    events.record({"time": START, "path": "/", "bytes": 1})
    days = [START + timedelta(days=n) for n in range(1_100)]  # whose collections are empty: making them takes long
    partitions = [analytics_db[f"events.{day:d%Y%m%d}"] for day in days]
    monkeypatch.setattr(EventPartitions, "spanning", lambda *_: [analytics_db["events"], *partitions])
    rollups = Rollups(analytics_db, key="path", value="bytes", time="time")
    rollups.run()
    assert list(verify(analytics_db)) == []
    assert [day["count"] for day in rollups.read("daily", "/", START, END)] == [1]


def test_roll_ups_count_events_from_other_databases_once(
    analytics_db: Db, events: EventLog, retention: Retention
) -> None:
    fill(events)
    retention.switch("rotate-databases")
    retention.switch("keep")
    rollups = Rollups(analytics_db, key="path", value="bytes", time="time")
    rollups.run()
    assert sum(bucket["count"] for n in range(3) for bucket in rollups.read("daily", f"/{n}", START, END)) == 48
    assert list(verify(analytics_db)) == []


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("burn",), "strategy"),
        (("ttl",), "keep_seconds"),
        (("capped",), "size_bytes"),
    ],
)
def test_bad_policies_are_refused(retention: Retention, arguments: tuple, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        retention.switch(*arguments)
    with pytest.raises(Invalid, match="unit"):
        retention.switch("rotate", unit="hour")
    assert retention.policy().strategy == "keep"


def wait_until(holds, seconds: float = 30) -> None:
    """Wait until the condition holds."""
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.2)
