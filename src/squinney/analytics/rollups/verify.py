"""Comparing roll-ups with the raw events, level by level, on the server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from bson.timestamp import Timestamp

from squinney.analytics.calendar import EARLIEST, LATEST
from squinney.analytics.rollups import pipelines
from squinney.analytics.rollups.documents import RUNS, collection_of
from squinney.analytics.rollups.intervals import Interval, in_any, lookup
from squinney.analytics.rollups.pipelines import RollupStep
from squinney.analytics.rollups.rollups import BUCKETS_AT_ONCE, Rollups, chunks
from squinney.mongo.pinned import pinned
from squinney.mongo.problems import Problem
from squinney.mongo.schema import Db, Document

COMPARED = ("total", "count", "min", "max")
# A level is a sum of sums, whose last digits may differ from a single sum if the values are fractions.
ROUNDING = 1e-12


def verify(db: Db) -> Iterator[Problem]:
    """Yield a problem for every bucket of every roll-up that differs from its raw events.

    Buckets with events that arrived after the last run are skipped. Where raw events were dropped, the coarser levels
    are compared with the finest one instead.
    """
    db = pinned(db)
    for rollups in Rollups.registered(db):
        comparison = _Comparison(db, rollups)
        for step in rollups.steps:
            for row in comparison.differing(step):
                yield _problem(rollups, step, row)


def _problem(rollups: Rollups, step: RollupStep, row: Document) -> Problem:
    key, at = row["_id"]["k"], row["_id"]["d"]
    stored, raw = _short(row.get("stored")), _short(row.get("raw"))
    return Problem(
        "rollup-differs",
        f"{rollups.name}.{step.level} {key} {at:%Y-%m-%d %H:%M}: stored {stored}, but the events have {raw}",
        documents={"name": rollups.name, "level": step.level, "key": key, "at": at},
        repairable=True,
    )


def _short(value: Document | None) -> str:
    return "nothing" if not value else f"{value['count']} values with a total of {value['total']}"


class _Comparison:
    """Compares the levels of one roll-up with its raw events, a thousand buckets at a time."""

    def __init__(self, db: Db, rollups: Rollups) -> None:
        self._db = db
        self._rollups = rollups
        self._config = rollups.config
        self._frozen = rollups.frozen_before()
        self._watermark = (db[RUNS].find_one({"_id": rollups.name}) or {}).get("watermark") or Timestamp(0, 0)
        slots = pipelines.touched(self._config, self._config.key_filter(), since=self._frozen)
        rows = db[self._config.source].aggregate(slots, allowDiskUse=True)
        self._buckets = rollups.buckets_of(row["_id"] for row in rows)

    def differing(self, step: RollupStep) -> Iterator[Document]:
        """Yield the rows of a level whose stored values differ."""
        stored = self._rollups.stored(step, EARLIEST - timedelta(days=400), LATEST)
        finest = self._rollups.stored(self._rollups.steps[0], EARLIEST, LATEST) if self._frozen else set()
        begins = self._buckets[step.level] | stored | self._rollups.buckets_of(finest)[step.level]
        for chunk in chunks(sorted(begins), BUCKETS_AT_ONCE):
            yield from self._compared(step, chunk)

    def _compared(self, step: RollupStep, begins: Sequence[datetime]) -> Iterator[Document]:
        times = self._rollups.intervals_of(step, begins)
        since = self._frozen if step.made_from is None else None
        stored = {"_id.d": {"$in": [at for at in begins if since is None or at >= since]}, "value.count": {"$gt": 0}}
        if self._frozen is None or step.made_from is None:
            first, raw = self._config.source, self._of_events(times)
        else:
            first, raw = collection_of(self._rollups.name, self._rollups.steps[0].level), pipelines.summed(times)
        stages = [*raw, *_compare_with(collection_of(self._rollups.name, step.level), stored, self._watermark)]
        yield from self._db[first].aggregate(stages, allowDiskUse=True)

    def _of_events(self, times: Sequence[Interval]) -> list[Document]:
        config = self._config
        in_time = {config.time: {"$gte": self._frozen or EARLIEST, "$lt": LATEST}}
        match: Document = {"$and": [config.key_filter(), in_time, in_any(config.time, times)]}
        field = f"${config.at(config.value)}"
        counts = {"$isNumber": field}
        value = {"$cond": [counts, field, None]}  # an event without value still counts for `newest`
        bucket = {"k": config.key_expression(), "d": lookup(f"${config.at(config.time)}", times)}
        sums = {
            "total": {"$sum": value},
            "count": {"$sum": {"$cond": [counts, 1, 0]}},
            "min": {"$min": value},
            "max": {"$max": value},
            "newest": {"$max": "$arrived"},
        }
        return [*config.matching(match, times), {"$group": {"_id": bucket, **sums}}]


def _compare_with(level: str, stored_from: Document, watermark: Timestamp) -> list[Document]:
    """Return the stages that join the raw sums with the stored buckets and keep the rows that differ."""
    stored = {part: f"$value.{part}" for part in COMPARED}
    raw = {"$cond": [{"$gt": ["$count", 0]}, {part: f"${part}" for part in COMPARED}, None]}
    pipeline: list[Document] = [{"$match": stored_from}, {"$project": {"stored": stored}}]
    together = {name: {"$max": f"${name}"} for name in ("raw", "stored", "newest")}
    return [
        {"$project": {"newest": 1, "raw": raw}},
        {"$unionWith": {"coll": level, "pipeline": pipeline}},
        {"$group": {"_id": "$_id", **together}},
        {"$match": {"$expr": _differ(), "newest": {"$not": {"$gt": watermark}}}},
        {"$sort": {"_id": 1}},
    ]


def _differ() -> Document:
    exactly = {part: {"$ne": [f"$raw.{part}", f"$stored.{part}"]} for part in COMPARED}
    largest = {"$max": [{"$abs": "$raw.min"}, {"$abs": "$raw.max"}]}
    difference = {"$abs": {"$subtract": ["$raw.total", "$stored.total"]}}
    beyond_rounding = {"$gt": [difference, {"$multiply": [ROUNDING, "$raw.count", largest]}]}
    is_fraction = {"$eq": [{"$type": "$raw.total"}, "double"]}
    total = {"$cond": [is_fraction, beyond_rounding, exactly.pop("total")]}
    return {"$or": [total, *exactly.values()]}
