"""Counting hits and reading them as complete series."""

from __future__ import annotations

import random
import threading
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.racing import at_once

from squinney.analytics import BufferedHits, Hits
from squinney.analytics.calendar import floor
from squinney.analytics.hits.documents import HIT_COLLECTIONS
from squinney.analytics.hits.increments import id_of
from squinney.errors import Invalid, LimitReached, Unavailable
from squinney.mongo import schema
from squinney.mongo.deadlines import operation
from squinney.mongo.schema import Db
from squinney.transactions import Busy, Key, KeyReused

AT = datetime(2026, 3, 28, 22, 15, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


@pytest.fixture
def hits(analytics_db: Db) -> Hits:
    """The counters."""
    return Hits(analytics_db)


def counts(points: list) -> list[int]:
    """Return the counts of a series that are not zero."""
    return [point.hits for point in points if point.hits]


def test_one_hit_is_counted_at_every_granularity(hits: Hits, analytics_db: Db) -> None:
    hits.record("s", "/p", AT, 3)
    day = analytics_db["analytics.hits_daily"].find_one()
    month = analytics_db["analytics.hits_monthly"].find_one()
    assert day["metadata"] == {"date": AT.replace(hour=0, minute=0, second=0), "site": "s", "page": "/p"}
    assert (day["total"], day["hourly"], day["minute"]) == (3, {"22": 3}, {"22": {"15": 3}})
    assert (month["metadata"]["date"], month["total"], month["daily"]) == (
        datetime(2026, 3, 1, tzinfo=UTC),
        3,
        {"28": 3},
    )


def test_series_are_complete_and_exclude_the_end(hits: Hits) -> None:
    hits.record("s", "/p", AT)
    hits.record("s", "/p", AT + 2 * HOUR)
    hours = hits.hours("s", "/p", AT, AT + 2 * HOUR)
    assert [(point.at.hour, point.hits) for point in hours] == [(22, 1), (23, 0), (0, 1)]
    assert hits.hours("s", "/p", AT, AT) == []
    minutes = hits.minutes("s", "/p", AT.replace(minute=14), AT.replace(minute=17))
    assert [point.hits for point in minutes] == [0, 1, 0, 0][: len(minutes)]
    months = hits.months("s", "/p", AT - 40 * DAY, AT + 40 * DAY)
    assert [(point.at.month, point.hits) for point in months] == [(2, 0), (3, 2), (4, 0), (5, 0)]
    weeks = hits.weeks("s", "/p", AT - 7 * DAY, AT + 7 * DAY)
    assert all(point.at.isoweekday() == 1 for point in weeks)
    assert counts(weeks) == [2]


@pytest.mark.parametrize("unit", ["minute", "hour", "day", "week", "month", "year"])
@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Pacific/Auckland"])
def test_series_in_the_first_and_last_years(hits: Hits, unit: str, zone: str) -> None:
    first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    assert hits.series("s", "/p", first, first + timedelta(days=1), unit, time_zone=zone) == []
    assert hits.series("s", "/p", last - timedelta(days=1), last, unit, time_zone=zone) == []


def test_an_unknown_unit_is_refused(hits: Hits) -> None:
    with pytest.raises(Invalid, match="unit must be one of minute"):
        hits.series("s", "/p", AT, AT + DAY, "fortnight")  # type: ignore[arg-type]


def test_days_in_a_zone_with_daylight_saving(hits: Hits) -> None:
    """In Berlin, 29 March 2026 has 23 hours, from 23:00 UTC to 22:00 UTC."""
    for hour in range(72):
        hits.record("s", "/p", datetime(2026, 3, 28, tzinfo=UTC) + hour * HOUR)
    berlin = ZoneInfo("Europe/Berlin")
    start, end = datetime(2026, 3, 28, tzinfo=berlin), datetime(2026, 3, 31, tzinfo=berlin)
    days = hits.days("s", "/p", start, end, time_zone="Europe/Berlin")
    assert [(point.at.day, point.at.hour, point.hits) for point in days] == [(28, 0, 23), (29, 0, 23), (30, 0, 24)]


@pytest.mark.parametrize(("zone", "skipped"), [("Pacific/Apia", "2011-12-30"), ("Pacific/Kiritimati", "1994-12-31")])
def test_a_skipped_day_is_not_in_the_series(hits: Hits, zone: str, skipped: str) -> None:
    """In Samoa, the 31st followed the 29th."""
    day = datetime.fromisoformat(skipped)
    behind = (day + DAY).replace(tzinfo=ZoneInfo(zone))
    hits.record("s", "/p", behind.astimezone(UTC) + timedelta(minutes=30))
    days = hits.days("s", "/p", behind.astimezone(UTC) - timedelta(hours=30), behind + DAY + HOUR, time_zone=zone)
    assert [(point.at.replace(tzinfo=None) - day, point.hits) for point in days[-3:]] == [
        (-DAY, 0),
        (DAY, 1),
        (2 * DAY, 0),
    ]


def test_days_in_a_half_hour_zone_are_read_from_minutes(hits: Hits) -> None:
    hits.record("s", "/p", datetime(2026, 3, 28, 18, 29, tzinfo=UTC), 1)
    hits.record("s", "/p", datetime(2026, 3, 28, 18, 30, tzinfo=UTC), 2)
    kolkata = ZoneInfo("Asia/Kolkata")
    start, end = datetime(2026, 3, 28, tzinfo=kolkata), datetime(2026, 3, 30, tzinfo=kolkata)
    assert counts(hits.days("s", "/p", start, end, time_zone="Asia/Kolkata")) == [1, 2]


ZONES = ["UTC", "Europe/Berlin", "Asia/Kolkata", "Australia/Lord_Howe", "America/Sao_Paulo", "Pacific/Apia"]
TIMES = st.integers(0, 210 * 86_400).map(lambda seconds: datetime(2018, 10, 1, tzinfo=UTC) + timedelta(seconds=seconds))


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(TIMES, max_size=20), st.sampled_from(ZONES), st.sampled_from(["minute", "hour", "day", "week", "month"])
)
def test_any_series_counts_what_was_recorded(hits: Hits, times: list[datetime], zone: str, unit: str) -> None:
    page = f"/{uuid.uuid4()}"
    hits.record_many([("s", page, at) for at in times])
    start = datetime(2018, 10, 1, tzinfo=UTC)
    end = datetime(2018, 10, 3, tzinfo=UTC) if unit == "minute" else datetime(2019, 5, 1, tzinfo=UTC)
    points = hits.series("s", page, start, end, unit, time_zone=zone)
    where = ZoneInfo(zone)
    expected = [floor(at, unit, where) for at in times]
    for point in points:
        assert point.hits == expected.count(point.at.astimezone(UTC)), point.at
    if unit != "minute":
        assert sum(point.hits for point in points) == len(times)


@pytest.mark.parametrize("name", ["", "/", "a.b.$c", "$set", "käse/🐿", "x" * 8_192, "a\nb", "'\"<script>"])
def test_unusual_names_of_sites_and_pages(hits: Hits, name: str) -> None:
    hits.record(name[:1000], name, AT)
    hits.record(name[:1000], name, AT)
    assert counts(hits.days(name[:1000], name, AT, AT + DAY)) == [2]
    assert hits.top_pages(name[:1000], AT.replace(minute=0, second=0), AT.replace(minute=0, second=0) + DAY) == [
        {"page": name, "hits": 2}
    ]


def test_ids_of_different_names_differ() -> None:
    assert id_of(AT, "a", "bc") != id_of(AT, "ab", "c")
    assert id_of(AT, "a/", "b") != id_of(AT, "a", "/b")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("s", "x" * 8_193, AT), "8192"),
        (("s", "a\0", AT), "NUL"),
        (("s", "/", AT.replace(tzinfo=None)), "zone"),
        (("s", "/", AT, 0), "count"),
        ((1, "/", AT), "site"),
    ],
)
def test_bad_hits_are_refused(hits: Hits, analytics_db: Db, arguments: tuple, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        hits.record_many([("s", "/", AT), arguments])
    assert analytics_db["analytics.hits_daily"].count_documents({}) == 0


def test_top_pages_and_totals_can_begin_and_end_within_a_day(hits: Hits) -> None:
    hits.record("s", "/a", AT, 5)
    hits.record("s", "/b", AT + HOUR, 7)
    hits.record("other", "/c", AT, 9)
    start = AT.replace(minute=0, second=0)
    assert hits.top_pages("s", start, start + DAY) == [{"page": "/b", "hits": 7}, {"page": "/a", "hits": 5}]
    assert hits.top_pages("s", start, start + HOUR) == [{"page": "/a", "hits": 5}]
    assert hits.top_pages("s", start, start + DAY, limit=1) == [{"page": "/b", "hits": 7}]
    assert hits.site_total("s", start, start + DAY) == 12
    assert hits.site_total("s", start + HOUR, start + DAY) == 7
    assert hits.sites() == ["other", "s"]
    with pytest.raises(Invalid, match="whole hours"):
        hits.site_total("s", AT, AT + DAY)


def test_a_count_beyond_64_bits_is_refused(hits: Hits, analytics_db: Db) -> None:
    hits.record("s", "/p", AT)
    analytics_db["analytics.hits_monthly"].update_one({}, {"$set": {"total": 2**63 - 2}})
    with pytest.raises(LimitReached, match="at most"):
        hits.record_many([("s", "/p", AT, 10), ("s", "/q", AT)])
    assert [day["total"] for day in analytics_db["analytics.hits_daily"].find()] == [1]
    with BufferedHits(analytics_db, flush_after_seconds=3_600) as buffered:
        buffered.record("s", "/p", AT, 10)
        with pytest.raises(LimitReached):
            buffered.flush()
    assert buffered.lost == 10


def test_sites_are_bounded(hits: Hits, monkeypatch: pytest.MonkeyPatch) -> None:
    hits.record_many([(f"s{n % 5}", f"/{n}", AT) for n in range(20)])
    assert hits.sites() == ["s0", "s1", "s2", "s3", "s4"]
    monkeypatch.setattr("squinney.analytics.hits.hits.MAX_SITES", 3)
    assert hits.sites() == ["s0", "s1", "s2"]


def test_preallocating_never_changes_a_count(hits: Hits, analytics_db: Db) -> None:
    hits.record("s", "/p", AT, 2)
    hits.preallocate("s", "/p", AT)
    hits.preallocate("s", "/new", AT)
    hits.record("s", "/new", AT)
    assert counts(hits.days("s", "/p", AT, AT + DAY)) == [2]
    assert counts(hits.days("s", "/new", AT, AT + DAY)) == [1]
    month = analytics_db["analytics.hits_monthly"].find_one({"metadata.page": "/new"})
    assert set(month["daily"]) == {str(day) for day in range(1, 32)}


def test_concurrent_preallocation_of_the_same_documents(hits: Hits, analytics_db: Db) -> None:
    for page in range(20):
        at_once(8, lambda _, page=page: hits.preallocate("s", f"/{page}", AT))
    assert [analytics_db[name].count_documents({}) for name in ("analytics.hits_daily", "analytics.hits_monthly")] == [
        20,
        20,
    ]


def test_record_sometimes_preallocates_the_next_day(analytics_db: Db) -> None:
    hits = Hits(analytics_db, preallocate=True, rng=random.Random(1))
    hits.record("s", "/p", AT)
    tomorrow = analytics_db["analytics.hits_daily"].find_one({"metadata.date": datetime(2026, 3, 29, tzinfo=UTC)})
    assert tomorrow["total"] == 0
    assert tomorrow["minute"]["23"]["59"] == 0


def test_threads_that_create_the_same_document_lose_nothing(analytics_db: Db) -> None:
    hits = Hits(analytics_db)
    barrier = threading.Barrier(8)

    def work() -> None:
        for page in range(10):
            barrier.wait()
            hits.record("s", f"/{page}", AT)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    start = AT.replace(hour=0, minute=0, second=0)
    assert hits.site_total("s", start, start + DAY) == 80
    assert all(row["hits"] == 8 for row in hits.top_pages("s", start, start + DAY))


def test_hits_with_a_key_are_counted_once(keyed_db: Db, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("squinney.analytics.hits.increments.PAGES_AT_ONCE", 3)
    hits = Hits(keyed_db)
    views = [("s", f"/{page}", AT + timedelta(seconds=page), 2) for page in range(8)]
    assert at_once(8, lambda _: hits.record_many(views, key="k")) == [16] * 8
    hits.record("s", "/0", AT, key="k2")
    hits.record("s", "/0", AT, key="k2")
    hits.record("s", "/0", AT, key=Key("k2", "another's"))
    start = AT.replace(hour=0, minute=0, second=0)
    assert hits.site_total("s", start, start + DAY) == 18
    with pytest.raises(KeyReused):
        hits.record_many(views[:5], key="k")
    with pytest.raises(KeyReused):
        hits.record_many([*views, ("s", "/more", AT)], key="k")
    with pytest.raises(Invalid, match="key"):
        hits.record("s", "/0", AT, key="")
    assert hits.site_total("s", start, start + DAY) == 18


@pytest.mark.parametrize("hit", [5, "abc", ("s", "/"), ("s", "/", AT, 1, 1), None])
def test_malformed_hits_are_refused(hits: Hits, hit: Any) -> None:
    with pytest.raises(Invalid, match="a hit is"):
        hits.record_many([hit])


@pytest.fixture
def own_hits(own_db: Db) -> Hits:
    """Counters on the server that only this worker uses."""
    schema.apply(own_db, HIT_COLLECTIONS)
    return Hits(own_db)


def test_a_hit_that_timed_out_blocks_no_other_hit(own_hits: Hits, own_db: Db, failing: Any) -> None:
    """Otherwise the server would lock the document of the page's day for a minute."""
    own_hits.record("s", "/p", AT)
    too_slow = {"mode": {"skip": 1}, "blockConnection": True, "blockTimeMS": 600}
    with failing(["update"], **too_slow), pytest.raises(Unavailable), operation(0.3):
        own_hits.record("s", "/p", AT)
    with operation(5):
        own_hits.record("s", "/p", AT)
    assert own_db["analytics.hits_daily"].find_one()["total"] == 2


def test_buffered_hits_are_kept_after_repeated_conflicts(own_hits: Hits, own_db: Db, failing: Any) -> None:
    conflict = {"errorCode": 112, "errorLabels": ["TransientTransactionError"]}
    buffered = BufferedHits(own_db, flush_after_seconds=3_600)
    buffered.record("s", "/p", AT, 3)
    with failing(["update"], **conflict), pytest.raises(Busy), operation(2):
        buffered.flush()
    buffered.close()
    assert (own_db["analytics.hits_daily"].find_one()["total"], buffered.lost) == (3, 0)


def test_a_buffer_that_cannot_be_written_is_bounded(analytics_db: Db) -> None:
    buffered = BufferedHits(analytics_db, flush_after_seconds=3_600, max_documents=2, max_kept=3)
    with buffered._flushing:  # as if MongoDB did not answer
        for page in ("/a", "/b", "/c", "/d", "/a", "/e"):
            buffered.record("s", page, AT, 2)
        assert buffered.lost == 4
    buffered.close()
    found = {hits["metadata"]["page"]: hits["total"] for hits in analytics_db["analytics.hits_daily"].find()}
    assert found == {"/a": 4, "/b": 2, "/c": 2}


def test_a_buffer_is_bounded_after_a_flush_that_failed(own_hits: Hits, own_db: Db, failing: Any) -> None:
    """Regression: what the flush gave back was added to the hits recorded meanwhile, without a limit."""
    conflict = {"errorCode": 112, "errorLabels": ["TransientTransactionError"]}
    buffered = BufferedHits(own_db, flush_after_seconds=3_600, max_documents=2, max_kept=2)
    buffered.record("s", "/a", AT)
    recorder = threading.Timer(0.5, lambda: [buffered.record("s", page, AT) for page in ("/b", "/c")])
    recorder.start()
    with failing(["update"], **conflict), pytest.raises(Busy), operation(2):
        buffered.flush()
    recorder.join()
    buffered.close()
    assert (own_db["analytics.hits_daily"].count_documents({}), buffered.lost) == (2, 1)


def test_every_close_waits_for_the_flush(analytics_db: Db) -> None:
    """Regression: a second SIGTERM ended the process while the first one was still flushing."""
    buffered = BufferedHits(analytics_db, flush_after_seconds=3_600)
    buffered.record("s", "/a", AT)
    closing = [threading.Thread(target=buffered.close) for _ in range(2)]
    with buffered._flushing:  # as if MongoDB did not answer
        for thread in closing:
            thread.start()
            thread.join(0.2)
        assert all(thread.is_alive() for thread in closing)
    for thread in closing:
        thread.join()
    assert analytics_db["analytics.hits_daily"].find_one()["total"] == 1


def test_buffered_hits_of_many_threads_all_arrive(hits: Hits, analytics_db: Db) -> None:
    with BufferedHits(analytics_db, flush_after_seconds=0.05, max_documents=5) as buffered:

        def work(number: int) -> None:
            for n in range(500):
                buffered.record("s", f"/{n % 10}", AT + timedelta(minutes=number))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    start = AT.replace(hour=0, minute=0, second=0)
    assert hits.site_total("s", start, start + DAY) == 3_000
    assert buffered.lost == 0
    with pytest.raises(RuntimeError, match="closed"):
        buffered.record("s", "/", AT)


@pytest.mark.parametrize(
    "options", [{"flush_after_seconds": span} for span in (0, -1, float("nan"), "1")] + [{"max_documents": 0}]
)
def test_bad_options_of_a_buffer_are_refused(analytics_db: Db, options: dict[str, Any]) -> None:
    with pytest.raises(Invalid, match=next(iter(options))):
        BufferedHits(analytics_db, **options)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((["s"], "/", AT), "site"),
        (("s", "x" * 8_193, AT), "8192"),
        (("s", "/", AT.replace(tzinfo=None)), "zone"),
        (("s", "/", "now"), "zone"),
        (("s", "/", AT, 0), "count"),
        (("s", "/", AT, True), "count"),
        (("s", "/", AT, 10**13), "count"),
    ],
)
def test_bad_buffered_hits_are_refused_by_record(analytics_db: Db, arguments: tuple, why: str) -> None:
    with BufferedHits(analytics_db) as buffered:
        buffered.record("s", "/", AT)
        with pytest.raises(Invalid, match=why):
            buffered.record(*arguments)
    assert analytics_db["analytics.hits_daily"].find_one()["total"] == 1
