"""What roll-ups ask of the server. All calendars here are the server's own, so that no two can disagree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from bson.timestamp import Timestamp

from squinney.analytics.calendar import EARLIEST, LATEST
from squinney.mongo.queries import Pipeline, Query
from squinney.mongo.schema import Document

Level = Literal["quarterhourly", "hourly", "daily", "weekly", "monthly", "yearly"]

# Zones have moved their clocks by up to a day (Samoa, 2011); a margin costs little, as only asked-for buckets are kept.
MARGIN = timedelta(hours=26)
UNIONS_AT_ONCE = 100


@dataclass(frozen=True)
class Step:
    """One level: how its buckets begin, and which level it is made from (None: from the events)."""

    level: Level
    unit: str
    made_from: Level | None
    size: int = 1


HOURLY: list[Step] = [
    Step("hourly", "hour", None),
    Step("daily", "day", "hourly"),
    Step("weekly", "week", "daily"),
    Step("monthly", "month", "daily"),
    Step("yearly", "year", "monthly"),
]
QUARTER_HOURLY: list[Step] = [
    Step("quarterhourly", "minute", None, 15),
    Step("hourly", "hour", "quarterhourly"),
    *HOURLY[1:],
]
# A beginning lies on the edge of its bucket; some way inside, every calendar agrees to which larger one it belongs.
_INSIDE = {"daily": timedelta(hours=12), "monthly": timedelta(days=14)}


@dataclass(frozen=True)
class Source:
    """Which fields of which events are rolled up, on which calendar."""

    collection: str
    key: str
    value: str
    time: str
    time_zone: str

    def countable(self) -> Document:
        """The events that have what it takes."""
        return {self.key: {"$ne": None}, self.value: {"$type": "number"}}


def beginning(date: Any, step: Step, time_zone: str) -> Document:
    """The beginning of the bucket that holds a date."""
    zone = "UTC" if step.made_from is None else time_zone  # the finest level is never moved by a calendar
    trunc = {"date": date, "unit": step.unit, "binSize": step.size, "timezone": zone, "startOfWeek": "monday"}
    return {"$dateTrunc": trunc}


def union(others: Sequence[str], match: Document) -> list[Document]:
    """The same match over further collections of the same events.

    A pipeline has at most 1,000 stages, and years have more days: each of these unions a hundred, by itself and within.
    """
    groups = [others[start : start + UNIONS_AT_ONCE] for start in range(0, len(others), UNIONS_AT_ONCE)]
    return [
        _union(name, [{"$match": match}, *(_union(one, [{"$match": match}]) for one in rest)]) for name, *rest in groups
    ]


def _union(name: str, stages: list[Document]) -> Document:
    return {"$unionWith": {"coll": name, "pipeline": stages}}


def touched(source: Source, steps: Sequence[Step], match: Document, others: Sequence[str] = ()) -> list[Document]:
    """Which buckets of each level some events are in, one row per bucket of the finest level."""
    finest = beginning(f"${source.time}", steps[0], source.time_zone)
    match = {**match, source.time: {"$gte": EARLIEST, "$lt": LATEST, **match.get(source.time, {})}}
    rows: Document = {
        step.level: beginning("$_id", step, source.time_zone) if step is not steps[0] else "$_id" for step in steps
    }
    return [
        {"$match": match},
        *union(others, match),
        {"$group": {"_id": finest}},
        {"$project": {"_id": 0, **rows}},
    ]


def _ranges(field: str, begins: Sequence[datetime], longest: timedelta) -> Document:
    """A filter for all that may belong to the buckets; neighbours are asked for together."""
    ranges: list[list[datetime]] = []
    for begin in sorted(begins):
        if ranges and begin - MARGIN <= ranges[-1][1]:
            ranges[-1][1] = begin + longest + MARGIN
        else:
            ranges.append([begin - MARGIN, begin + longest + MARGIN])
    filters = [{field: {"$gte": start, "$lt": end}} for start, end in ranges]
    return filters[0] if len(filters) == 1 else {"$or": filters}


_LONGEST = {
    "hourly": timedelta(hours=2),
    "daily": timedelta(days=1, hours=1),
    "weekly": timedelta(days=7, hours=1),
    "monthly": timedelta(days=31, hours=1),
    "yearly": timedelta(days=366, hours=1),
}


def from_events(
    source: Source, step: Step, begins: Sequence[datetime], run: int, into: str, others: Sequence[str] = ()
) -> list[Document]:
    """Recompute buckets of the finest level from the events, and merge them."""
    match: Document = {
        **_exact_ranges(source.time, begins, timedelta(**{f"{step.unit}s": step.size})),
        **source.countable(),
    }
    value = f"${source.value}"
    sums = {"total": {"$sum": value}, "count": {"$sum": 1}, "min": {"$min": value}, "max": {"$max": value}}
    bucket = {"k": f"${source.key}", "d": beginning(f"${source.time}", step, source.time_zone)}
    group = {"$group": {"_id": bucket, **sums}}
    return [{"$match": match}, *union(others, match), group, *_merged(begins, run, into)]


def _exact_ranges(field: str, begins: Sequence[datetime], longest: timedelta) -> Document:
    """Like `_ranges`, without a margin: hours and quarters are counted in UTC, where nothing is ever moved."""
    ranges: list[list[datetime]] = []
    for begin in sorted(begins):
        if ranges and begin <= ranges[-1][1]:
            ranges[-1][1] = begin + longest
        else:
            ranges.append([begin, begin + longest])
    filters = [{field: {"$gte": start, "$lt": end}} for start, end in ranges]
    return filters[0] if len(filters) == 1 else {"$or": filters}


def from_level(step: Step, begins: Sequence[datetime], run: int, into: str, time_zone: str) -> list[Document]:
    """Recompute buckets from the level below, and merge them."""
    assert step.made_from is not None
    sums = {
        "total": {"$sum": "$value.total"},
        "count": {"$sum": "$value.count"},
        "min": {"$min": "$value.min"},
        "max": {"$max": "$value.max"},
    }
    inside = _INSIDE.get(step.made_from, timedelta(0))
    date = {"$dateAdd": {"startDate": "$_id.d", "unit": "minute", "amount": int(inside.total_seconds() // 60)}}
    bucket = {"k": "$_id.k", "d": beginning(date, step, time_zone)}
    return [
        {"$match": {**_ranges("_id.d", begins, _LONGEST[step.level]), "value.count": {"$gt": 0}}},
        {"$group": {"_id": bucket, **sums}},
        *_merged(begins, run, into),
    ]


def _merged(begins: Sequence[datetime], run: int, into: str) -> list[Document]:
    """Keep the asked-for buckets, whole by construction, and write each unless a later run has."""
    value = {
        "total": "$total",
        "count": "$count",
        "mean": {"$divide": ["$total", "$count"]},
        "min": "$min",
        "max": "$max",
        "ts": "$$NOW",
    }
    newer = {"$replaceWith": {"$cond": [{"$gt": ["$run", "$$new.run"]}, "$$ROOT", "$$new"]}}
    return [
        {"$match": {"_id.d": {"$in": list(begins)}}},
        {"$project": {"run": {"$literal": run}, "value": value}},
        {"$merge": {"into": into, "on": "_id", "whenMatched": [newer], "whenNotMatched": "insert"}},
    ]


def emptied(begins: Sequence[datetime], run: int) -> tuple[Document, list[Document]]:
    """Filter and update for buckets that a run recomputed and found nothing in. They stay, to keep older runs out."""
    where = {"_id.d": {"$in": list(begins)}, "run": {"$lt": run}}
    nothing = {"total": 0, "count": 0, "mean": None, "min": None, "max": None, "ts": "$$NOW"}
    return where, [{"$set": {"run": run, "value": nothing}}]


def regrouped(key: Any, start: datetime, end: datetime, step: Step, time_zone: str) -> list[Document]:
    """A key's buckets on another calendar, from the finest level."""
    return [
        {"$match": READ(key=key, start=start, end=end)},
        {
            "$group": {
                "_id": {"k": "$_id.k", "d": beginning("$_id.d", step, time_zone)},
                "total": {"$sum": "$value.total"},
                "count": {"$sum": "$value.count"},
                "min": {"$min": "$value.min"},
                "max": {"$max": "$value.max"},
            }
        },
        {
            "$project": {
                "value": {
                    "total": "$total",
                    "count": "$count",
                    "mean": {"$divide": ["$total", "$count"]},
                    "min": "$min",
                    "max": "$max",
                }
            }
        },
        {"$sort": {"_id": 1}},
    ]


_EXAMPLE: dict[str, Any] = {
    "key": "a",
    "start": datetime(2026, 11, 1, tzinfo=UTC),
    "end": datetime(2026, 12, 1, tzinfo=UTC),
}

READ = Query(
    "rollups.read",
    "rollups.hourly",
    where=lambda key, start, end: {
        "_id": {"$gte": {"k": key, "d": start}, "$lt": {"k": key, "d": end}},
        "value.count": {"$gt": 0},
    },
    example=_EXAMPLE,
    sort=[("_id", 1)],
)
ARRIVED = Pipeline(
    "rollups.arrived",
    "events",
    stages=lambda since: touched(Source("events", "path", "bytes", "time", "UTC"), HOURLY, {"arrived": {"$gt": since}}),
    example={"since": Timestamp(1_700_000_000, 0)},
    routing="broadcast",
    reason="what arrived lately is spread over all shards",
)
CHANGED = Query(
    "rollups.changed",
    "rollups.hourly",
    where=lambda start, end: {"_id.d": {"$gte": start, "$lt": end}},
    example={"start": _EXAMPLE["start"], "end": _EXAMPLE["end"]},
    routing="broadcast",
    reason="a day's hours of all keys are spread over all shards",
)
ROLLUP_QUERIES: list[Query | Pipeline] = [READ, ARRIVED, CHANGED]
