"""Roll-ups compared with the raw events, level by level, on the server."""

from __future__ import annotations

from collections.abc import Iterator

from bson.timestamp import Timestamp

from squinney.analytics.calendar import EARLIEST, LATEST
from squinney.analytics.documents import RUNS
from squinney.analytics.events.places import EVENTS, Places
from squinney.analytics.rollups.pipelines import Step, beginning, union
from squinney.analytics.rollups.rollups import Rollups
from squinney.mongo.pinned import pinned
from squinney.mongo.problems import Problem
from squinney.mongo.schema import Db, Document

COMPARED = ("total", "count", "min", "max")
# A level is a sum of sums: with fractions its last digits are not those of one sum over all.
ROUNDING = 1e-12


def verify(db: Db) -> Iterator[Problem]:
    """Every bucket of every roll-up that is not what its raw events say.

    Buckets whose events arrived after the last run are not due yet and are passed over. Where raw events were dropped,
    the coarser levels are compared with the finest instead.
    """
    db = pinned(db)
    for rollups in Rollups.registered(db):
        for step in rollups.steps:
            for row in _differing(db, rollups, step):
                yield _problem(rollups, step, row)


def _problem(rollups: Rollups, step: Step, row: Document) -> Problem:
    key, at = row["_id"]["k"], row["_id"]["d"]
    said, is_ = row.get("stored"), row.get("raw")
    return Problem(
        "rollup-differs",
        f"{rollups.name}.{step.level} {key} {at:%Y-%m-%d %H:%M}: stored {_short(said)}, the events say {_short(is_)}",
        documents={"name": rollups.name, "level": step.level, "key": key, "at": at},
        repairable=True,
    )


def _short(value: Document | None) -> str:
    return "nothing" if not value else f"{value['count']} adding up to {value['total']}"


def _differing(db: Db, rollups: Rollups, step: Step) -> Iterator[Document]:
    frozen = Places(db).policy(fresh=True).frozen_before if rollups.source.collection == EVENTS else None
    known = db[RUNS].find_one({"_id": rollups.name}) or {}
    watermark = known.get("watermark") or Timestamp(0, 0)
    if frozen is None or step.made_from is None:
        yield from _against_events(db, rollups, step, watermark, frozen)
    else:
        finest = f"{rollups.name}.{rollups.steps[0].level}"
        bucket = {"k": "$_id.k", "d": beginning("$_id.d", step, rollups.source.time_zone)}
        parts = {"total": "$value.total", "count": "$value.count", "min": "$value.min", "max": "$value.max"}
        stages: list[Document] = [{"$match": {"value.count": {"$gt": 0}}}, {"$group": _sums(bucket, parts)}]
        yield from _compared(db, finest, stages, rollups, step, watermark, None)


def _against_events(db: Db, rollups: Rollups, step: Step, watermark: Timestamp, frozen: object) -> Iterator[Document]:
    source = rollups.source
    first, *others = Places(db).together() if source.collection == EVENTS else [source.collection]
    match: Document = {source.key: {"$ne": None}, source.time: {"$gte": frozen or EARLIEST, "$lt": LATEST}}
    counts = {"$isNumber": f"${source.value}"}
    value = {"$cond": [counts, f"${source.value}", None]}  # what lost its value has arrived anew all the same
    bucket = {"k": f"${source.key}", "d": beginning(f"${source.time}", step, source.time_zone)}
    sums = _sums(bucket, {"total": value, "count": {"$cond": [counts, 1, 0]}, "min": value, "max": value})
    sums["newest"] = {"$max": "$arrived"}
    stages: list[Document] = [{"$match": match}, *union(others, match), {"$group": sums}]
    yield from _compared(db, first, stages, rollups, step, watermark, frozen)


def _sums(bucket: Document, parts: Document) -> Document:
    return {
        "_id": bucket,
        "total": {"$sum": parts["total"]},
        "count": {"$sum": parts["count"]},
        "min": {"$min": parts["min"]},
        "max": {"$max": parts["max"]},
    }


def _compared(
    db: Db, name: str, grouped: list[Document], rollups: Rollups, step: Step, watermark: Timestamp, frozen: object
) -> Iterator[Document]:
    stored_from: Document = {"value.count": {"$gt": 0}, **({"_id.d": {"$gte": frozen}} if frozen else {})}
    stored = {part: f"$value.{part}" for part in COMPARED}
    raw = {"$cond": [{"$gt": ["$count", 0]}, {part: f"${part}" for part in COMPARED}, None]}
    differs: Document = {"$expr": _differ(), "newest": {"$not": {"$gt": watermark}}}
    stages: list[Document] = [
        *grouped,
        {"$project": {"newest": 1, "raw": raw}},
        {
            "$unionWith": {
                "coll": f"{rollups.name}.{step.level}",
                "pipeline": [{"$match": stored_from}, {"$project": {"stored": stored}}],
            }
        },
        {
            "$group": {
                "_id": "$_id",
                "raw": {"$max": "$raw"},
                "stored": {"$max": "$stored"},
                "newest": {"$max": "$newest"},
            }
        },
        {"$match": differs},
        {"$sort": {"_id": 1}},
    ]
    yield from db[name].aggregate(stages, allowDiskUse=True)


def _differ() -> Document:
    exactly = {part: {"$ne": [f"$raw.{part}", f"$stored.{part}"]} for part in COMPARED}
    largest = {"$max": [{"$abs": "$raw.min"}, {"$abs": "$raw.max"}]}
    apart = {"$abs": {"$subtract": ["$raw.total", "$stored.total"]}}
    by_more = {"$gt": [apart, {"$multiply": [ROUNDING, "$raw.count", largest]}]}
    of_fractions = {"$eq": [{"$type": "$raw.total"}, "double"]}
    total = {"$cond": [of_fractions, by_more, exactly.pop("total")]}
    return {"$or": [total, *exactly.values()]}
