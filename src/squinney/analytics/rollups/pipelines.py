"""What roll-ups ask of the server. Which time belongs to which bucket it is told; see `intervals`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from bson.timestamp import Timestamp

from squinney.analytics.calendar import EARLIEST, LATEST, SIZES, Unit
from squinney.analytics.rollups.intervals import Interval, in_any, lookup
from squinney.mongo.queries import Pipeline, Query, declared
from squinney.mongo.schema import Document

Level = Literal["quarterhourly", "hourly", "daily", "weekly", "monthly", "yearly"]
Finest = Literal["hour", "quarter"]

UNIONS_AT_ONCE = 100


@dataclass(frozen=True)
class Step:
    """One level: how its buckets begin, and which level it is made from (None: from the events)."""

    level: Level
    unit: Unit
    made_from: Level | None


HOURLY: list[Step] = [
    Step("hourly", "hour", None),
    Step("daily", "day", "hourly"),
    Step("weekly", "week", "daily"),
    Step("monthly", "month", "daily"),
    Step("yearly", "year", "monthly"),
]
QUARTER_HOURLY: list[Step] = [
    Step("quarterhourly", "quarter", None),
    Step("hourly", "hour", "quarterhourly"),
    # Not from hours: where an offset changes by half an hour, one of them has a part in two days.
    Step("daily", "day", "quarterhourly"),
    *HOURLY[2:],
]


@dataclass(frozen=True)
class Config:
    """Which fields of which events are rolled up, on which calendar, as it is stored.

    `key` is a field, or several with commas between them. A key of several is a document; what an event lacks is "".
    """

    source: str
    key: str
    value: str
    time: str
    time_zone: str
    finest: Finest

    @property
    def fields(self) -> list[str]:
        """The fields of the key."""
        return self.key.split(",")

    def keyed(self) -> Document:
        """The events that have a key: one of its fields at least."""
        if len(self.fields) == 1:
            return {self.key: {"$ne": None}}
        return {"$nor": [dict.fromkeys(self.fields)]}

    def countable(self) -> Document:
        """The events that have what it takes."""
        return {**self.keyed(), self.value: {"$type": "number"}}

    def key_of_event(self) -> Any:
        """The expression for an event's key."""
        if len(self.fields) == 1:
            return f"${self.key}"
        return {_name(field): {"$ifNull": [f"${field}", ""]} for field in self.fields}

    def stored_key(self, key: Any) -> Any:
        """A caller's key as it is stored: the order of a document's fields counts there."""
        if len(self.fields) == 1 or not isinstance(key, dict):
            return key
        return {_name(field): key.get(field, "") for field in self.fields}


def _name(field: str) -> str:
    """What a field is called within a key: dots would be a path there."""
    return field.replace(".", "_")


def slot(config: Config) -> Document:
    """The whole hour or quarter of UTC that holds an event's time."""
    minutes = int(SIZES[config.finest].total_seconds() // 60)
    return {"$dateTrunc": {"date": f"${config.time}", "unit": "minute", "binSize": minutes}}


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


def touched(config: Config, match: Document, others: Sequence[str] = ()) -> list[Document]:
    """The whole hours or quarters of UTC that some events are in."""
    match = {**match, config.time: {"$gte": EARLIEST, "$lt": LATEST, **match.get(config.time, {})}}
    return [{"$match": match}, *union(others, match), {"$group": {"_id": slot(config)}}]


def from_events(
    config: Config, found: Sequence[Interval], run: int, into: str, others: Sequence[str] = ()
) -> list[Document]:
    """Recompute buckets of the finest level from the events, and merge them."""
    match: Document = {**in_any(config.time, found), **config.countable()}
    value = f"${config.value}"
    sums = {"total": {"$sum": value}, "count": {"$sum": 1}, "min": {"$min": value}, "max": {"$max": value}}
    whole = all(one.end - one.start == SIZES[config.finest] for one in found)
    bucket = slot(config) if whole else lookup(f"${config.time}", found)
    group = {"$group": {"_id": {"k": config.key_of_event(), "d": bucket}, **sums}}
    return [{"$match": match}, *union(others, match), group, *_merged(run, into)]


def from_level(found: Sequence[Interval], run: int, into: str) -> list[Document]:
    """Recompute buckets from the level below, and merge them."""
    return [*summed(found), *_merged(run, into)]


def summed(found: Sequence[Interval]) -> list[Document]:
    """The sums of a finer level's buckets."""
    sums = {
        "total": {"$sum": "$value.total"},
        "count": {"$sum": "$value.count"},
        "min": {"$min": "$value.min"},
        "max": {"$max": "$value.max"},
    }
    return [
        {"$match": {**in_any("_id.d", found), "value.count": {"$gt": 0}}},
        {"$group": {"_id": {"k": "$_id.k", "d": lookup("$_id.d", found)}, **sums}},
    ]


def _merged(run: int, into: str) -> list[Document]:
    """Write each bucket unless a later run has."""
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
        {"$project": {"run": {"$literal": run}, "value": value}},
        {"$merge": {"into": into, "on": "_id", "whenMatched": [newer], "whenNotMatched": "insert"}},
    ]


def emptied(begins: Sequence[datetime], run: int) -> tuple[Document, list[Document]]:
    """Filter and update for buckets that a run recomputed and found nothing in. They stay, to keep older runs out."""
    where = {"_id.d": {"$in": list(begins)}, "run": {"$lt": run}}
    nothing = {"total": 0, "count": 0, "mean": None, "min": None, "max": None, "ts": "$$NOW"}
    return where, [{"$set": {"run": run, "value": nothing}}]


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
    stages=lambda since: touched(Config("events", "path", "bytes", "time", "UTC", "hour"), {"arrived": {"$gt": since}}),
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
QUERIES = declared(globals())
