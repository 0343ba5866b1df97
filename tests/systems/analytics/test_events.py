"""Recording and reading events."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from tests.racing import at_once
from tests.systems.analytics.conftest import JUNE, MAY

from squinney.analytics import EventLog, pack
from squinney.errors import Invalid
from squinney.mongo.schema import Db, Document
from squinney.patterns.paging import cursor_after
from squinney.transactions import Key, KeyReused

AT = datetime(2015, 5, 17, 10, 5, 3, tzinfo=UTC)


def test_a_recorded_event_comes_back(log: EventLog) -> None:
    stored = log.record({"time": AT, "host": "h", "path": "/a", "status": 200, "tenant": "blue"})
    (found,) = log.by_path("/a")
    assert found == stored
    assert (found["time"], found["tenant"]) == (AT, "blue")


@pytest.mark.parametrize("durability", ["fire-and-forget", "acknowledged", "journaled", "replicated", 1])
def test_each_durability_stores(log: EventLog, durability: str | int) -> None:
    log.record({"time": AT, "path": "/a"}, durability=durability)
    log.record({"time": AT, "path": "/a"})  # behind it on the same connection, so the first has arrived too
    assert len(list(log.by_path("/a"))) == 2


@pytest.mark.parametrize("durability", ["certain", 0, 51, True, None])
def test_an_unknown_durability_is_refused(log: EventLog, durability: object) -> None:
    with pytest.raises(Invalid, match="durability must be one of"):
        log.record({"time": AT}, durability=durability)


@pytest.mark.parametrize(
    ("event", "why"),
    [
        ({}, "time must be"),
        ({"time": AT.replace(tzinfo=None)}, "zone"),
        ({"time": AT, "status": "200"}, "status"),
        ({"time": AT, "path": "a\0b"}, "NUL"),
        ({"time": AT, "$set": 1}, r"\$"),
        ({"time": AT, "a.b": 1}, "dot"),
        ({"time": AT, "_id": "mine"}, "set by the event log"),
        ({"time": AT, "deep": {"a": 1}}, "deep"),
        ({"time": AT, "path": "x" * 20_000}, "16384"),
        ({"time": AT, "seconds": float("nan")}, "finite"),
        ({"time": AT, "seconds": float("inf")}, "finite"),
    ],
)
def test_bad_events_are_refused(log: EventLog, event: dict[str, object], why: str) -> None:
    with pytest.raises(Invalid, match=why):
        log.record(event)
    assert log.count() == 0


def test_every_failed_event_of_a_batch_is_reported(log: EventLog) -> None:
    events = [{"time": AT, "path": f"/{n}"} for n in range(6)]
    events[1]["status"] = "x"
    del events[4]["time"]
    recorded = log.record_many(events)
    assert recorded.stored == 4
    assert [(failure.index, failure.reason.split()[0]) for failure in recorded.failures] == [(1, "status"), (4, "time")]


def test_each_event_that_the_server_refuses_is_reported(log: EventLog, analytics_db: Db) -> None:
    """The server refuses a whole page, which is of one hour."""
    analytics_db.command("collMod", "analytics.events", validator={"events.path": {"$ne": "/bad"}})
    hours = [AT + timedelta(hours=n % 2) for n in range(6)]
    recorded = log.record_many([{"time": hour, "path": "/bad" if n == 3 else "/good"} for n, hour in enumerate(hours)])
    assert recorded.stored == 3
    assert [failure.index for failure in recorded.failures] == [1, 3, 5]


def test_events_with_a_key_are_stored_once(keyed_db: Db) -> None:
    log = EventLog(keyed_db)
    events = [{"time": AT + timedelta(days=n), "path": "/", "bytes": n} for n in range(20)]
    events[3]["status"] = "x"
    answers = at_once(8, lambda _: log.record_many(events, key="k"))
    assert {(one.stored, one.failures[0].index) for one in answers} == {(19, 3)}
    assert pack(keyed_db) == {}
    assert EventLog(keyed_db).record_many(events, key="k").stored == 19
    one = log.record({"time": AT, "path": "/"}, key="k2")
    assert log.record({"time": AT, "path": "/"}, key="k2") == one
    assert len(list(log.by_path("/"))) == 20
    with pytest.raises(KeyReused):
        log.record_many(events[:5], key="k")
    assert log.record_many(events[:5], key=Key("k", "another's")).stored == 4
    assert len(list(log.by_path("/"))) == 24


def test_readers_are_in_the_order_of_time_and_exclude_the_end(log: EventLog) -> None:
    log.record_many([{"time": AT + timedelta(seconds=n), "host": f"h{n % 2}", "path": "/"} for n in (3, 1, 2, 0)])
    seconds = [event["time"].second for event in log.between(AT, AT + timedelta(seconds=3))]
    assert seconds == [3, 4, 5]
    assert [event["time"].second for event in log.by_host("h1", MAY, JUNE)] == [4, 6]


def test_pages_contain_each_event_once_even_if_many_have_the_same_time(log: EventLog) -> None:
    log.record_many([{"time": AT + timedelta(seconds=n // 7), "path": "/", "bytes": n} for n in range(50)])
    seen, start = [], MAY
    while True:
        page = log.page(start, JUNE, path="/", limit=5)
        seen += [event["bytes"] for event in page.items]
        if page.next is None:
            break
        start = datetime.fromisoformat(page.next)
    assert sorted(seen) == list(range(50))


@pytest.mark.parametrize("reader", ["by_path", "by_host"])
def test_readers_refuse_bad_names_and_naive_times(log: EventLog, reader: str) -> None:
    read = getattr(log, reader)
    for arguments in (({"$ne": None},), (None,), ("/", AT.replace(tzinfo=None)), ("/", None, AT.date())):
        with pytest.raises(Invalid):
            read(*arguments)
    with pytest.raises(Invalid, match="path"):
        log.page(AT, AT, path=["/"])  # type: ignore[arg-type]


def test_index_sizes_lists_each_index(log: EventLog) -> None:
    log.record({"time": AT, "path": "/"})
    assert {"_id_", "events.path_1_from_1", "events.host_1_from_1", "from_1_to_1"} < set(log.index_sizes())


def test_status_codes_are_counted(log: EventLog) -> None:
    log.record_many([{"time": AT, "status": status} for status in (200, 200, 404)])
    assert log.count_by_status(MAY, JUNE) == {200: 2, 404: 1}


def test_days_and_paths_are_counted_page_by_page(log: EventLog) -> None:
    days = [AT + timedelta(days=n) for n in (0, 1, 9)]
    log.record_many([{"time": day, "path": f"/{n}"} for day in days for n in range(4) for _ in range(n + 1)])
    wanted = [(day.date(), f"/{n}", n + 1) for day in days for n in range(4)]
    for limit in (1, 3, 5, 1_000):
        seen, cursor = [], None
        while not seen or cursor:
            page = log.count_by_day_and_path(MAY, JUNE, cursor=cursor, limit=limit)
            assert 0 < len(page.items) <= limit
            seen += [(row["day"].date(), row["path"], row["count"]) for row in page.items]
            cursor = page.next
        assert seen == wanted
    within = log.count_by_day_and_path(AT + timedelta(hours=20), AT + timedelta(days=8))
    assert [row["path"] for row in within.items] == ["/0", "/1", "/2", "/3"]
    for cursor in ("nonsense", cursor_after([("day", 1), ("path", 1)], {"day": 1, "path": "/"})):
        with pytest.raises(Invalid, match="cursor"):
            log.count_by_day_and_path(MAY, JUNE, cursor=cursor)
    with pytest.raises(Invalid, match="limit"):
        log.count_by_day_and_path(MAY, JUNE, limit=1_001)


# ---- pages ----


def pages(db: Db) -> list[Document]:
    return list(db["analytics.events"].find().sort("_id", 1))


def test_events_of_one_site_and_hour_share_a_page(log: EventLog, analytics_db: Db) -> None:
    log.record_many([{"time": AT + timedelta(minutes=20 * n), "site": f"s{n % 2}", "bytes": n} for n in range(6)])
    found = {
        (page["_id"][:13], page["site"]): [event["bytes"] for event in page["events"]] for page in pages(analytics_db)
    }
    assert found == {
        ("2015-05-17T10", "s0"): [0, 2],
        ("2015-05-17T10", "s1"): [1],
        ("2015-05-17T11", "s0"): [4],
        ("2015-05-17T11", "s1"): [3, 5],
    }
    assert all(page["from"] == min(event["time"] for event in page["events"]) for page in pages(analytics_db))
    assert all(page["to"] == max(event["time"] for event in page["events"]) for page in pages(analytics_db))


def test_a_page_is_bounded(log: EventLog, analytics_db: Db) -> None:
    log.record_many([{"time": AT, "bytes": n} for n in range(500)])
    log.record_many([{"time": AT, "path": "x" * 16_000} for n in range(20)])
    assert sorted(page["n"] for page in pages(analytics_db)) == [2, 9, 9, 100, 200, 200]


def test_an_event_is_deleted_at_its_time_or_with_earlier_ones_of_its_hour(log: EventLog, analytics_db: Db) -> None:
    until = datetime(2999, 1, 1, 10, tzinfo=UTC)
    waits = [timedelta(0), timedelta(minutes=2), timedelta(days=1)]
    log.record_many([{"time": AT, "bytes": n, "forget_at": until + wait} for n, wait in enumerate(waits)])
    log.record({"time": AT, "bytes": 3})
    found = {page.get("forget_at"): [event["bytes"] for event in page["events"]] for page in pages(analytics_db)}
    assert found == {until: [0, 1], until + waits[2]: [2], None: [3]}
    assert pack(analytics_db) == {"packed": 3}
    assert {page.get("forget_at") for page in pages(analytics_db)} == {until, until + waits[2], None}


def test_small_pages_are_packed_when_their_hour_is_over(log: EventLog, analytics_db: Db) -> None:
    now = AT + timedelta(hours=1)
    for n in range(250):
        log.record({"time": AT + timedelta(seconds=n % 120), "path": f"/{n % 7}", "bytes": n})
    assert pack(analytics_db, clock=lambda: AT) == {}
    before = list(log.between(MAY, JUNE))
    assert pack(analytics_db, clock=lambda: now) == {"packed": 250}
    assert [page["n"] for page in pages(analytics_db)] == [200, 50]
    after = list(log.between(MAY, JUNE))
    assert sorted(after, key=lambda event: event["bytes"]) == sorted(before, key=lambda event: event["bytes"])
    assert [event["time"] for event in after] == sorted(event["time"] for event in before)
    assert pack(analytics_db, clock=lambda: now) == {}


def test_a_reader_misses_nothing_that_is_packed_meanwhile(log: EventLog, analytics_db: Db) -> None:
    for n in range(60):
        log.record({"time": AT + timedelta(seconds=n), "path": "/", "bytes": n})
    for read in (lambda: log.by_path("/"), lambda: log.between(MAY, JUNE)):
        stream = read()
        first = [next(stream)["bytes"] for _ in range(10)]
        pack(analytics_db)
        assert first + [event["bytes"] for event in stream] == list(range(60))
        analytics_db["analytics.events"].update_many({}, {"$set": {"loose": True}})


def test_pages_that_overlap_are_read_in_the_order_of_time(log: EventLog, analytics_db: Db) -> None:
    rng = Random(5)
    times = [AT + timedelta(seconds=rng.randrange(9_000)) for _ in range(900)]
    for start in range(0, 900, 45):
        part = sorted(times[start : start + 45]) if start % 2 else times[start : start + 45]
        log.record_many([{"time": at, "path": f"/{at.second % 3}", "host": "h"} for at in part])
    for start, end in ((MAY, JUNE), (AT + timedelta(minutes=31), AT + timedelta(minutes=77, seconds=5))):
        inside = sorted(at for at in times if start <= at < end)
        assert [event["time"] for event in log.between(start, end)] == inside
        assert [event["time"] for event in log.by_path("/1", start, end)] == [at for at in inside if at.second % 3 == 1]
        assert [event["time"] for event in log.by_host("h", start, end)] == inside


def test_many_pages_of_one_moment_are_read(log: EventLog) -> None:
    for _ in range(3):
        log.record_many([{"time": AT, "path": "/"} for _ in range(2_000)])
    log.record({"time": AT + timedelta(seconds=1), "path": "/"})
    assert len(list(log.by_path("/"))) == 6_001
