"""`Rollups`: totals, counts, means and extremes by hour, day, week, month and year.

A bucket is recomputed from the level below and never added to, so that a repeated run changes nothing. Runs find new
events by their arrival, not by their time, so late events reach every level. Each run has a number, and a run never
overwrites a bucket that a later run has written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any, TypeVar, cast, get_args
from zoneinfo import ZoneInfo

from bson.timestamp import Timestamp
from pymongo.client_session import ClientSession

from squinney import checks
from squinney.analytics import rules
from squinney.analytics.calendar import SIZES, Unit, floor, zone
from squinney.analytics.errors import Frozen
from squinney.analytics.events.documents import EVENTS
from squinney.analytics.hits.increments import retry_duplicates
from squinney.analytics.policy import read_policy
from squinney.analytics.rollups import intervals, pipelines
from squinney.analytics.rollups.documents import PAGE_BYTES, ROLLUPS, RUNS, Bucket, collection_of
from squinney.analytics.rollups.intervals import Interval
from squinney.analytics.rollups.pipelines import HOURLY, QUARTER_HOURLY, Config, Finest, Level, RollupStep
from squinney.errors import Conflict, Invalid
from squinney.mongo.deadlines import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db, Document

T = TypeVar("T")
Buckets = dict[Level, set[datetime]]  # the start times of the buckets of each level

# Longer than any write may take: transactions and the event log's writes end after at most 60 s.
OVERLAP_SECONDS = 90
BUCKETS_AT_ONCE = 1_000
MAX_KEYS = 1_000
MAX_BUCKETS = 100_000
SECONDS = 3_600
# Patterns for the name of a roll-up, the name of a collection, and the path of a field.
_NAME, _COLLECTION, _PATH = r"[A-Za-z_][A-Za-z0-9_-]*", r"[^$.]+(\.[^$.]+)*", r"[^$.][^.]*(\.[^$.][^.]*)*"
_RESERVED = ("hits", "system")


@dataclass(frozen=True)
class Ran:
    """The number of buckets that a run recomputed, per level; `moved` is True if the run moved the watermark."""

    run: int
    buckets: dict[str, int]
    moved: bool


class Rollups:
    """Hierarchical aggregation of a collection of events: `key` and `value` name the fields to group by and to sum.

    A key may consist of several fields, separated by commas: a roll-up with `key="site,path"` is read with the key
    `{"site": ..., "path": ...}`. Each event needs an `arrived` timestamp that MongoDB sets at the insert. With
    `finest="quarter"` there is a level of quarters of an hour, which time zones with an offset of half an hour need.
    Each combination of source and fields needs its own `name`, and the collections of `rollup_collections(name)`.
    """

    def __init__(
        self,
        db: Db,
        source: str = EVENTS,
        key: str = "userid",
        value: str = "length",
        time: str = "time",
        time_zone: str = "UTC",
        *,
        name: str = ROLLUPS,
        finest: Finest = "hour",
        overlap_seconds: int = OVERLAP_SECONDS,
    ) -> None:
        self._db = pinned(db)
        self.name = checks.text(name, "name", max_length=50, pattern=_NAME)
        if self.name in _RESERVED:
            raise Invalid(f"name must not be one of {', '.join(_RESERVED)}, which are in use", field="name")
        checks.text(source, "source", max_length=100, pattern=_COLLECTION)
        keys = [("key", part) for part in checks.text(key, "key", max_length=200).split(",")]
        for field, path in (*keys, ("value", value), ("time", time)):
            checks.text(path, field, max_length=200, pattern=_PATH)
        if source == EVENTS and time != "time":
            raise Invalid("time must be time, by which the event log stores its events", field="time")
        self.config = Config(source, key, value, time, time_zone, finest)
        self._tz = zone(time_zone)
        if finest not in get_args(Finest):
            raise Invalid("finest must be one of hour, quarter", field="finest")
        self.steps = HOURLY if finest == "hour" else QUARTER_HOURLY
        self._overlap_seconds = checks.integer(overlap_seconds, "overlap_seconds", minimum=0)
        self._may_start = True
        _require_whole_offsets(time_zone, finest)

    @classmethod
    def registered(cls, db: Db) -> list[Rollups]:
        """Return every roll-up that has run in this database and is not stopped; `run` fails if it is stopped later."""
        states = pinned(db)[RUNS].find({"stopped": None})
        registered = [cls(db, **state["config"], name=state["_id"]) for state in states]
        for rollups in registered:
            rollups._may_start = False
        return registered

    # ---- recomputing ----

    @operation(SECONDS)
    def run(self, until: datetime | None = None) -> Ran:
        """Update every level with the events that have arrived; with `until`, only buckets that begin before it.

        Atomic: each bucket separately, and moving the watermark, which happens only if this run is the latest one.
        After a crash: some buckets are newer than others; the next run recomputes them all. The same holds for
        concurrent runs, and for a run that stalls and resumes after another one.
        Raises: `Conflict`, before anything is changed, if the name belongs to a roll-up with other settings, or if the
        retention policy may delete events that are not counted.
        """
        before = checks.time(until, "until") if until else None
        with self._db.client.start_session(causal_consistency=True) as session:
            state, began = self._begin(session, {"$unset": {"stopped": ""}})
            arrived = arrived_since(state.get("watermark"), self._overlap_seconds)
            slots = self._touched(arrived, session)
            if not slots:
                # guard: documents without `arrived` are refused
                self._require_arrivals()
            chosen = [slot for slot in slots if before is None or slot < before]
            buckets = self._recompute(self.steps, self.buckets_of(chosen), state["run"], session)
            moved = len(chosen) == len(slots) and self._move_watermark(state["run"], began, session)
        return Ran(state["run"], buckets, moved)

    @operation(SECONDS)
    def rebuild(self, start: datetime, end: datetime) -> Ran:
        """Recompute every bucket that has or had events from `start` (included) to `end` (excluded), at all levels.

        Atomic: as `run`; the watermark does not move.
        After a crash: some buckets are recomputed; call it again.
        Raises: `Frozen` if raw events of that time were dropped.
        """
        start, end = rules.checked_range(start, end)
        frozen = self.frozen_before()
        if frozen and start < frozen:
            message = f"start: the events before {frozen:%Y-%m-%d %H:%M} were dropped, so buckets cannot be rebuilt"
            raise Frozen(message, field="start")
        with self._db.client.start_session(causal_consistency=True) as session:
            state, _ = self._begin(session)
            slots = self._touched({self.config.time: {"$gte": start, "$lt": end}}, session)
            first = start - timedelta(hours=1)
            buckets = self._with_stored(slots, max(first, frozen) if frozen else first, end, session)
            return Ran(state["run"], self._recompute(self.steps, buckets, state["run"], session), moved=False)

    @operation(SECONDS)
    def regroup(self, start: datetime, end: datetime) -> Ran:
        """Recompute the coarser levels from the finest one; use it where raw events were dropped.

        Atomic: as `run`; the watermark does not move.
        After a crash: some buckets are recomputed; call it again.
        """
        start, end = rules.checked_range(start, end)
        with self._db.client.start_session(causal_consistency=True) as session:
            state, _ = self._begin(session)
            buckets = self._with_stored([], start, end, session)
            return Ran(state["run"], self._recompute(self.steps[1:], buckets, state["run"], session), moved=False)

    @operation()
    def stop(self) -> None:
        """Stop this roll-up, so that any retention policy is allowed again. The buckets stay.

        A later `run` starts again, with all events that exist then.
        """
        stopped = {"$set": {"stopped": True}, "$unset": {"watermark": ""}, "$inc": {"run": 1}}
        self._db[RUNS].update_one({"_id": self.name}, stopped)

    def _begin(self, session: ClientSession, change: Document | None = None) -> tuple[Document, Timestamp]:
        """Take the next run number; the cluster time of that write becomes the next watermark."""
        self._require_same_config(self._db[RUNS].find_one({"_id": self.name}))
        self._require_retention()
        next_run = {"$inc": {"run": 1}, "$setOnInsert": {"config": asdict(self.config)}, **(change or {})}
        where = {"_id": self.name} if self._may_start else {"_id": self.name, "stopped": None}
        state = self._db[RUNS].find_one_and_update(
            where, next_run, upsert=self._may_start, return_document=True, session=session
        )
        if state is None:
            raise Conflict(f"the roll-up {self.name} was stopped", field="name")
        began = session.operation_time
        assert began is not None
        self._require_same_config(state)  # two roll-ups may have started under one name at the same moment
        try:
            self._require_retention()
        except Conflict:  # the policy was changed at the same moment
            self.stop()
            raise
        return state, began

    def _require_same_config(self, state: Document | None) -> None:
        if state and state["config"] != asdict(self.config):
            raise Conflict(f"name: {self.name} rolls up {state['config']}; use another name", field="name")

    def _require_arrivals(self) -> None:
        """Refuse a user's collection whose documents have no `arrived`, because no run would ever find them."""
        source = self._db[self.config.source]
        if self.config.source == EVENTS or source.find_one({}, {"_id": 1}) is None:
            return
        if source.find_one({"arrived": {"$type": "timestamp"}}, {"_id": 1}) is None:
            message = f"source: the documents of {self.config.source} have no `arrived`; insert it as Timestamp(0, 0)"
            raise Invalid(message, field="source")

    def _require_retention(self) -> None:
        if self.config.source == EVENTS and read_policy(self._db).strategy == "ttl":
            raise Conflict("roll-ups need the retention strategy keep or rotate: ttl deletes events too early")

    def buckets_of(self, slots: Iterable[datetime]) -> Buckets:
        """Return the buckets of each level that overlap these hours or quarters of UTC."""
        finest, *others = self.steps
        begins = intervals.finest_within(slots, SIZES[finest.unit], self._tz)
        days = {floor(at, "day", self._tz) for at in begins}
        buckets: Buckets = {finest.level: begins}
        for step in others:
            parts = begins if step.unit == "hour" else days
            buckets[step.level] = {floor(at, step.unit, self._tz) for at in parts}
        return buckets

    def intervals_of(self, step: RollupStep, begins: Sequence[datetime]) -> list[Interval]:
        """Return the time intervals of these buckets of a level, sorted."""
        if step.made_from is None:
            return intervals.of_finest(begins, SIZES[step.unit], self._tz)
        return intervals.of_buckets(begins, step.unit, self._tz)

    def _touched(self, match: Document, session: ClientSession) -> list[datetime]:
        """Return the hours or quarters of UTC that contain matching events, except those whose events were dropped."""
        stages = pipelines.touched(self.config, match, since=self.frozen_before())
        rows = self._db[self.config.source].aggregate(stages, session=session, allowDiskUse=True)
        return [row["_id"] for row in rows]

    def _with_stored(
        self, slots: Iterable[datetime], start: datetime, end: datetime, session: ClientSession
    ) -> Buckets:
        """Return the buckets of these slots and the stored ones, since a stored one without events must be emptied."""
        stored = {step.level: self.stored(step, start, end, session) for step in self.steps}
        size = SIZES[self.steps[0].unit]
        buckets = self.buckets_of({*slots, *(intervals.whole(at, size) for at in stored[self.steps[0].level])})
        return {level: begins | stored[level] for level, begins in buckets.items()}

    @operation(SECONDS, reads_only=True)
    def stored(
        self, step: RollupStep, start: datetime, end: datetime, session: ClientSession | None = None
    ) -> set[datetime]:
        """Return the start times of a level's stored buckets from `start` (included) to `end` (excluded)."""
        stages: list[Document] = [{"$match": pipelines.CHANGED(start=start, end=end)}, {"$group": {"_id": "$_id.d"}}]
        rows = self._db[collection_of(self.name, step.level)].aggregate(stages, session=session, allowDiskUse=True)
        return {row["_id"] for row in rows}

    def _recompute(
        self, steps: Sequence[RollupStep], buckets: Buckets, run: int, session: ClientSession
    ) -> dict[str, int]:
        for step in steps:
            for chunk in chunks(sorted(buckets[step.level]), BUCKETS_AT_ONCE):
                self._recompute_level(step, chunk, run, session)
        return {step.level: len(buckets[step.level]) for step in steps}

    def _recompute_level(self, step: RollupStep, begins: Sequence[datetime], run: int, session: ClientSession) -> None:
        into = collection_of(self.name, step.level)
        if times := self.intervals_of(step, begins):
            if step.made_from is None:
                name, stages = self.config.source, pipelines.from_events(self.config, times, run, into)
            else:
                name, stages = (
                    collection_of(self.name, step.made_from),
                    [*pipelines.summed(times), *pipelines.merged(run, into)],
                )
            merge = partial(self._db[name].aggregate, stages, session=session, allowDiskUse=True)
            retry_duplicates(merge)  # two runs may create the same bucket at the same moment
        if (frozen := self.frozen_before()) and step.made_from is None and begins[0] < frozen:
            raise Frozen(f"the events before {frozen:%Y-%m-%d %H:%M} were dropped during this run; run it again")
        where, update = pipelines.emptied(begins, run)
        self._db[into].update_many(where, update, session=session)

    def _move_watermark(self, run: int, began: Timestamp, session: ClientSession) -> bool:
        latest = {"_id": self.name, "run": run}
        moved = self._db[RUNS].update_one(latest, {"$set": {"watermark": began}}, session=session)
        return moved.matched_count == 1

    @operation(reads_only=True)
    def frozen_before(self) -> datetime | None:
        """Return the time before which raw events were dropped, or None; older finest buckets are never recomputed."""
        return read_policy(self._db).frozen_before if self.config.source == EVENTS else None

    # ---- reading ----

    @operation(60, reads_only=True)
    def read(
        self, level: Level, key: Any, start: datetime, end: datetime, *, time_zone: str | None = None
    ) -> list[Bucket]:
        """Return a key's non-empty buckets that begin from `start` (included) to `end` (excluded), oldest first.

        With another `time_zone` than the roll-up's own, the buckets are added up from the finest level; the first and
        the last one then contain only the time between `start` and `end`.

        Raises: `Invalid`; also for more than 100,000 buckets.
        """
        start, end = rules.checked_range(start, end)
        step = self._step(level)
        if time_zone is None or time_zone == self.config.time_zone or step.made_from is None:
            documents = self._find(level, key, start, end)
        else:
            _require_whole_offsets(time_zone, self.config.finest)
            documents = _regrouped(self._find(self.steps[0].level, key, start, end), step.unit, zone(time_zone))
        buckets = [_bucket(document) for document in islice(documents, MAX_BUCKETS + 1)]
        if len(buckets) > MAX_BUCKETS:
            message = f"end: at most {MAX_BUCKETS} buckets are returned; use a shorter time or a coarser level"
            raise Invalid(message, field="end", limit=MAX_BUCKETS)
        return buckets

    def _find(self, level: Level, key: Any, start: datetime, end: datetime) -> Iterator[Document]:
        where = pipelines.READ(key=self.config.stored_key(key), start=start, end=end)
        return iter(self._db[collection_of(self.name, level)].find(where).sort("_id", 1))

    def _step(self, level: Level) -> RollupStep:
        matching = next((step for step in self.steps if step.level == level), None)
        if matching is None:
            raise Invalid(f"level must be one of {', '.join(step.level for step in self.steps)}", field="level")
        return matching

    @operation(60, reads_only=True)
    def top_keys(self, level: Level, at: datetime, limit: int = 10) -> list[Bucket]:
        """Return the buckets with the largest totals among those that begin at this time.

        Raises: `Invalid`.
        """
        self._step(level)
        checks.integer(limit, "limit", minimum=1, maximum=MAX_KEYS)
        where = {"_id.d": checks.time(at, "at"), "value.count": {"$gt": 0}}
        documents = self._db[collection_of(self.name, level)].find(where).sort("value.total", -1).limit(limit)
        return [_bucket(document) for document in documents]


def page_bytes(db: Db) -> Rollups:
    """Return the roll-up of bytes per site and page, which the web page of analytics shows."""
    return Rollups(db, key="site,path", value="bytes", time="time", name=PAGE_BYTES)


def _bucket(document: Document) -> Bucket:
    value = {name: number for name, number in document["value"].items() if name != "ts"}
    return cast(Bucket, {"key": document["_id"]["k"], "at": document["_id"]["d"], **value})


def _regrouped(finest: Iterator[Document], unit: Unit, tz: ZoneInfo) -> Iterator[Document]:
    """Add up a key's buckets of the finest level to the units of another time zone, sorted."""
    values: dict[datetime, Document] = {}
    key: Any = None
    for bucket in finest:
        key, value, begin = bucket["_id"]["k"], bucket["value"], floor(bucket["_id"]["d"], unit, tz)
        sums = values.setdefault(begin, {"total": 0, "count": 0, "min": value["min"], "max": value["max"]})
        sums["total"] += value["total"]
        sums["count"] += value["count"]
        sums["min"], sums["max"] = min(sums["min"], value["min"]), max(sums["max"], value["max"])
        if len(values) > MAX_BUCKETS:
            break
    for begin, sums in sorted(values.items()):
        yield {"_id": {"k": key, "d": begin}, "value": {**sums, "mean": sums["total"] / sums["count"]}}


def chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield the items in slices of `size`."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def arrived_since(watermark: Timestamp | None, overlap_seconds: int = OVERLAP_SECONDS) -> Document:
    """Return the filter for documents that arrived after the watermark, or whose write may have been running then."""
    since = watermark.time - overlap_seconds if watermark else 0
    return {"arrived": {"$gt": Timestamp(max(0, since), 0)}}


def _require_whole_offsets(time_zone: str, finest: Finest) -> None:
    """Refuse time zones whose days do not begin with a bucket of the finest level; it checks the years 1990 to 2039."""
    tz = zone(time_zone)
    for month in range(12 * 50):
        at = datetime(1990 + month // 12, month % 12 + 1, 1, tzinfo=UTC)
        offset = at.astimezone(tz).utcoffset() or timedelta(0)
        if offset % SIZES[finest]:
            message = f'time_zone: the offset of {time_zone} is not a multiple of one {finest}; try finest="quarter"'
            raise Invalid(message, field="time_zone")
