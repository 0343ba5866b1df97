"""Ranges of days in a time zone: their names, the range before, and where each day begins and ends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from squinney.analytics.calendar import EARLIEST, LATEST
from squinney.analytics.rollups import intervals
from squinney.errors import Invalid

ONE_DAY = timedelta(days=1)
MAX_DAYS = 3_660
# By the number of days that end today; the month and the year are those of the calendar.
NAMES = {"today": "Today", "7d": "7 days", "30d": "30 days", "month": "This month", "year": "This year"}
_LENGTHS = {"today": 1, "7d": 7, "30d": 30}


@dataclass(frozen=True)
class Days:
    """The days from `first` to `last`, both included."""

    first: date
    last: date

    @classmethod
    def of(cls, name: str, today: date) -> Days:
        """Return the range of that name, which ends today.

        Raises: `Invalid`.
        """
        if name not in NAMES:
            raise Invalid(f"range must be one of {', '.join(NAMES)}", field="range")
        if name in _LENGTHS:
            return cls(today - (_LENGTHS[name] - 1) * ONE_DAY, today)
        return cls(today.replace(day=1) if name == "month" else today.replace(month=1, day=1), today)

    @classmethod
    def between(cls, first: date, last: date) -> Days:
        """Return the range of these days.

        Raises: `Invalid` if it is empty, too long, or outside the years in which events can be.
        """
        if first > last:
            raise Invalid("from must not be after to", field="from")
        # The range before must also be within these years.
        if not EARLIEST.date() + MAX_DAYS * ONE_DAY <= first or not last < LATEST.date():
            raise Invalid(f"from must be after {EARLIEST:%Y}, and to before {LATEST:%Y}", field="from")
        days = cls(first, last)
        if days.count > MAX_DAYS:
            raise Invalid(f"a range has at most {MAX_DAYS} days", field="to", limit=MAX_DAYS)
        return days

    @property
    def count(self) -> int:
        """The number of days."""
        return (self.last - self.first).days + 1

    def before(self) -> Days:
        """Return the range of as many days just before."""
        return Days(self.first - self.count * ONE_DAY, self.first - ONE_DAY)

    def __iter__(self) -> Iterator[date]:
        return (self.first + number * ONE_DAY for number in range(self.count))


def spans_of(day: date, tz: ZoneInfo) -> list[tuple[datetime, datetime]]:
    """Return the times of a day, from start to end: one span, two where the clocks go back over midnight, or none.

    No event can be on a day that the zone has skipped, as Samoa did in 2011.
    """
    start = datetime(day.year, day.month, day.day, tzinfo=tz).astimezone(UTC)
    if start.astimezone(tz).date() != day:
        return []
    spans: list[tuple[datetime, datetime]] = []
    for interval in intervals.of_buckets([start], "day", tz):
        if spans and spans[-1][1] == interval.start:
            spans[-1] = spans[-1][0], interval.end
        else:
            spans.append((interval.start, interval.end))
    return spans


def spans_of_range(days: Days, tz: ZoneInfo) -> list[tuple[datetime, datetime]]:
    """Return the times of all days of a range, in order: mostly one span."""
    spans: list[tuple[datetime, datetime]] = []
    for start, end in sorted(span for day in days for span in spans_of(day, tz)):
        if spans and spans[-1][1] == start:
            spans[-1] = spans[-1][0], end
        else:
            spans.append((start, end))
    return spans


def days_within(start: datetime, end: datetime, tz: ZoneInfo) -> set[date]:
    """Return the days that have a part between two times."""
    return {interval.bucket.astimezone(tz).date() for interval in intervals.intervals(start, end, "day", tz)}
