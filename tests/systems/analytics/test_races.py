"""Races that the explorer found: another operation runs completely at the worst moment of the first one."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

import pytest
from pymongo.collection import Collection

from squinney import analytics
from squinney.analytics import EventLog, Retention, Rollups, feed_hits, forget, forgetting
from squinney.analytics.events import retention
from squinney.analytics.events.partitions import EventPartitions
from squinney.analytics.hits import feed
from squinney.mongo.schema import Db

START = datetime(2026, 3, 30, 22, tzinfo=UTC)
LINES = 6


@pytest.fixture
def source(analytics_db: Db) -> str:
    """An imported log of two days."""
    times = (START + timedelta(minutes=40 * number) for number in range(LINES))
    text = "".join(f'h - - [{at:%d/%b/%Y:%H:%M:%S} +0000] "GET / HTTP/1.1" 200 1 "-" "x"\n' for at in times)
    imported = EventLog(analytics_db).import_file(io.BytesIO(text.encode()), source="log", site="s").source
    assert imported
    return str(imported["_id"])


def before_first_call(work: Callable[[], object], function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function, which runs `work` first when it is called for the first time."""
    waiting = [work]

    def run(*args: Any, **kwargs: Any) -> Any:
        while waiting:
            waiting.pop()()
        return function(*args, **kwargs)

    return run


def stored(db: Db) -> int:
    """Count the events in all partitions."""
    return sum(partition.count_documents({}) for partition in EventPartitions(db).spanning())


def rotating(db: Db) -> Retention:
    """Set a policy whose events are not moved yet."""
    db["retention"].insert_one({"_id": "events", "strategy": "rotate", "unit": "day", "moving": True})
    return Retention(db, grace_seconds=0, settle_seconds=0)


def test_hits_of_a_log_that_is_forgotten_meanwhile_are_not_counted(analytics_db: Db, source: str) -> None:
    marked = {"$set": {"state": "forgetting", "forgetting": []}}
    mark = before_first_call(lambda: analytics_db["imports"].update_one({}, marked), feed.transact)
    with patch.object(feed, "transact", mark):
        assert feed_hits(analytics_db, source) == 0
    forget(analytics_db, source)
    assert sum(day["total"] for day in analytics_db["hits.daily"].find()) == 0


def test_a_log_that_two_forget_is_in_no_roll_up(analytics_db: Db, source: str) -> None:
    Rollups(analytics_db, key="path", value="bytes", time="time").run()

    def forget_and_die() -> None:
        with patch.object(forgetting, "rebuild_span", side_effect=InterruptedError), pytest.raises(InterruptedError):
            forget(analytics_db, source)

    with patch.object(forgetting, "_span", before_first_call(forget_and_die, forgetting._span)):
        forget(analytics_db, source)
    assert list(analytics.verify(analytics_db)) == []


def test_a_forgotten_event_does_not_return_by_a_move(analytics_db: Db, source: str) -> None:
    policy = rotating(analytics_db)
    with patch.object(
        retention, "transact", before_first_call(lambda: forget(analytics_db, source), retention.transact)
    ):
        policy.apply()
    assert stored(analytics_db) == 0


def test_events_that_move_behind_the_deletion_are_forgotten_too(analytics_db: Db, source: str) -> None:
    policy = rotating(analytics_db)
    policy.apply()
    delete_many = Collection.delete_many
    move_back = [lambda: policy.switch("keep")]

    def delete_then_move(self: Any, *args: Any, **kwargs: Any) -> Any:
        """After the deletion from the first partition, the events of the others move there."""
        deleted = delete_many(self, *args, **kwargs)
        while self.name == "events" and move_back:
            move_back.pop()()
        return deleted

    with patch.object(Collection, "delete_many", delete_then_move):
        forget(analytics_db, source)
    assert stored(analytics_db) == 0


def test_opposite_moves_of_an_event_in_both_partitions_do_not_lose_it(analytics_db: Db, source: str) -> None:
    policy = rotating(analytics_db)
    partitions = EventPartitions(analytics_db)
    event = analytics_db["events"].find_one()
    assert event
    target = partitions.partition_for(event["time"], partitions.policy())
    partitions.ensure_created(target, partitions.policy()).insert_one(event)

    def delete_and_move_back(partition: Any, documents: Any) -> None:
        """After the insert, and before the deletion: the event moves back."""
        insert_missing(partition, documents)
        with patch.object(retention, "insert_missing", insert_missing):
            policy.switch("keep")

    insert_missing = retention.insert_missing
    with patch.object(retention, "insert_missing", delete_and_move_back):
        policy.apply()
    Retention(analytics_db, settle_seconds=0).apply()
    assert stored(analytics_db) == LINES
