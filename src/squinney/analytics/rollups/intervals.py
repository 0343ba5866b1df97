"""The time intervals of a bucket, in any time zone.

A day is not always one interval: until 2011 St. John's set its clocks back at 00:01, so a new day began, the day before
continued for an hour, and then the new day continued. All of this is computed from Python's time zones. The server's
`$dateTrunc` is not suitable: it counts hours by the offset of the year 2000, and begins a day at the second of two
midnights.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from squinney.analytics.calendar import DAY, EPOCH, HOUR, Unit, first_day, floor, is_whole, next_day
from squinney.mongo.schema import Document

LONGEST: dict[Unit, timedelta] = {"hour": HOUR, "day": DAY, "week": 7 * DAY, "month": 31 * DAY, "year": 366 * DAY}
# Clocks have been changed by up to a day, so that a day occurred twice.
MARGIN = timedelta(hours=26)
_HALF_DAY = timedelta(hours=12)


class Interval(NamedTuple):
    """The time from `start` (included) to `end` (excluded), and the start of the bucket to which it belongs."""

    start: datetime
    end: datetime
    bucket: datetime


def intervals(start: datetime, end: datetime, unit: Unit, tz: ZoneInfo) -> Iterator[Interval]:
    """Split the time from `start` to `end` where a unit ends and where the clocks change."""
    changes = [at for year in range(start.year - 1, end.year + 2) for at in clock_changes(tz, year)]
    at = start.astimezone(UTC)
    while at < end:
        local = at.astimezone(tz)
        on_this_clock = _next_on_the_clock(local.replace(tzinfo=UTC), unit) - (local.utcoffset() or timedelta(0))
        index = bisect_right(changes, at)
        until = min(on_this_clock, changes[index] if index < len(changes) else end, end)
        yield Interval(at, until, floor(at, unit, tz))
        at = until


def _next_on_the_clock(local: datetime, unit: Unit) -> datetime:
    if unit == "hour":
        return local.replace(minute=0, second=0, microsecond=0) + HOUR
    following = next_day(first_day(local.date(), unit), unit)
    return datetime(following.year, following.month, following.day, tzinfo=UTC)


@lru_cache(maxsize=4_096)
def clock_changes(tz: ZoneInfo, year: int) -> tuple[datetime, ...]:
    """Return the times in a year at which the offset from UTC changes, to the second."""
    if not 1 < year < 9_999 or tz.key == "UTC":
        return ()
    times = [datetime(year, 1, 1, tzinfo=UTC) + number * _HALF_DAY for number in range(2 * 366 + 1)]
    offsets = [at.astimezone(tz).utcoffset() for at in times]
    changed = [
        pair for pair, (before, after) in zip(pairwise(times), pairwise(offsets), strict=True) if before != after
    ]
    return tuple(at for at in (_change_between(tz, *pair) for pair in changed) if at.year == year)


def _change_between(tz: ZoneInfo, before: datetime, after: datetime) -> datetime:
    old = before.astimezone(tz).utcoffset()
    while after - before > timedelta(seconds=1):
        middle = (before + (after - before) / 2).replace(microsecond=0)
        if middle.astimezone(tz).utcoffset() == old:
            before = middle
        else:
            after = middle
    return after


def of_buckets(buckets: Iterable[datetime], unit: Unit, tz: ZoneInfo) -> list[Interval]:
    """Return the intervals of these buckets, sorted. No interval begins before its bucket."""
    wanted = set(buckets)
    selected: list[Interval] = []
    for start, end in windows(wanted, LONGEST[unit] + MARGIN):
        selected += [interval for interval in intervals(start, end, unit, tz) if interval.bucket in wanted]
    return selected


def windows(begins: Iterable[datetime], length: timedelta) -> list[tuple[datetime, datetime]]:
    """Return a window of `length` after each start; overlapping windows are merged."""
    return _merged((begin, begin + length) for begin in sorted(begins))


def _merged(spans: Iterable[tuple[datetime, datetime]]) -> list[tuple[datetime, datetime]]:
    """Merge sorted spans that overlap or are adjacent."""
    merged: list[tuple[datetime, datetime]] = []
    for start, end in spans:
        if merged and start <= merged[-1][1]:
            start, last = merged.pop()
            end = max(end, last)
        merged.append((start, end))
    return merged


# ---- the finest level ----


def day_edges(begins: Iterable[datetime], size: timedelta, tz: ZoneInfo) -> list[datetime]:
    """Return the starts of days that fall within these hours or quarters of UTC.

    Most zones have none. They come from clocks that change at 00:01, and from old offsets that are not whole quarters.
    """
    edges = (day.start for pair in windows(begins, size) for day in intervals(*pair, "day", tz))
    return [at for at in edges if not is_whole(at, size)]


def of_finest(begins: Sequence[datetime], size: timedelta, tz: ZoneInfo) -> list[Interval]:
    """Return the intervals of the finest level: hours or quarters of UTC, split where a day begins within one."""
    edges = day_edges({whole(at, size) for at in begins}, size, tz)
    parts: list[Interval] = []
    for begin in sorted(begins):
        index = bisect_right(edges, begin)
        if is_whole(begin, size) or edges[index - 1 : index] == [begin]:
            until = whole(begin, size) + size
            parts.append(Interval(begin, min([until, *edges[index : index + 1]]), begin))
    return parts


def finest_within(slots: Iterable[datetime], size: timedelta, tz: ZoneInfo) -> set[datetime]:
    """Return the starts of the finest level's buckets in these hours or quarters of UTC."""
    begins = set(slots)
    return begins | set(day_edges(begins, size, tz))


def whole(at: datetime, size: timedelta) -> datetime:
    """Return the start of the hour or quarter of UTC that contains a time."""
    return at - (at - EPOCH) % size


# ---- for the server ----


def lookup(date: str, times: Sequence[Interval]) -> Any:
    """Return an expression that finds a date's bucket by binary search over the intervals, or null."""
    cuts: list[tuple[datetime, datetime | None]] = []
    for interval in times:
        if cuts and cuts[-1] == (interval.start, None):
            cuts.pop()
        if not cuts or cuts[-1][1] != interval.bucket:
            cuts.append((interval.start, interval.bucket))
        cuts.append((interval.end, None))
    return _halved(date, cuts, None)


def _halved(date: str, cuts: Sequence[tuple[datetime, datetime | None]], before: datetime | None) -> Any:
    if not cuts:
        return before
    middle = len(cuts) // 2
    at, bucket = cuts[middle]
    return {
        "$cond": [{"$lt": [date, at]}, _halved(date, cuts[:middle], before), _halved(date, cuts[middle + 1 :], bucket)]
    }


def in_any(field: str, times: Iterable[Interval]) -> Document:
    """Return a filter for times within any of the intervals; adjacent intervals become one range."""
    ranges = [
        {field: {"$gte": start, "$lt": end}}
        for start, end in _merged((interval.start, interval.end) for interval in times)
    ]
    if len(ranges) > 1:
        return {"$or": ranges}
    return ranges[0] if ranges else {field: {"$in": []}}
