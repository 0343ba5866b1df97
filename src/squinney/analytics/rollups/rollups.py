"""`Rollups`: totals, counts, means and extremes by hour, day, week, month and year.

A bucket is recomputed from the level below, never added to, so that doing it twice changes nothing. Progress follows
the arrival of events, not their time, so late ones reach every level. Each run has a number, and no bucket is
overwritten by a run older than the one that wrote it.
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
from squinney.analytics.events.partitions import EVENTS, EventPartitions
from squinney.analytics.hits.increments import retry_duplicates
from squinney.analytics.rollups import intervals, pipelines
from squinney.analytics.rollups.documents import PAGE_BYTES, ROLLUPS, RUNS, Bucket
from squinney.analytics.rollups.intervals import Interval
from squinney.analytics.rollups.pipelines import HOURLY, QUARTER_HOURLY, Config, Finest, Level, Step
from squinney.errors import Conflict, Invalid
from squinney.mongo.connect import operation
from squinney.mongo.pinned import pinned
from squinney.mongo.schema import Db, Document

T = TypeVar("T")
Buckets = dict[Level, set[datetime]]  # when those of each level begin

# Longer than any write may take: transactions end after 60 s, and the event log's own writes are bounded by 60 s.
OVERLAP_SECONDS = 90
BUCKETS_AT_ONCE = 1_000
MOST_KEYS = 1_000
MOST_BUCKETS = 100_000
SECONDS = 3_600
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

    With commas between them, several fields are one key: `key="site,path"` is read by `{"site": ..., "path": ...}`.
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
        keys = [("key", part) for part in checks.text(key, "key", most=200).split(",")]
        for field, path in (*keys, ("value", value), ("time", time)):
            checks.text(path, field, most=200, pattern=_PATH)
        self.config = Config(source, key, value, time, time_zone, finest)
        self.where = zone(time_zone)
        if finest not in get_args(Finest):
            raise Invalid("finest must be hour or quarter", field="finest")
        self.steps = HOURLY if finest == "hour" else QUARTER_HOURLY
        self._overlap_seconds = checks.integer(overlap_seconds, "overlap_seconds", least=0)
        self._partitions = EventPartitions(db, refresh_seconds=0)
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
        before = checks.time(until, "until") if until else None
        with self._db.client.start_session(causal_consistency=True) as session:
            known, began = self._begin(session, {"$unset": {"stopped": ""}})
            arrived = arrived_since(known.get("watermark"), self._overlap_seconds)
            slots = self._touched(arrived, session)
            if not slots:
                self._require_arrivals()
            chosen = [slot for slot in slots if before is None or slot < before]
            buckets = self._recompute(self.steps, self.buckets_of(chosen), known["run"], session)
            moved = len(chosen) == len(slots) and self._move_watermark(known["run"], began, session)
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
            slots = self._touched({self.config.time: {"$gte": start, "$lt": end}}, session)
            begins = start - timedelta(hours=1)
            found = self._with_stored(slots, max(begins, gone) if gone else begins, end, session)
            return Ran(known["run"], self._recompute(self.steps, found, known["run"], session), moved=False)

    @operation(SECONDS)
    def regroup(self, start: datetime, end: datetime) -> Ran:
        """Recompute the coarser levels from the finest one, which is all there is where raw events are gone.

        Atomic: as `run`; the watermark stays.
        After a crash: regroup again.
        """
        start, end = rules.checked_range(start, end)
        with self._db.client.start_session(causal_consistency=True) as session:
            known, _ = self._begin(session)
            found = self._with_stored([], start, end, session)
            return Ran(known["run"], self._recompute(self.steps[1:], found, known["run"], session), moved=False)

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
        taken = {"$inc": {"run": 1}, "$setOnInsert": {"config": asdict(self.config)}, **(change or {})}
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

    def _require_own(self, known: Document | None) -> None:
        if known and known["config"] != asdict(self.config):
            raise Conflict(f"{self.name} rolls up {known['config']}; use another name", field="name")

    def _require_arrivals(self) -> None:
        """In a collection of one's own, events without an arrival would never be found."""
        source = self._db[self.config.source]
        if self.config.source == EVENTS or source.find_one({}, {"_id": 1}) is None:
            return
        if source.find_one({"arrived": {"$type": "timestamp"}}, {"_id": 1}) is None:
            said = f"the documents of {self.config.source} have no `arrived`: insert it as Timestamp(0, 0)"
            raise Invalid(said, field="source")

    def _require_kept(self) -> None:
        if self.config.source == EVENTS and self._partitions.policy().strategy not in ("keep", "rotate"):
            raise Conflict("roll-ups need retention that keeps or rotates events: others lose them unseen")

    def buckets_of(self, slots: Iterable[datetime]) -> Buckets:
        """The buckets of each level that have a part in these whole hours or quarters of UTC."""
        finest, *others = self.steps
        begins = intervals.finest_within(slots, SIZES[finest.unit], self.where)
        days = {floor(at, "day", self.where) for at in begins}
        found: Buckets = {finest.level: begins}
        for step in others:
            parts = begins if step.unit == "hour" else days
            found[step.level] = {floor(at, step.unit, self.where) for at in parts}
        return found

    def intervals_of(self, step: Step, begins: Sequence[datetime]) -> list[Interval]:
        """Which time belongs to these buckets of a level, in order."""
        if step.made_from is None:
            return intervals.of_finest(begins, SIZES[step.unit], self.where)
        return intervals.of_buckets(begins, step.unit, self.where)

    def _touched(self, match: Document, session: ClientSession) -> list[datetime]:
        if gone := self.frozen_before():
            asked = match.get(self.config.time, {})
            match = {**match, self.config.time: {**asked, "$gte": max(gone, asked.get("$gte", gone))}}
        first, *others = self.collections()
        stages = pipelines.touched(self.config, match, others)
        return [row["_id"] for row in self._db[first].aggregate(stages, session=session, allowDiskUse=True)]

    def _with_stored(
        self, slots: Iterable[datetime], start: datetime, end: datetime, session: ClientSession
    ) -> Buckets:
        """The buckets of these slots and all that exist: those without events must become empty."""
        stored = {step.level: self.stored(step, start, end, session) for step in self.steps}
        size = SIZES[self.steps[0].unit]
        found = self.buckets_of({*slots, *(intervals.whole(at, size) for at in stored[self.steps[0].level])})
        return {level: begins | stored[level] for level, begins in found.items()}

    @operation(SECONDS, reads_only=True)
    def stored(self, step: Step, start: datetime, end: datetime, session: ClientSession | None = None) -> set[datetime]:
        """When the buckets of a level begin that there are from `start` to before `end`."""
        stages: list[Document] = [{"$match": pipelines.CHANGED(start=start, end=end)}, {"$group": {"_id": "$_id.d"}}]
        rows = self._db[f"{self.name}.{step.level}"].aggregate(stages, session=session, allowDiskUse=True)
        return {row["_id"] for row in rows}

    def _recompute(self, steps: Sequence[Step], found: Buckets, run: int, session: ClientSession) -> dict[str, int]:
        for step in steps:
            for chunk in chunks(sorted(found[step.level]), BUCKETS_AT_ONCE):
                self._recompute_level(step, chunk, run, session)
        return {step.level: len(found[step.level]) for step in steps}

    def _recompute_level(self, step: Step, begins: Sequence[datetime], run: int, session: ClientSession) -> None:
        into = f"{self.name}.{step.level}"
        if found := self.intervals_of(step, begins):
            name, stages = self._recomputed(step, found, run, into)
            merge = partial(self._db[name].aggregate, stages, session=session, allowDiskUse=True)
            retry_duplicates(merge)  # two runs may make the same bucket at the same moment
        if (gone := self.frozen_before()) and step.made_from is None and begins[0] < gone:
            raise Frozen(f"the events before {gone:%Y-%m-%d %H:%M} were dropped under this run; run it again")
        where, update = pipelines.emptied(begins, run)
        self._db[into].update_many(where, update, session=session)

    def _recomputed(self, step: Step, found: list[Interval], run: int, into: str) -> tuple[str, list[Document]]:
        """From which collection, and how."""
        if step.made_from is None:
            first, *others = self.collections(found[0].start, found[-1].end)
            return first, pipelines.from_events(self.config, found, run, into, others)
        return f"{self.name}.{step.made_from}", pipelines.from_level(found, run, into)

    def _move_watermark(self, run: int, began: Timestamp, session: ClientSession) -> bool:
        latest = {"_id": self.name, "run": run}
        moved = self._db[RUNS].update_one(latest, {"$set": {"watermark": began}}, session=session)
        return moved.matched_count == 1

    @operation(reads_only=True)
    def collections(self, start: datetime | None = None, end: datetime | None = None) -> list[str]:
        """Where the events from `start` to before `end` may be."""
        if self.config.source != EVENTS:
            return [self.config.source]
        return self._partitions.names_in_main_database(start, end)

    @operation(reads_only=True)
    def frozen_before(self) -> datetime | None:
        """Before when raw events are gone, if any are: buckets of the finest level stay as they are there."""
        return self._partitions.policy(fresh=True).frozen_before if self.config.source == EVENTS else None

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
        if time_zone is None or time_zone == self.config.time_zone or step.made_from is None:
            found: Iterator[Document] = iter(self._find(level, key, start, end))
        else:
            _require_whole_offsets(time_zone, self.config.finest)
            found = _regrouped(self._find(self.steps[0].level, key, start, end), step.unit, zone(time_zone))
        buckets = [_bucket(document) for document in islice(found, MOST_BUCKETS + 1)]
        if len(buckets) > MOST_BUCKETS:
            said = f"at most {MOST_BUCKETS} buckets at once: ask for a shorter time or a coarser level"
            raise Invalid(said, field="end", limit=MOST_BUCKETS)
        return buckets

    def _find(self, level: Level, key: Any, start: datetime, end: datetime) -> Iterator[Document]:
        where = pipelines.READ(key=self.config.stored_key(key), start=start, end=end)
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
        where = {"_id.d": checks.time(at, "at"), "value.count": {"$gt": 0}}
        found = self._db[f"{self.name}.{level}"].find(where).sort("value.total", -1).limit(limit)
        return [_bucket(document) for document in found]


def page_bytes(db: Db) -> Rollups:
    """The bytes of each page of each site, which the page of analytics shows."""
    return Rollups(db, key="site,path", value="bytes", time="time", name=PAGE_BYTES)


def _bucket(document: Document) -> Bucket:
    value = {name: number for name, number in document["value"].items() if name != "ts"}
    return cast(Bucket, {"key": document["_id"]["k"], "at": document["_id"]["d"], **value})


def _regrouped(finest: Iterator[Document], unit: Unit, where: ZoneInfo) -> Iterator[Document]:
    """A key's buckets of the finest level as those of another calendar, in order."""
    values: dict[datetime, Document] = {}
    key: Any = None
    for bucket in finest:
        key, value, begin = bucket["_id"]["k"], bucket["value"], floor(bucket["_id"]["d"], unit, where)
        sums = values.setdefault(begin, {"total": 0, "count": 0, "min": value["min"], "max": value["max"]})
        sums["total"] += value["total"]
        sums["count"] += value["count"]
        sums["min"], sums["max"] = min(sums["min"], value["min"]), max(sums["max"], value["max"])
        if len(values) > MOST_BUCKETS:
            break
    for begin, sums in sorted(values.items()):
        yield {"_id": {"k": key, "d": begin}, "value": {**sums, "mean": sums["total"] / sums["count"]}}


def chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """The items, so many at a time."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def arrived_since(watermark: Timestamp | None, overlap_seconds: int = OVERLAP_SECONDS) -> Document:
    """The filter for what arrived behind a watermark, or may have been on its way then."""
    since = watermark.time - overlap_seconds if watermark else 0
    return {"arrived": {"$gt": Timestamp(max(0, since), 0)}}


def _require_whole_offsets(time_zone: str, finest: Finest) -> None:
    """Days must begin where a bucket of the finest level does; looked at since 1990, which covers every log."""
    where = zone(time_zone)
    for month in range(12 * 50):
        at = datetime(1990 + month // 12, month % 12 + 1, 1, tzinfo=UTC)
        offset = at.astimezone(where).utcoffset() or timedelta(0)
        if offset % SIZES[finest]:
            raise Invalid(f'{time_zone} is not whole {finest}s from UTC; finest="quarter" may do', field="time_zone")
