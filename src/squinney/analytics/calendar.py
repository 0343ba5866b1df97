"""Calendars: where minutes, hours, days, weeks, months and years begin in a time zone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from squinney.errors import Invalid

Unit = Literal["minute", "quarter", "hour", "day", "week", "month", "year"]

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
SIZES: dict[Unit, timedelta] = {"minute": MINUTE, "quarter": 15 * MINUTE, "hour": HOUR}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# No event or hit is from before or behind: calendars need room around it, and names of days four digits of a year.
EARLIEST, LATEST = datetime(1000, 1, 1, tzinfo=UTC), datetime(9998, 1, 1, tzinfo=UTC)


def zone(name: Any) -> ZoneInfo:
    """The time zone of that name.

    Raises: `Invalid`.
    """
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, TypeError, OSError):
        raise Invalid(f"there is no time zone {str(name)[:50]!r}", field="time_zone") from None


def floor(at: datetime, unit: Unit, where: tzinfo) -> datetime:
    """The beginning, in UTC, of the unit that holds `at` for people in a time zone.

    Minutes, quarters and hours are counted on the zone's clock face, but the two hours that share a face value when
    clocks go back are two hours.
    """
    local = at.astimezone(where)
    if unit in SIZES:
        into = timedelta(minutes=local.minute, seconds=local.second, microseconds=local.microsecond)
        return at.astimezone(UTC) - into % SIZES[unit]
    return _midnight(first_day(local.date(), unit), where)


def starts(start: datetime, end: datetime, unit: Unit, where: tzinfo) -> Iterator[datetime]:
    """The beginnings, in UTC, of all units from the one that holds `start` to before `end`."""
    at = floor(start, unit, where)
    while at < end:
        yield at
        at = following(at, unit, where)


def following(at: datetime, unit: Unit, where: tzinfo) -> datetime:
    """The beginning of the next unit, for a beginning."""
    if size := SIZES.get(unit):
        # A zone that moves its clocks by half an hour (Lord Howe) makes one hour shorter or longer than others.
        later = floor(at + size, unit, where)
        return later if later > at else at + size
    return _midnight(next_day(at.astimezone(where).date(), unit), where)


def _midnight(day: date, where: tzinfo) -> datetime:
    """When the day begins there. Where clocks skip midnight, or the whole day, it is when they start again."""
    return datetime(day.year, day.month, day.day, tzinfo=where).astimezone(UTC)


def first_day(day: date, unit: Unit) -> date:
    """The first day of the day, week, month or year that holds one."""
    if unit == "week":
        return day - timedelta(days=day.weekday())
    return day if unit == "day" else day.replace(day=1, month=day.month if unit == "month" else 1)


def next_day(day: date, unit: Unit) -> date:
    """The first day of the next day, week, month or year, for a first day."""
    if unit == "month":
        return date(day.year + day.month // 12, day.month % 12 + 1, 1)
    if unit == "year":
        return date(day.year + 1, 1, 1)
    return day + timedelta(days=7 if unit == "week" else 1)


def is_whole(at: datetime, size: timedelta) -> bool:
    """Whether the time is a whole number of minutes, hours or days in UTC."""
    return (at - EPOCH) % size == timedelta(0)
