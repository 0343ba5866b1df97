"""`Rollups`: totals, counts, means and extremes by hour, day, week, month and year.

A bucket is recomputed from the level below, never added to, so that doing it twice changes nothing. Progress follows
the arrival of events, not their time, so late ones reach every level. Each run has a number, and no bucket is
overwritten by a run older than the one that wrote it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, Literal, cast, get_args

from bson.timestamp import Timestamp
from pymongo.client_session import ClientSession
from pymongo.errors import OperationFailure

from squinney import checks
from squinney.analytics import rules
from squinney.analytics.calendar import EPOCH, zone
from squinney.analytics.documents import ROLLUPS, RUNS, Bucket
from squinney.analytics.errors import Frozen
from squinney.analytics.events.places import EVENTS, Places
from squinney.analytics.rollups import pipelines
from squinney.analytics.rollups.pipelines import HOURLY, QUARTER_HOURLY, Level, Source, Step
from squinney.errors import Conflict, Invalid
from squinney.mongo.connect import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db, Document

Finest = Literal["hour", "quarter"]

# Longer than any write may take: transactions end after 60 s, and the event log's own writes are bounded by 60 s.
OVERLAP_SECONDS = 90
BUCKETS_AT_ONCE = 1_000
MOST_KEYS = 1_000
MOST_BUCKETS = 100_000
SECONDS = 3_600
DUPLICATE_KEY, UNKNOWN_TIME_ZONE = 11000, 40485
# What a level's collection may begin with, what a collection may be called, and where a field may be.
_NAME, _COLLECTION, _PATH = r"[A-Za-z_][A-Za-z0-9_-]*", r"[^$.]+(\.[^$.]+)*", r"[^$.][^.]*(\.[^$.][^.]*)*"
_TAKEN = ("hits", "system")


@dataclass(frozen=True)
class Ran:
    """What a run recomputed, by level; `moved` tells whether the next one begins where it began."""

    run: int
    buckets: dict[str, int]
    moved: bool


class Rollups:
    """Hierarchical aggregation of a collection of events: `key` and `value` name the fields to group by and to sum.

    The events need an `arrived` that the server fills in at the insert. `finest` "quarter" adds quarters of an hour,
    which zones at half hours need. Roll-ups of other events or fields get a `name` of their own, and its collections
    (`rollup_collections(name)`).
    """

    def __init__(
        self,
        db: Db,
        source: str = EVENTS,
        key: str = "userid",
        value: str = "length",
        time: str = "ts",
        time_zone: str = "UTC",
        *,
        name: str = ROLLUPS,
        finest: Finest = "hour",
        overlap_seconds: int = OVERLAP_SECONDS,
    ) -> None:
        self._db = pinned(db)
        self.name = checks.text(name, "name", most=50, pattern=_NAME)
        if self.name in _TAKEN:
            raise Invalid(f"name must be none of {', '.join(_TAKEN)}: those collections are others'", field="name")
        checks.text(source, "source", most=100, pattern=_COLLECTION)
        for field, path in (("key", key), ("value", value), ("time", time)):
            checks.text(path, field, most=200, pattern=_PATH)
        self.source = Source(source, key, value, time, time_zone)
        if finest not in get_args(Finest):
            raise Invalid("finest must be hour or quarter", field="finest")
        self._finest = finest
        self.steps = HOURLY if finest == "hour" else QUARTER_HOURLY
        self._overlap_seconds = checks.integer(overlap_seconds, "overlap_seconds", least=0)
        self._places = Places(db, refresh_seconds=0)
        self._may_begin = True
        _require_whole_offsets(time_zone, finest)

    @classmethod
    def registered(cls, db: Db) -> list[Rollups]:
        """Every roll-up that has run in this database and was not stopped; one that is stopped now stays so."""
        found = [cls(db, **known["config"], name=known["_id"]) for known in pinned(db)[RUNS].find({"stopped": None})]
        for rollups in found:
            rollups._may_begin = False
        return found

    # ---- recomputing ----

    @operation(SECONDS)
    def run(self, until: datetime | None = None) -> Ran:
        """Bring every level up to date with what has arrived; with `until`, only buckets that begin before it.

        Atomic: each bucket by itself, and the watermark's move, which happens only while this run is the latest.
        After a crash: some buckets are newer than others; the next run recomputes them all. The same holds for two
        runs at once, and for one that stalls and wakes up behind another.
        Raises: `Conflict` where the name rolls up something else, or under retention that loses events; nothing is
        begun then.
        """
        before = rules.checked_time(until, "until") if until else None
        with self._db.client.start_session(causal_consistency=True) as session:
            known, began = self._begin(session, {"$unset": {"stopped": ""}})
            since = _minus(known.get("watermark") or Timestamp(0, 0), self._overlap_seconds)
            rows = self._touched({"arrived": {"$gt": since}}, session)
            chosen = [row for row in rows if before is None or row[self.steps[0].level] < before]
            buckets = self._recompute(self.steps, chosen, known["run"], session)
            moved = len(chosen) == len(rows) and self._move_watermark(known["run"], began, session)
        return Ran(known["run"], buckets, moved)

    @operation(SECONDS)
    def rebuild(self, start: datetime, end: datetime) -> Ran:
        """Recompute every bucket that has or had events from `start` to before `end`, at all levels.

        Atomic: as `run`; the watermark stays.
        After a crash: rebuild again.
        Raises: `Frozen` where raw events of that time are gone.
        """
        start, end = rules.checked_range(start, end)
        gone = self.frozen_before()
        if gone and start < gone:
            raise Frozen(f"the events before {gone:%Y-%m-%d %H:%M} are gone; their buckets stay as they are")
        with self._db.client.start_session(causal_consistency=True) as session:
            known, _ = self._begin(session)
            rows = self._touched({self.source.time: {"$gte": start, "$lt": end}}, session)
            begins = start - timedelta(hours=1)
            rows += self._stored(max(begins, gone) if gone else begins, end, session)
            return Ran(known["run"], self._recompute(self.steps, rows, known["run"], session), moved=False)

    @operation(SECONDS)
    def regroup(self, start: datetime, end: datetime) -> Ran:
        """Recompute the coarser levels from the finest one, which is all there is where raw events are gone.

        Atomic: as `run`; the watermark stays.
        After a crash: regroup again.
        """
        start, end = rules.checked_range(start, end)
        with self._db.client.start_session(causal_consistency=True) as session:
            known, _ = self._begin(session)
            rows = self._stored(start, end, session)
            return Ran(known["run"], self._recompute(self.steps[1:], rows, known["run"], session), moved=False)

    @operation()
    def stop(self) -> None:
        """Roll up no more, and let go of the events: retention may lose them again. The buckets stay.

        Atomic: one update.
        After a crash: it happened or it did not. A later `run` begins from the first event that is left.
        """
        stopped = {"$set": {"stopped": True}, "$unset": {"watermark": ""}, "$inc": {"run": 1}}
        self._db[RUNS].update_one({"_id": self.name}, stopped)

    def _begin(self, session: ClientSession, change: Document | None = None) -> tuple[Document, Timestamp]:
        """Take the next number; the cluster time of that write is what the watermark will be."""
        self._require_own(self._db[RUNS].find_one({"_id": self.name}))
        self._require_kept()
        self._require_zone(self.source.time_zone)
        taken = {"$inc": {"run": 1}, "$setOnInsert": {"config": self._config()}, **(change or {})}
        where = {"_id": self.name} if self._may_begin else {"_id": self.name, "stopped": None}
        known = self._db[RUNS].find_one_and_update(
            where, taken, upsert=self._may_begin, return_document=True, session=session
        )
        if known is None:
            raise Conflict(f"{self.name} was stopped", field="name")
        began = session.operation_time
        assert began is not None
        self._require_own(known)  # two may have begun under one name at the same moment
        try:
            self._require_kept()
        except Conflict:  # the policy was changed at the same moment
            self.stop()
            raise
        return known, began

    def _config(self) -> Document:
        return {
            "source": self.source.collection,
            "key": self.source.key,
            "value": self.source.value,
            "time": self.source.time,
            "time_zone": self.source.time_zone,
            "finest": self._finest,
        }

    def _require_own(self, known: Document | None) -> None:
        if known and known["config"] != self._config():
            raise Conflict(f"{self.name} rolls up {known['config']}; use another name", field="name")

    def _require_zone(self, time_zone: str) -> None:
        """The server has calendars of its own, which may be older than ours."""
        stages: list[Document] = [
            {"$documents": [{"at": EPOCH}]},
            {"$project": {"day": pipelines.beginning("$at", self.steps[1], time_zone)}},
        ]
        try:
            list(self._db.aggregate(stages))
        except OperationFailure as error:
            if error.code != UNKNOWN_TIME_ZONE:
                raise
            raise Invalid(f"the server knows no time zone {time_zone!r}", field="time_zone") from error

    def _require_kept(self) -> None:
        if self.source.collection == EVENTS and self._places.policy().strategy not in ("keep", "rotate"):
            raise Conflict("roll-ups need retention that keeps or rotates events: others lose them unseen")

    def _touched(self, match: Document, session: ClientSession) -> list[Document]:
        if gone := self.frozen_before():
            asked = match.get(self.source.time, {})
            match = {**match, self.source.time: {**asked, "$gte": max(gone, asked.get("$gte", gone))}}
        first, *others = self._collections()
        stages = pipelines.touched(self.source, self.steps, match, others)
        return list(self._db[first].aggregate(stages, session=session, allowDiskUse=True))

    def _stored(self, start: datetime, end: datetime, session: ClientSession) -> list[Document]:
        """Which buckets of each level exist, like `_touched`: those without events must become empty."""
        finest = self._db[f"{self.name}.{self.steps[0].level}"]
        exact: Document = {step.level: pipelines.beginning("$_id", step, self.source.time_zone) for step in self.steps}
        stages: list[Document] = [
            {"$match": {"_id.d": {"$gte": start, "$lt": end}}},
            {"$group": {"_id": "$_id.d"}},
            {"$project": {"_id": 0, **exact}},
        ]
        return list(finest.aggregate(stages, session=session))

    def _recompute(
        self, steps: Sequence[Step], rows: Sequence[Document], run: int, session: ClientSession
    ) -> dict[str, int]:
        counts: dict[str, int] = {}
        for step in steps:
            begins = sorted({row[step.level] for row in rows})
            for chunk in _chunks(begins, BUCKETS_AT_ONCE):
                self._recompute_level(step, chunk, run, session)
            counts[step.level] = len(begins)
        return counts

    def _recompute_level(self, step: Step, begins: Sequence[datetime], run: int, session: ClientSession) -> None:
        into = f"{self.name}.{step.level}"
        if step.made_from is None:
            from_name, *others = self._collections(begins[0], begins[-1] + timedelta(hours=2))
            stages = pipelines.from_events(self.source, step, begins, run, into, others)
        else:
            from_name = f"{self.name}.{step.made_from}"
            stages = pipelines.from_level(step, begins, run, into, self.source.time_zone)
        self._merge(from_name, stages, session)
        if (gone := self.frozen_before()) and step.made_from is None and begins[0] < gone:
            raise Frozen(f"the events before {gone:%Y-%m-%d %H:%M} were dropped under this run; run it again")
        where, update = pipelines.emptied(begins, run)
        self._db[into].update_many(where, update, session=session)

    def _merge(self, name: str, stages: list[Document], session: ClientSession) -> None:
        for attempt in range(10):
            try:
                self._db[name].aggregate(stages, session=session, allowDiskUse=True)
                return
            except OperationFailure as error:  # two runs made the same bucket at the same moment
                if error.code != DUPLICATE_KEY or attempt == 9:
                    raise
                time.sleep(0.01)

    def _move_watermark(self, run: int, began: Timestamp, session: ClientSession) -> bool:
        latest = {"_id": self.name, "run": run}
        moved = self._db[RUNS].update_one(latest, {"$set": {"watermark": began}}, session=session)
        return moved.matched_count == 1

    def _collections(self, start: datetime | None = None, end: datetime | None = None) -> list[str]:
        if self.source.collection != EVENTS:
            return [self.source.collection]
        return self._places.together(start, end)

    @operation(reads_only=True)
    def frozen_before(self) -> datetime | None:
        """Before when raw events are gone, if any are: buckets of the finest level stay as they are there."""
        return self._places.policy(fresh=True).frozen_before if self.source.collection == EVENTS else None

    # ---- reading ----

    @operation(60, reads_only=True)
    def read(
        self, level: Level, key: Any, start: datetime, end: datetime, *, time_zone: str | None = None
    ) -> list[Bucket]:
        """A key's buckets that begin from `start` to before `end`, oldest first; empty ones are left out.

        In another `time_zone` than the roll-up's own they are regrouped from the finest level, whole buckets only of
        what lies between the two times.

        Raises: `Invalid`; also for more than 100,000 buckets.
        """
        start, end = rules.checked_range(start, end)
        step = self._step(level)
        if time_zone is None or time_zone == self.source.time_zone or step.made_from is None:
            found: Iterator[Document] = iter(self._find(level, key, start, end))
        else:
            _require_whole_offsets(time_zone, self._finest)
            self._require_zone(time_zone)
            stages = pipelines.regrouped(key, start, end, step, time_zone)
            found = self._db[f"{self.name}.{self.steps[0].level}"].aggregate(stages)
        buckets = [_bucket(document) for document in islice(found, MOST_BUCKETS + 1)]
        if len(buckets) > MOST_BUCKETS:
            said = f"at most {MOST_BUCKETS} buckets at once: ask for a shorter time or a coarser level"
            raise Invalid(said, field="end", limit=MOST_BUCKETS)
        return buckets

    def _find(self, level: Level, key: Any, start: datetime, end: datetime) -> Iterator[Document]:
        where = pipelines.READ(key=key, start=start, end=end)
        return iter(self._db[f"{self.name}.{level}"].find(where).sort("_id", 1))

    def _step(self, level: Level) -> Step:
        found = next((step for step in self.steps if step.level == level), None)
        if found is None:
            raise Invalid(f"level must be one of {', '.join(step.level for step in self.steps)}", field="level")
        return found

    @operation(60, reads_only=True)
    def top_keys(self, level: Level, at: datetime, limit: int = 10) -> list[Bucket]:
        """The keys with the largest totals in the bucket that begins at a time.

        Raises: `Invalid`.
        """
        self._step(level)
        checks.integer(limit, "limit", least=1, most=MOST_KEYS)
        where = {"_id.d": rules.checked_time(at, "at"), "value.count": {"$gt": 0}}
        found = self._db[f"{self.name}.{level}"].find(where).sort("value.total", -1).limit(limit)
        return [_bucket(document) for document in found]


def _bucket(document: Document) -> Bucket:
    value = {name: number for name, number in document["value"].items() if name != "ts"}
    return cast(Bucket, {"key": document["_id"]["k"], "at": document["_id"]["d"], **value})


def _chunks(items: Sequence[datetime], size: int) -> Iterator[Sequence[datetime]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _minus(at: Timestamp, seconds: int) -> Timestamp:
    return Timestamp(max(0, at.time - seconds), 0)


def _require_whole_offsets(time_zone: str, finest: Finest) -> None:
    """Days must begin where a bucket of the finest level does; looked at since 1990, which covers every log."""
    where = zone(time_zone)
    size = timedelta(hours=1) if finest == "hour" else timedelta(minutes=15)
    for month in range(12 * 50):
        at = datetime(1990 + month // 12, month % 12 + 1, 1, tzinfo=UTC)
        offset = at.astimezone(where).utcoffset() or timedelta(0)
        if offset % size:
            raise Invalid(f'{time_zone} is not whole {finest}s from UTC; finest="quarter" may do', field="time_zone")
