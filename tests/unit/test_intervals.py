"""Which time belongs to which bucket, compared with what clocks show, around every change of clocks in tzdata."""

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


def on_the_wall(at: datetime, unit: Unit, where: ZoneInfo) -> object:
    """What people call the unit that holds an instant, by the clock and the calendar on their wall."""
    local = at.astimezone(where)
    day: date = local.date()
    names = {"day": day, "week": day.isocalendar()[:2], "month": (day.year, day.month), "year": day.year}
    return names[unit]


def changes_of(where: ZoneInfo) -> list[datetime]:
    """When the clocks were moved since 1970, by looking once a week: quick, and not the code that is tested."""
    at, found = datetime(1970, 1, 1, tzinfo=UTC), []
    offset = at.astimezone(where).utcoffset()
    while at.year < 2038:
        before, at = at, at + timedelta(days=7)
        if at.astimezone(where).utcoffset() != offset:
            after = at
            while after - before > timedelta(seconds=1):
                middle = before + timedelta(seconds=(after - before) // timedelta(seconds=2))
                before, after = (middle, after) if middle.astimezone(where).utcoffset() == offset else (before, middle)
            found.append(after)
            offset = at.astimezone(where).utcoffset()
    return found


@cache
def zones() -> list[tuple[str, list[datetime]]]:
    """Every zone with the changes of its clocks; those that always changed together are one. By `make prove`; else a
    tenth of them, and the odd ones."""
    found: dict[tuple[object, ...], tuple[str, list[datetime]]] = {}
    for name in sorted(available_timezones()) if IN_FULL else ODD + sorted(available_timezones())[::10]:
        where = ZoneInfo(name)
        changes = changes_of(where)
        offsets = [at.astimezone(where).utcoffset() for at in (datetime(1970, 1, 1, tzinfo=UTC), *changes)]
        found.setdefault((*changes, *offsets), (name, changes))
    return list(found.values())


def of_each_kind(name: str, changes: list[datetime]) -> Iterator[datetime]:
    """One change of clocks for each time of day, difference and end of a year at which a zone had one."""
    where, kinds = ZoneInfo(name), {}
    for at in changes:
        before, after = ((at + timedelta(seconds=n)).astimezone(where) for n in (-1, 0))
        moved = (after.utcoffset() or HOUR) - (before.utcoffset() or HOUR)
        kinds.setdefault((before.hour, before.minute, moved, after.day == 1, after.weekday() == 0), at)
    yield from kinds.values()


def test_the_changes_of_clocks_are_found():
    for name in ("America/St_Johns", "Asia/Colombo", "Africa/Casablanca", "Pacific/Apia", "UTC"):
        where = ZoneInfo(name)
        assert [at for year in range(1970, 2038) for at in clock_changes(where, year)] == changes_of(where)


@heavy
def test_all_zones_are_looked_at():
    assert len(zones()) > (250 if IN_FULL else 40)
    assert set(ODD) <= {name for name, _ in zones()}


@heavy
@pytest.mark.parametrize("unit", UNITS[1:])
def test_a_stretch_holds_what_the_wall_says(unit):
    """A minute before and behind each edge: another name there, one name in between."""
    for name, changes in zones():
        where = ZoneInfo(name)
        for change in of_each_kind(name, changes):
            found = list(intervals(change - timedelta(hours=30), change + timedelta(hours=30), unit, where))
            buckets: dict[object, set[datetime]] = defaultdict(set)
            for one in found:
                names = {on_the_wall(at, unit, where) for at in (one.start, one.end - timedelta(seconds=1))}
                assert len(names) == 1, (name, one)
                buckets[names.pop()].add(one.bucket)
            assert all(len(begins) == 1 for begins in buckets.values()), (name, change)
            assert len(set().union(*buckets.values())) == len(buckets), (name, change)
            assert all(one.end == other.start for one, other in pairwise(found))


@heavy
@pytest.mark.parametrize("size", [HOUR, QUARTER])
def test_the_finest_buckets_are_each_within_one_day(size):
    for name, changes in zones():
        where = ZoneInfo(name)
        for change in of_each_kind(name, changes):
            first = whole(change, HOUR) - 30 * HOUR
            slots = [first + n * size for n in range(60 * HOUR // size)]
            found = of_finest(sorted(finest_within(slots, size, where)), size, where)
            assert (found[0].start, found[-1].end) == (slots[0], slots[-1] + size)
            for one in found:
                assert one.bucket == one.start
                days = {on_the_wall(at, "day", where) for at in (one.start, one.end - timedelta(seconds=1))}
                assert len(days) == 1, (name, one)
            assert all(one.end == other.start for one, other in pairwise(found)), name


@pytest.mark.parametrize("unit", UNITS)
def test_the_stretches_of_a_bucket_are_all_of_its_time(unit):
    for name in ("America/St_Johns", "Asia/Colombo", "Australia/Lord_Howe", "America/Havana", "Pacific/Apia"):
        where = ZoneInfo(name)
        for change in clock_changes(where, 2006) + clock_changes(where, 2011):
            span = timedelta(days=4 if unit in ("hour", "day") else 800)
            around = list(intervals(change - span, change + span, unit, where))
            bucket = next(one.bucket for one in around if one.start <= change < one.end)
            assert of_buckets([bucket], unit, where) == [one for one in around if one.bucket == bucket], name


def test_a_day_that_comes_back_is_one():
    """In 2010 St. John's clocks went from 00:01 on 7 November back to 23:01 on the 6th."""
    where = ZoneInfo("America/St_Johns")
    sunday = datetime(2010, 11, 7, tzinfo=where).astimezone(UTC)
    found = of_buckets([sunday], "day", where)
    assert [(one.end - one.start) for one in found] == [timedelta(minutes=1), timedelta(days=1)]


def test_an_hour_is_the_one_on_the_wall():
    """The server's `$dateTrunc` counts Colombo's hours by its offset of the year 2000, half an hour away."""
    where, at = ZoneInfo("Asia/Colombo"), datetime(2020, 1, 1, 12, 10, tzinfo=UTC)
    (one,) = (one for one in intervals(at - HOUR, at + HOUR, "hour", where) if one.start <= at < one.end)
    assert one.bucket.astimezone(where).minute == 0
