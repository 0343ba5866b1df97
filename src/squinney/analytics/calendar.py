"""Calendar arithmetic: when minutes, hours, days, weeks, months and years begin in a time zone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from squinney.errors import Invalid

Unit = Literal["minute", "quarter", "hour", "day", "week", "month", "year"]

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
SIZES: dict[Unit, timedelta] = {"minute": MINUTE, "quarter": 15 * MINUTE, "hour": HOUR}
STEPS: dict[Unit, timedelta] = {**SIZES, "day": DAY, "week": 7 * DAY}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Events and hits outside these years are refused: calendar arithmetic needs a margin to Python's first and last years,
# and the names of partitions need a year of four digits.
EARLIEST, LATEST = datetime(1000, 1, 1, tzinfo=UTC), datetime(9998, 1, 1, tzinfo=UTC)


def zone(name: Any) -> ZoneInfo:
    """Return the time zone of that name.

    Raises: `Invalid` for an unknown name.
    """
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, TypeError, OSError):
        raise Invalid(f"there is no time zone {str(name)[:50]!r}", field="time_zone") from None


def floor(at: datetime, unit: Unit, tz: tzinfo) -> datetime:
    """Return the start, in UTC, of the unit that contains `at` in a time zone.

    Minutes, quarters and hours follow the zone's local clock. When clocks are set back, the repeated hour counts as two
    separate hours.
    """
    local = at.astimezone(tz)
    if unit in SIZES:
        into = timedelta(minutes=local.minute, seconds=local.second, microseconds=local.microsecond)
        return at.astimezone(UTC) - into % SIZES[unit]
    return _midnight(first_day(local.date(), unit), tz)


def starts(start: datetime, end: datetime, unit: Unit, tz: tzinfo) -> Iterator[datetime]:
    """Yield the starts, in UTC, of all units from the one that contains `start` to the last one before `end`."""
    at = floor(start, unit, tz)
    step = STEPS.get(unit) if str(tz) == "UTC" else None  # faster, since there they all have the same length
    while at < end:
        yield at
        at = at + step if step else following(at, unit, tz)


def following(at: datetime, unit: Unit, tz: tzinfo) -> datetime:
    """Return the start of the next unit; `at` must be the start of a unit."""
    if size := SIZES.get(unit):
        # Where clocks change by half an hour (Lord Howe), one hour is shorter or longer than the others.
        later = floor(at + size, unit, tz)
        return later if later > at else at + size
    return _midnight(next_day(at.astimezone(tz).date(), unit), tz)


def _midnight(day: date, tz: tzinfo) -> datetime:
    """Return when the local day begins: at midnight, or after the time that clocks skip there."""
    return datetime(day.year, day.month, day.day, tzinfo=tz).astimezone(UTC)


def first_day(day: date, unit: Unit) -> date:
    """Return the first day of the day, week, month or year that contains `day`."""
    if unit == "week":
        return day - timedelta(days=day.weekday())
    return day if unit == "day" else day.replace(day=1, month=day.month if unit == "month" else 1)


def next_day(day: date, unit: Unit) -> date:
    """Return the first day of the next unit; `day` must be the first day of a unit."""
    if unit == "month":
        return date(day.year + day.month // 12, day.month % 12 + 1, 1)
    if unit == "year":
        return date(day.year + 1, 1, 1)
    return day + timedelta(days=7 if unit == "week" else 1)


def is_whole(at: datetime, size: timedelta) -> bool:
    """Return True if the time is a multiple of `size` in UTC."""
    return (at - EPOCH) % size == timedelta(0)
