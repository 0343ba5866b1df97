"""Complete series of hits: adds up the stored minutes, hours or days to the units of any time zone."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice
from typing import Literal, NamedTuple, cast, get_args
from zoneinfo import ZoneInfo

from squinney.analytics.calendar import DAY, HOUR, MINUTE, Unit, following, is_whole, starts
from squinney.errors import Invalid
from squinney.mongo.schema import Document

Grain = Literal["minute", "hour", "day"]
MAX_POINTS = 100_000


class Point(NamedTuple):
    """The hits of a unit, and when the unit begins, in the requested time zone."""

    at: datetime
    hits: int


# The field with the counts of each grain: in the documents of days, and for days in those of months.
FIELDS: dict[Grain, str] = {"minute": "minute", "hour": "hourly", "day": "daily"}


class Frame:
    """The units of a series: from the one that contains `start` to the last one before `end`."""

    def __init__(self, start: datetime, end: datetime, unit: Unit, tz: ZoneInfo) -> None:
        if unit not in get_args(Unit):
            raise Invalid(f"unit must be one of {', '.join(get_args(Unit))}", field="unit")
        self._tz = tz
        self._is_stored_unit = tz.key == "UTC" and unit in FIELDS
        self.starts = list(islice(starts(start, end, unit, tz), MAX_POINTS + 1)) if start < end else []
        if len(self.starts) > MAX_POINTS:
            raise Invalid(f"end: a series has at most {MAX_POINTS} points", field="end", limit=MAX_POINTS)
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
            hits: Counter[datetime] = Counter()
            for at, count in counts:
                hits[at] += count
            return [Point(at, hits[at]) for at in self.starts]
        totals = [0] * len(self.starts)
        for at, count in counts:
            index = bisect_right(self.starts, at) - 1
            if index >= 0 and at < self.end:
                totals[index] += count
        return [Point(at.astimezone(self._tz), total) for at, total in zip(self.starts, totals, strict=True)]


def counts_in(documents: Iterable[Document], grain: Grain) -> Iterator[tuple[datetime, int]]:
    """Yield each minute or hour of the documents of days, or each day of those of months, with its hits."""
    for document in documents:
        date = document["metadata"]["date"]
        for number, count in document.get(FIELDS[grain], {}).items():
            if grain == "minute":  # the number is that of an hour, and has the counts of its minutes
                hour = date + int(number) * HOUR
                yield from ((hour + int(minute) * MINUTE, views) for minute, views in count.items())
            else:
                yield date + (int(number) * HOUR if grain == "hour" else (int(number) - 1) * DAY), count
