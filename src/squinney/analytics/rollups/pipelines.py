"""The queries and pipelines of roll-ups. They get the time intervals of each bucket from `intervals`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from bson.timestamp import Timestamp

from squinney.analytics.calendar import EARLIEST, LATEST, SIZES, Unit
from squinney.analytics.events.documents import EVENTS
from squinney.analytics.events.queries import UNWOUND
from squinney.analytics.rollups.intervals import Interval, in_any, lookup
from squinney.mongo.queries import Pipeline, Query, declared
from squinney.mongo.schema import Document

Level = Literal["quarterhourly", "hourly", "daily", "weekly", "monthly", "yearly"]
Finest = Literal["hour", "quarter"]

IN_PAGES = frozenset({"site", "arrived", "source"})  # what a page of events has once for all of them


@dataclass(frozen=True)
class RollupStep:
    """One level: the unit of its buckets, and the level from which it is computed (None for the events)."""

    level: Level
    unit: Unit
    made_from: Level | None


HOURLY: list[RollupStep] = [
    RollupStep("hourly", "hour", None),
    RollupStep("daily", "day", "hourly"),
    RollupStep("weekly", "week", "daily"),
    RollupStep("monthly", "month", "daily"),
    RollupStep("yearly", "year", "monthly"),
]
QUARTER_HOURLY: list[RollupStep] = [
    RollupStep("quarterhourly", "quarter", None),
    RollupStep("hourly", "hour", "quarterhourly"),
    # Not from hours: where an offset changes by half an hour, one hour belongs to two days.
    RollupStep("daily", "day", "quarterhourly"),
    *HOURLY[2:],
]


@dataclass(frozen=True)
class Config:
    """The stored settings of a roll-up: the source collection, its fields, and the calendar.

    `key` is a field, or several separated by commas. A key of several fields is stored as a document, in which a field
    that the event lacks is "".
    """

    source: str
    key: str
    value: str
    time: str
    time_zone: str
    finest: Finest

    @property
    def is_paged(self) -> bool:
        """Whether the source is the event log, which stores its events in pages."""
        return self.source == EVENTS

    def at(self, field: str) -> str:
        """Return where the stages after `matching` find a field of an event."""
        return f"events.{field}" if self.is_paged and field not in IN_PAGES else field

    def matching(self, match: Document, times: Sequence[Interval]) -> list[Document]:
        """Return the stages that yield the matching events; `times` contain them all, to find the pages."""
        if not self.is_paged:
            return [{"$match": match}]
        pages = in_any("from", [Interval(hour_of(interval.start), interval.end, interval.bucket) for interval in times])
        whole = {name: condition for name, condition in match.items() if name in IN_PAGES}
        return [{"$match": {**pages, **whole}}, UNWOUND, {"$match": self._placed(match)}]

    def _placed(self, match: Document) -> Document:
        return {
            self.at(name) if not name.startswith("$") else name: (
                [self._placed(operand) for operand in condition] if name.startswith("$") else condition
            )
            for name, condition in match.items()
        }

    @property
    def fields(self) -> list[str]:
        """The fields of the key."""
        return self.key.split(",")

    def key_filter(self) -> Document:
        """Return the filter for events that have at least one field of the key."""
        if len(self.fields) == 1:
            return {self.key: {"$ne": None}}
        return {"$nor": [dict.fromkeys(self.fields)]}

    def key_expression(self) -> Any:
        """Return the expression for an event's key."""
        if len(self.fields) == 1:
            return f"${self.at(self.key)}"
        return {_name(field): {"$ifNull": [f"${self.at(field)}", ""]} for field in self.fields}

    def stored_key(self, key: Any) -> Any:
        """Return a caller's key as it is stored, with the fields in the order of the settings."""
        if len(self.fields) == 1 or not isinstance(key, dict):
            return key
        return {_name(field): key.get(field, "") for field in self.fields}


def _name(field: str) -> str:
    """Return the name of a field within a stored key; a dot would be read as a path there."""
    return field.replace(".", "_")


def slot(config: Config) -> Document:
    """Return the expression for the hour or quarter of UTC that contains an event's time."""
    minutes = int(SIZES[config.finest].total_seconds() // 60)
    return {"$dateTrunc": {"date": f"${config.at(config.time)}", "unit": "minute", "binSize": minutes}}


def touched(config: Config, match: Document, *, since: datetime | None = None) -> list[Document]:
    """Return the pipeline that finds the hours or quarters of UTC that contain matching events, from `since` on."""
    times = {"$gte": since or EARLIEST, "$lt": LATEST, **match.get(config.time, {})}
    if since and times["$gte"] < since:
        times["$gte"] = since
    if config.is_paged and config.finest == "hour" and match.keys() <= {"arrived"}:  # its pages tell the hours
        return [{"$match": {**match, "from": times}}, {"$group": {"_id": _hour_of_page()}}]
    span = [Interval(times["$gte"], times["$lt"], times["$gte"])]
    return [*config.matching({**match, config.time: times}, span), {"$group": {"_id": slot(config)}}]


def _hour_of_page() -> Document:
    return {"$dateTrunc": {"date": "$from", "unit": "hour"}}


def hour_of(at: datetime) -> datetime:
    """Return the start of the hour of a time in UTC."""
    return at.replace(minute=0, second=0, microsecond=0)


def from_events(config: Config, times: Sequence[Interval], run: int, into: str) -> list[Document]:
    """Return the pipeline that recomputes buckets of the finest level from the events."""
    match: Document = {**in_any(config.time, times), **config.key_filter(), config.value: {"$type": "number"}}
    value = f"${config.at(config.value)}"
    sums = {"total": {"$sum": value}, "count": {"$sum": 1}, "min": {"$min": value}, "max": {"$max": value}}
    whole = all(interval.end - interval.start == SIZES[config.finest] for interval in times)
    bucket = slot(config) if whole else lookup(f"${config.at(config.time)}", times)
    group = {"$group": {"_id": {"k": config.key_expression(), "d": bucket}, **sums}}
    return [*config.matching(match, times), group, *merged(run, into)]


def summed(times: Sequence[Interval]) -> list[Document]:
    """Return the stages that add up a finer level's buckets."""
    sums = {
        "total": {"$sum": "$value.total"},
        "count": {"$sum": "$value.count"},
        "min": {"$min": "$value.min"},
        "max": {"$max": "$value.max"},
    }
    return [
        {"$match": {**in_any("_id.d", times), "value.count": {"$gt": 0}}},
        {"$group": {"_id": {"k": "$_id.k", "d": lookup("$_id.d", times)}, **sums}},
    ]


def merged(run: int, into: str) -> list[Document]:
    """Return the stages that write each bucket, unless a later run has written it."""
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
    """Return the filter and update for recomputed buckets without events.

    They are set to zero and not deleted, so that an older run cannot bring them back.
    """
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
    "analytics.rollups_hourly",
    where=lambda key, start, end: {
        "_id": {"$gte": {"k": key, "d": start}, "$lt": {"k": key, "d": end}},
        "value.count": {"$gt": 0},
    },
    example=_EXAMPLE,
    sort=[("_id", 1)],
)
ARRIVED = Pipeline(
    "rollups.arrived",
    "analytics.events",
    stages=lambda since: touched(
        Config("analytics.events", "path", "bytes", "time", "UTC", "hour"), {"arrived": {"$gt": since}}
    ),
    example={"since": Timestamp(1_700_000_000, 0)},
    routing="broadcast",
    reason="new events are on all shards",
)
CHANGED = Query(
    "rollups.changed",
    "analytics.rollups_hourly",
    where=lambda start, end: {"_id.d": {"$gte": start, "$lt": end}},
    example={"start": _EXAMPLE["start"], "end": _EXAMPLE["end"]},
    routing="broadcast",
    reason="the keys of one time are on all shards",
)
QUERIES = declared(globals())
