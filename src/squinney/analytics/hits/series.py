"""Complete series of hits: adds up the stored minutes, hours or days to the units of any time zone."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple, cast, get_args
from zoneinfo import ZoneInfo

from squinney.analytics.calendar import DAY, HOUR, MINUTE, Unit, floor, following, is_whole, starts
from squinney.analytics.hits.documents import DayOfHits, MonthOfHits
from squinney.errors import Invalid

Grain = Literal["minute", "hour", "day"]
MOST_POINTS = 100_000


class Point(NamedTuple):
    """The hits of a unit, and when the unit begins, in the requested time zone."""

    at: datetime
    hits: int


STEPS: dict[Unit, timedelta] = {"minute": MINUTE, "hour": HOUR, "day": DAY}


class Frame:
    """The units of a series: from the one that contains `start` to the last one before `end`."""

    def __init__(self, start: datetime, end: datetime, unit: Unit, tz: ZoneInfo) -> None:
        if unit not in get_args(Unit):
            raise Invalid(f"unit must be one of {', '.join(get_args(Unit))}", field="unit")
        self._tz = tz
        self._is_stored_unit = tz.key == "UTC" and unit in STEPS
        self.starts: list[datetime] = []
        for at in _utc_starts(start, end, unit) if self._is_stored_unit else starts(start, end, unit, tz):
            if len(self.starts) >= MOST_POINTS:
                raise Invalid(f"end: a series has at most {MOST_POINTS} points", field="end", limit=MOST_POINTS)
            self.starts.append(at)
        if start >= end:
            self.starts = []
        self.end = following(self.starts[-1], unit, tz) if self.starts else end
        self.grain: Grain = self._grain(unit)

    def _grain(self, unit: Unit) -> Grain:
        """Return the coarsest stored grain that fits: with an offset of half an hour, days begin within an UTC hour."""
        if self._is_stored_unit:
            return cast(Grain, unit)
        edges = [*self.starts, self.end]
        if all(is_whole(at, DAY) for at in edges):
            return "day"
        return "hour" if all(is_whole(at, HOUR) for at in edges) else "minute"

    def filled(self, counts: Iterable[tuple[datetime, int]]) -> list[Point]:
        """Return a point for each unit, with zero hits where nothing is counted."""
        if self._is_stored_unit:
            found = dict(counts)
            return [Point(at, found.get(at, 0)) for at in self.starts]
        totals = [0] * len(self.starts)
        for at, count in counts:
            index = bisect_right(self.starts, at) - 1
            if index >= 0 and at < self.end:
                totals[index] += count
        return [Point(at.astimezone(self._tz), total) for at, total in zip(self.starts, totals, strict=True)]


def _utc_starts(start: datetime, end: datetime, unit: Unit) -> Iterator[datetime]:
    """Yield the starts of minutes, hours or days in UTC, faster than `starts`, since they all have the same length."""
    at, step = floor(start, unit, UTC), STEPS[unit]
    while at < end:
        yield at
        at += step


def of_minutes(days: Iterable[DayOfHits]) -> Iterable[tuple[datetime, int]]:
    """Yield each minute with its hits."""
    for day in days:
        for hour, minutes in day.get("minute", {}).items():
            begin = day["metadata"]["date"] + int(hour) * HOUR
            for minute, count in minutes.items():
                yield begin + int(minute) * MINUTE, count


def of_hours(days: Iterable[DayOfHits]) -> Iterable[tuple[datetime, int]]:
    """Yield each hour with its hits."""
    for day in days:
        begin = day["metadata"]["date"]
        for hour, count in day.get("hourly", {}).items():
            yield begin + int(hour) * HOUR, count


def of_days(months: Iterable[MonthOfHits]) -> Iterable[tuple[datetime, int]]:
    """Yield each day with its hits."""
    for month in months:
        first = month["metadata"]["date"]
        for day, count in month.get("daily", {}).items():
            yield first.replace(day=int(day)), count
