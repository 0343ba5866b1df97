"""Races that the explorer found: another operation runs completely at the worst moment of the first one."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

import pytest
from pymongo.collection import Collection
from tests.systems.analytics.conftest import stored_events

from squinney import analytics
from squinney.analytics import Rollups, feed_hits, forget, forgetting, pack
from squinney.analytics.events import pages
from squinney.analytics.events.imports import import_stream
from squinney.analytics.events.lines import Options
from squinney.analytics.hits import feed
from squinney.mongo.schema import Db

START = datetime(2026, 3, 30, 22, tzinfo=UTC)
LINES = 6


@pytest.fixture
def source(analytics_db: Db) -> str:
    """An imported log of two days, in several small pages per hour."""
    times = (START + timedelta(minutes=20 * number) for number in range(LINES))
    text = "".join(f'h - - [{at:%d/%b/%Y:%H:%M:%S} +0000] "GET / HTTP/1.1" 200 1 "-" "x"\n' for at in times)
    options = Options(name="log", site="s", chunk_bytes=70)
    imported = import_stream(analytics_db, io.BytesIO(text.encode()), options).source
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


def hits(db: Db) -> int:
    return sum(day["total"] for day in db["analytics.hits_daily"].find())


def test_hits_of_a_log_that_is_forgotten_meanwhile_are_not_counted(analytics_db: Db, source: str) -> None:
    marked = {"$set": {"state": "forgetting", "forgetting": []}}
    mark = before_first_call(lambda: analytics_db["analytics.imports"].update_one({}, marked), feed.transact)
    with patch.object(feed, "transact", mark):
        assert feed_hits(analytics_db, source) == 0
    forget(analytics_db, source)
    assert hits(analytics_db) == 0


def test_a_log_that_two_forget_is_in_no_roll_up(analytics_db: Db, source: str) -> None:
    Rollups(analytics_db, key="path", value="bytes", time="time").run()

    def forget_and_die() -> None:
        with patch.object(forgetting, "rebuild_span", side_effect=InterruptedError), pytest.raises(InterruptedError):
            forget(analytics_db, source)

    with patch.object(forgetting, "_span", before_first_call(forget_and_die, forgetting._span)):
        forget(analytics_db, source)
    assert list(analytics.verify(analytics_db)) == []


def test_a_log_that_is_packed_while_its_hits_are_counted_is_counted_once(analytics_db: Db, source: str) -> None:
    """The pages of an hour whose first part is counted are not packed together with the others."""
    first = analytics_db["analytics.events"].find_one({}, sort=[("end", 1)])
    assert first
    analytics_db["analytics.imports"].update_one({}, {"$set": {"hits_offset": first["end"]}})
    assert pack(analytics_db)
    assert feed_hits(analytics_db, source) == LINES - 1
    assert pack(analytics_db) == {}
    assert len(stored_events(analytics_db)) == LINES


def test_pages_that_are_packed_behind_the_deletion_are_forgotten_too(analytics_db: Db, source: str) -> None:
    """A packing that began before the log was marked inserts its page after the others are deleted."""
    delete_many = Collection.delete_many
    page = analytics_db["analytics.events"].find_one()
    assert page
    returns = [lambda: analytics_db["analytics.events"].insert_one(page)]

    def delete_then_insert(self: Any, *args: Any, **kwargs: Any) -> Any:
        deleted = delete_many(self, *args, **kwargs)
        while self.name == "analytics.events" and returns:
            returns.pop()()
        return deleted

    with patch.object(Collection, "delete_many", delete_then_insert):
        forget(analytics_db, source)
    assert stored_events(analytics_db) == []


def test_a_log_that_is_being_forgotten_is_not_packed(analytics_db: Db, source: str) -> None:
    analytics_db["analytics.imports"].update_one({}, {"$set": {"state": "forgetting", "forgetting": []}})
    assert pack(analytics_db) == {}


def test_two_packings_keep_each_event_once(analytics_db: Db, source: str) -> None:
    again = before_first_call(lambda: pack(analytics_db), pages._pack_hour)
    with patch.object(pages, "_pack_hour", again):
        pack(analytics_db)
    assert len(stored_events(analytics_db)) == LINES
