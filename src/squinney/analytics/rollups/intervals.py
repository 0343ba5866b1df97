"""Which intervals of time belong to a bucket, in any time zone.

A day is not always one stretch: until 2011 St. John's put its clocks back at 00:01, so a day began, the one before came
back for an hour, and the day went on. Python's time zones decide all of it. The server's `$dateTrunc` does not do: it
counts hours by the offset of the year 2000, and begins a day at the second of two midnights.
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
# Clocks have been moved by up to a day, and a day lived twice.
MARGIN = timedelta(hours=26)
_HALF_DAY = timedelta(hours=12)


class Interval(NamedTuple):
    """The time from `start` to before `end`, and the bucket that it belongs to, by its beginning."""

    start: datetime
    end: datetime
    bucket: datetime


def intervals(start: datetime, end: datetime, unit: Unit, where: ZoneInfo) -> Iterator[Interval]:
    """All time between two instants: a stretch ends where the unit does, or where the clocks are moved."""
    moved = [at for year in range(start.year - 1, end.year + 2) for at in clock_changes(where, year)]
    at = start.astimezone(UTC)
    while at < end:
        local = at.astimezone(where)
        on_this_clock = _next_on_the_clock(local.replace(tzinfo=UTC), unit) - (local.utcoffset() or timedelta(0))
        index = bisect_right(moved, at)
        until = min(on_this_clock, moved[index] if index < len(moved) else end, end)
        yield Interval(at, until, floor(at, unit, where))
        at = until


def _next_on_the_clock(local: datetime, unit: Unit) -> datetime:
    if unit == "hour":
        return local.replace(minute=0, second=0, microsecond=0) + HOUR
    following = next_day(first_day(local.date(), unit), unit)
    return datetime(following.year, following.month, following.day, tzinfo=UTC)


@lru_cache(maxsize=4_096)
def clock_changes(where: ZoneInfo, year: int) -> tuple[datetime, ...]:
    """When the offset from UTC changes in a year, to the second."""
    if not 1 < year < 9_999 or where.key == "UTC":
        return ()
    looks = [datetime(year, 1, 1, tzinfo=UTC) + number * _HALF_DAY for number in range(2 * 366 + 1)]
    offsets = [at.astimezone(where).utcoffset() for at in looks]
    changed = [pair for pair, (one, other) in zip(pairwise(looks), pairwise(offsets), strict=True) if one != other]
    return tuple(at for at in (_change_between(where, *pair) for pair in changed) if at.year == year)


def _change_between(where: ZoneInfo, before: datetime, after: datetime) -> datetime:
    old = before.astimezone(where).utcoffset()
    while after - before > timedelta(seconds=1):
        middle = (before + (after - before) / 2).replace(microsecond=0)
        if middle.astimezone(where).utcoffset() == old:
            before = middle
        else:
            after = middle
    return after


def of_buckets(buckets: Iterable[datetime], unit: Unit, where: ZoneInfo) -> list[Interval]:
    """The intervals of these buckets, in order. No bucket begins behind a stretch of its own."""
    wanted = set(buckets)
    found: list[Interval] = []
    for start, end in windows(wanted, LONGEST[unit] + MARGIN):
        found += [one for one in intervals(start, end, unit, where) if one.bucket in wanted]
    return found


def windows(begins: Iterable[datetime], length: timedelta) -> list[tuple[datetime, datetime]]:
    """So much time behind each beginning; neighbours are joined."""
    joined: list[tuple[datetime, datetime]] = []
    for begin in sorted(begins):
        if joined and begin <= joined[-1][1]:
            joined[-1] = joined[-1][0], begin + length
        else:
            joined.append((begin, begin + length))
    return joined


# ---- the finest level ----


def day_edges(begins: Iterable[datetime], size: timedelta, where: ZoneInfo) -> list[datetime]:
    """Where, in the hours or quarters from these times on, another day begins although they are not over yet.

    There are none for most zones, or few: clocks that are moved at 00:01, and offsets of old that are no quarters.
    """
    edges = (one.start for pair in windows(begins, size) for one in intervals(*pair, "day", where))
    return [at for at in edges if not is_whole(at, size)]


def of_finest(begins: Sequence[datetime], size: timedelta, where: ZoneInfo) -> list[Interval]:
    """The intervals of buckets of the finest level: whole hours or quarters of UTC, cut where a day begins within."""
    edges = day_edges({whole(at, size) for at in begins}, size, where)
    found: list[Interval] = []
    for begin in sorted(begins):
        index = bisect_right(edges, begin)
        if is_whole(begin, size) or edges[index - 1 : index] == [begin]:
            until = whole(begin, size) + size
            found.append(Interval(begin, min([until, *edges[index : index + 1]]), begin))
    return found


def finest_within(slots: Iterable[datetime], size: timedelta, where: ZoneInfo) -> set[datetime]:
    """The beginnings of the finest level's buckets in these whole hours or quarters of UTC."""
    begins = set(slots)
    return begins | set(day_edges(begins, size, where))


def whole(at: datetime, size: timedelta) -> datetime:
    """The whole hour or quarter of UTC that holds a time."""
    return at - (at - EPOCH) % size


# ---- for the server ----


def lookup(date: str, found: Sequence[Interval]) -> Any:
    """An expression that finds a date's bucket by halving the intervals; null outside all of them."""
    cuts: list[tuple[datetime, datetime | None]] = []
    for one in found:
        if cuts and cuts[-1] == (one.start, None):
            cuts.pop()
        if not cuts or cuts[-1][1] != one.bucket:
            cuts.append((one.start, one.bucket))
        cuts.append((one.end, None))
    return _halved(date, cuts, None)


def _halved(date: str, cuts: Sequence[tuple[datetime, datetime | None]], before: datetime | None) -> Any:
    if not cuts:
        return before
    middle = len(cuts) // 2
    at, bucket = cuts[middle]
    return {
        "$cond": [{"$lt": [date, at]}, _halved(date, cuts[:middle], before), _halved(date, cuts[middle + 1 :], bucket)]
    }


def in_any(field: str, found: Sequence[Interval]) -> Document:
    """A filter for what lies in any of the intervals; neighbours are asked for together."""
    ranges: list[list[datetime]] = []
    for one in found:
        if ranges and one.start <= ranges[-1][1]:
            ranges[-1][1] = max(ranges[-1][1], one.end)
        else:
            ranges.append([one.start, one.end])
    filters = [{field: {"$gte": start, "$lt": end}} for start, end in ranges]
    return filters[0] if len(filters) == 1 else {"$or": filters}
