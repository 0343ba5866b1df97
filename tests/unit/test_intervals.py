"""The intervals of buckets, compared with local time around every clock change in tzdata."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo, available_timezones

import pytest
from tests.sizes import IN_FULL, heavy

from squinney.analytics.calendar import Unit
from squinney.analytics.rollups.intervals import clock_changes, finest_within, intervals, of_buckets, of_finest, whole

HOUR, QUARTER = timedelta(hours=1), timedelta(minutes=15)
ODD = ["Asia/Colombo", "America/Caracas", "Asia/Pyongyang", "America/St_Johns", "Australia/Lord_Howe", "Pacific/Apia"]
UNITS: list[Unit] = ["hour", "day", "week", "month", "year"]


def local_unit(at: datetime, unit: Unit, tz: ZoneInfo) -> object:
    """Return the local day, week, month or year of a time."""
    local = at.astimezone(tz)
    day: date = local.date()
    names = {"day": day, "week": day.isocalendar()[:2], "month": (day.year, day.month), "year": day.year}
    return names[unit]


def changes_of(tz: ZoneInfo) -> list[datetime]:
    """Return the clock changes since 1970 by checking each week: fast, and independent of the tested code."""
    at, found = datetime(1970, 1, 1, tzinfo=UTC), []
    offset = at.astimezone(tz).utcoffset()
    while at.year < 2038:
        before, at = at, at + timedelta(days=7)
        if at.astimezone(tz).utcoffset() != offset:
            after = at
            while after - before > timedelta(seconds=1):
                middle = before + timedelta(seconds=(after - before) // timedelta(seconds=2))
                before, after = (middle, after) if middle.astimezone(tz).utcoffset() == offset else (before, middle)
            found.append(after)
            offset = at.astimezone(tz).utcoffset()
    return found


@cache
def zones() -> list[tuple[str, list[datetime]]]:
    """Return the zones with their clock changes; zones with the same changes are listed once.

    `make prove` tests all of them, other runs a tenth and the unusual ones.
    """
    found: dict[tuple[object, ...], tuple[str, list[datetime]]] = {}
    for name in sorted(available_timezones()) if IN_FULL else ODD + sorted(available_timezones())[::10]:
        tz = ZoneInfo(name)
        changes = changes_of(tz)
        offsets = [at.astimezone(tz).utcoffset() for at in (datetime(1970, 1, 1, tzinfo=UTC), *changes)]
        found.setdefault((*changes, *offsets), (name, changes))
    return list(found.values())


def one_of_each_kind(name: str, changes: list[datetime]) -> Iterator[datetime]:
    """Yield one clock change for each combination of local time, size of the change, and start of a month or week."""
    tz, kinds = ZoneInfo(name), {}
    for at in changes:
        before, after = ((at + timedelta(seconds=n)).astimezone(tz) for n in (-1, 0))
        moved = (after.utcoffset() or HOUR) - (before.utcoffset() or HOUR)
        kinds.setdefault((before.hour, before.minute, moved, after.day == 1, after.weekday() == 0), at)
    yield from kinds.values()


def test_clock_changes_are_found():
    for name in ("America/St_Johns", "Asia/Colombo", "Africa/Casablanca", "Pacific/Apia", "UTC"):
        tz = ZoneInfo(name)
        assert [at for year in range(1970, 2038) for at in clock_changes(tz, year)] == changes_of(tz)


@heavy
def test_all_zones_are_tested():
    assert len(zones()) > (250 if IN_FULL else 40)
    assert set(ODD) <= {name for name, _ in zones()}


@heavy
@pytest.mark.parametrize("unit", UNITS[1:])
def test_an_interval_has_one_local_unit(unit):
    """All of an interval is in one local unit, and each unit has one bucket."""
    for name, changes in zones():
        tz = ZoneInfo(name)
        for change in one_of_each_kind(name, changes):
            found = list(intervals(change - timedelta(hours=30), change + timedelta(hours=30), unit, tz))
            buckets: dict[object, set[datetime]] = defaultdict(set)
            for one in found:
                names = {local_unit(at, unit, tz) for at in (one.start, one.end - timedelta(seconds=1))}
                assert len(names) == 1, (name, one)
                buckets[names.pop()].add(one.bucket)
            assert all(len(begins) == 1 for begins in buckets.values()), (name, change)
            assert len(set().union(*buckets.values())) == len(buckets), (name, change)
            assert all(one.end == other.start for one, other in pairwise(found))


@heavy
@pytest.mark.parametrize("size", [HOUR, QUARTER])
def test_the_finest_buckets_are_each_within_one_day(size):
    for name, changes in zones():
        tz = ZoneInfo(name)
        for change in one_of_each_kind(name, changes):
            first = whole(change, HOUR) - 30 * HOUR
            slots = [first + n * size for n in range(60 * HOUR // size)]
            found = of_finest(sorted(finest_within(slots, size, tz)), size, tz)
            assert (found[0].start, found[-1].end) == (slots[0], slots[-1] + size)
            for one in found:
                assert one.bucket == one.start
                days = {local_unit(at, "day", tz) for at in (one.start, one.end - timedelta(seconds=1))}
                assert len(days) == 1, (name, one)
            assert all(one.end == other.start for one, other in pairwise(found)), name


@pytest.mark.parametrize("unit", UNITS)
def test_the_intervals_of_a_bucket_cover_its_time(unit):
    for name in ("America/St_Johns", "Asia/Colombo", "Australia/Lord_Howe", "America/Havana", "Pacific/Apia"):
        tz = ZoneInfo(name)
        for change in clock_changes(tz, 2006) + clock_changes(tz, 2011):
            span = timedelta(days=4 if unit in ("hour", "day") else 800)
            around = list(intervals(change - span, change + span, unit, tz))
            bucket = next(one.bucket for one in around if one.start <= change < one.end)
            assert of_buckets([bucket], unit, tz) == [one for one in around if one.bucket == bucket], name


def test_a_day_that_continues_after_a_clock_change_is_one_bucket():
    """In 2010 the clocks of St. John's were set back from 00:01 on 7 November to 23:01 on the 6th."""
    tz = ZoneInfo("America/St_Johns")
    sunday = datetime(2010, 11, 7, tzinfo=tz).astimezone(UTC)
    found = of_buckets([sunday], "day", tz)
    assert [(one.end - one.start) for one in found] == [timedelta(minutes=1), timedelta(days=1)]


def test_hours_follow_the_local_clock():
    """The server's `$dateTrunc` uses the offset of the year 2000, which gives Colombo's hours wrong by half an hour."""
    tz, at = ZoneInfo("Asia/Colombo"), datetime(2020, 1, 1, 12, 10, tzinfo=UTC)
    (one,) = (one for one in intervals(at - HOUR, at + HOUR, "hour", tz) if one.start <= at < one.end)
    assert one.bucket.astimezone(tz).minute == 0
